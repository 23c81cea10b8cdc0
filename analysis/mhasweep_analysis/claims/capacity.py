"""Claims on the capacity that a search found (probe and memorize): the most samples that are memorized."""

from __future__ import annotations

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.memorization import (
    FIGURE_2,
    MEMORIZE,
    PAPER,
    PROBE,
    RANK_BOUND,
    SOFTMAX,
    STRAIGHT,
    THEOREM,
    capacity,
    is_searched_through,
    is_wide_enough,
    key_dim_plateau,
    searched_from,
)
from mhasweep_analysis.claims.parts import ALL, Claim, Mark, Source, Verdict, at_least, at_most, both, only, rise

BOTH = (*PROBE, *MEMORIZE)
BEFORE_LABELS = only(weights=("random", "constructed"))


def _capacity_linear(dataset: xr.Dataset) -> Verdict:
    fit = fits.line(dataset["heads"].values, capacity(dataset))
    return Verdict.of(
        fit.r2 >= STRAIGHT and fit.slope.low > 0,
        "slope: samples a head",
        fit.slope,
        "> 0",
        fit.points,
        f"R^2 = {fit.r2:.4f}; straight from {STRAIGHT} on",
        R2=fit.r2,
        intercept=fit.intercept.value,
    )


def _capacity_slope(dataset: xr.Dataset) -> Verdict:
    contexts = np.unique(dataset["context"].values)
    if contexts.size != 1:
        return Verdict.absent("the context varies together with the heads")
    theory = float(contexts[0] - 1)
    fit = fits.line(dataset["heads"].values, capacity(dataset))
    return Verdict.of(
        fit.slope.contains(theory) and fit.intercept.contains(1),
        "slope: samples a head",
        fit.slope,
        theory,
        fit.points,
        f"intercept {fit.intercept.value:.4g}, theory 1; R^2 = {fit.r2:.4f}",
        R2=fit.r2,
        intercept=fit.intercept.value,
    )


def _can_tell_bound(dataset: xr.Dataset) -> np.ndarray:
    """A search that found nothing tells only that the capacity is below where it began."""
    return (dataset["capacity"].values >= 0) | (searched_from(dataset) <= dataset["bound_lower"].values)


def _capacity_reaches(dataset: xr.Dataset) -> Verdict:
    return at_least(capacity(dataset), dataset["bound_lower"].values, "capacity", "H (min(n, d_h) - 1) + 1")


def _capacity_bounded(dataset: xr.Dataset) -> Verdict:
    shared = dataset["context_type"].values == "shared"
    width = dataset["bound_width"].values
    return at_most(
        capacity(dataset),
        np.where(shared, np.minimum(dataset["bound_shared"].values, width), width),
        "capacity",
        "H (n - 1) + 1 of a shared context, H d of own ones",
    )


def _capacity_counted(dataset: xr.Dataset) -> Verdict:
    return at_most(capacity(dataset), dataset["parameters"].values, "capacity", "parameters")


def _capacity_rises(dataset: xr.Dataset) -> Verdict:
    return rise(dataset.assign(capacity=dataset["capacity"].clip(min=0)), "capacity", "context")


def _capacity_plateau(dataset: xr.Dataset) -> Verdict:
    return key_dim_plateau("capacity", dataset.assign(capacity=dataset["capacity"].clip(min=0)))


CLAIMS = (
    Claim(
        "capacity_linear_in_heads",
        BOTH,
        "Memorization capacity rises linearly with the heads H.",
        Source(f"{PAPER}, caption of figure 2 (of the accuracy at a fixed T)", Mark.PAPER),
        _capacity_linear,
        ("capacity",),
        {"heads": 3},
        rows=is_searched_through,
        where="a search that was not cut off by its range",
    ),
    Claim(
        "capacity_slope_exact",
        PROBE,
        "With one context, fixed attention and d_h >= n, the capacity is H (n - 1) + 1: a line of slope n - 1 from 1.",
        RANK_BOUND,
        _capacity_slope,
        ("capacity",),
        {"heads": 3},
        rows=both(SOFTMAX, BEFORE_LABELS, only(context_type="shared"), is_wide_enough, is_searched_through),
        where="softmax, a shared context, random or constructed weights and d_h >= n",
    ),
    Claim(
        "capacity_reaches_bound",
        BOTH,
        "The capacity is at least the H (min(n, d_h) - 1) + 1 of the theorem.",
        THEOREM,
        _capacity_reaches,
        ("capacity", "bound_lower"),
        rows=both(SOFTMAX, is_searched_through, _can_tell_bound),
        where="softmax and a search that was not cut off by its range",
        pooled=("heads", "context", "key_dim"),
    ),
    Claim(
        "capacity_below_bound",
        PROBE,
        "Attention that does not know the labels fits no more numbers than Z can have rank.",
        RANK_BOUND,
        _capacity_bounded,
        ("capacity", "bound_shared", "bound_width"),
        rows=both(SOFTMAX, BEFORE_LABELS, only(labels="regression", context_type=("shared", "own"))),
        where="softmax, random or constructed weights and numbers as labels",
        pooled=("heads", "context", "key_dim"),
    ),
    Claim(
        "capacity_below_parameters",
        MEMORIZE,
        "A model fits no more random numbers than it has parameters.",
        Source("counting of parameters; exact fits only", Mark.DERIVED),
        _capacity_counted,
        ("capacity", "parameters"),
        rows=only(labels="regression"),
        where="numbers as labels",
        pooled=ALL,
    ),
    Claim(
        "capacity_rises_with_context",
        BOTH,
        "Memorization capacity rises with the rows n of a context.",
        FIGURE_2,
        _capacity_rises,
        ("capacity",),
        {"context": 2},
        rows=is_searched_through,
        where="a search that was not cut off by its range",
    ),
    Claim(
        "capacity_saturates_at_key_dim_n",
        BOTH,
        "Memorization capacity rises with d_h up to d_h = n, and not beyond.",
        Source(
            f"{PAPER}, caption of figure 2: monotonically as long as d_h <= n; no more beyond by its theorem",
            Mark.PAPER,
        ),
        _capacity_plateau,
        ("capacity",),
        {"key_dim": 3},
        rows=is_searched_through,
        where="a search that was not cut off by its range",
    ),
)
