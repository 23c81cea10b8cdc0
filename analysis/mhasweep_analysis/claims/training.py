"""Claims on what trained attention memorizes (memorize): accuracy, error, and saturated heads."""

from __future__ import annotations

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.memorization import (
    FIGURE_2,
    MEMORIZE,
    PAPER,
    STRAIGHT,
    is_of_fixed_samples,
    key_dim_plateau,
)
from mhasweep_analysis.claims.parts import Claim, Mark, Source, Verdict, both, fitted, only, rise
from mhasweep_analysis.reader import stored, stores

MEMORIZED = 0.99  # mean accuracy from which on more heads can show nothing
SATURATED = 0.99  # largest attention weight from which on a head counts as saturated


def _accuracy_linear(dataset: xr.Dataset) -> Verdict:
    values = np.unique(dataset["heads"].values)
    means = np.array([dataset["accuracy"].values[dataset["heads"].values == it].mean() for it in values])
    is_short = means < MEMORIZED
    short = dataset.isel(point=np.isin(dataset["heads"].values, values[is_short]))
    if is_short.sum() < 3:
        return Verdict.absent(f"fewer than 3 numbers of heads leave the accuracy below {MEMORIZED}")
    fit = fitted(short, "accuracy", "heads")
    r2 = fits.line(values[is_short], means[is_short]).r2
    note = f"R^2 = {r2:.4f} of the means over replicates; straight from {STRAIGHT} on"
    if not is_short.all():
        note += f"; without H = {', '.join(f'{it:g}' for it in values[~is_short])}, where all is memorized"
    return Verdict.of(
        r2 >= STRAIGHT and fit.slope.low > 0,
        "slope: accuracy a head",
        fit.slope,
        "> 0",
        fit.points,
        note,
        R2=r2,
        intercept=fit.intercept.value,
    )


def _accuracy_context(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "accuracy", "context")


def _accuracy_plateau(dataset: xr.Dataset) -> Verdict:
    return key_dim_plateau("accuracy", dataset)


def _loss_heads(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "loss", "heads", falls=True)


def _loss_context(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "loss", "context", falls=True)


def _saturated_maps(dataset: xr.Dataset) -> Verdict:
    maps = [stored(dataset, int(point), "attention") for point in dataset["point"].values]
    return Verdict.measuring(
        "share of (sample, head) above 0.99",
        fits.mean([np.mean(it.max(axis=2) > SATURATED) for it in maps]).within(0, 1),
        len(maps),
        f"from the stored maps of {maps[0].shape[0]:,} samples a point",
    )


def _stores_maps(dataset: xr.Dataset) -> np.ndarray:
    return np.full(dataset.sizes["point"], stores(dataset, int(dataset["point"].values[0]), "attention"))


def _variants(dataset: xr.Dataset) -> Verdict:
    names = dataset["attention"].values
    result = "capacity" if "capacity" in dataset else "accuracy"
    if "softmax" not in names:
        return Verdict.absent("no softmax to compare with")
    others = [it for it in dict.fromkeys(names) if it != "softmax"]
    value = {it: dataset[result].values[names == it] for it in (*others, "softmax")}
    scatter = fits.noise(list(value.values()))
    gains = {it: fits.difference(value["softmax"], value[it], scatter) for it in others}
    best = max(others, key=lambda it: gains[it].value)
    words = ", ".join(f"{it} {value[it].mean():.4g}" for it in ("softmax", *others))
    return Verdict.measuring(
        f"{result} of {best} less that of softmax", gains[best], int(dataset.sizes["point"]), words
    )


CLAIMS = (
    Claim(
        "accuracy_linear_in_heads",
        MEMORIZE,
        "The memorized share of a fixed number of samples rises linearly with the heads H.",
        FIGURE_2,
        _accuracy_linear,
        ("accuracy",),
        {"heads": 3},
        rows=both(only(labels="classes"), is_of_fixed_samples),
        where="classes as labels and a fixed number of samples",
    ),
    Claim(
        "accuracy_rises_with_context",
        MEMORIZE,
        "The memorized share of a fixed number of samples rises with the rows n of a context.",
        FIGURE_2,
        _accuracy_context,
        ("accuracy",),
        {"context": 2},
        rows=both(only(labels="classes"), is_of_fixed_samples),
        where="classes as labels and a fixed number of samples",
    ),
    Claim(
        "accuracy_saturates_at_key_dim_n",
        MEMORIZE,
        "The memorized share of a fixed number of samples rises with d_h up to d_h = n, and not beyond.",
        Source(
            f"{PAPER}, caption of figure 2: monotonically as long as d_h <= n; no more beyond by its theorem",
            Mark.PAPER,
        ),
        _accuracy_plateau,
        ("accuracy",),
        {"key_dim": 3},
        rows=both(only(labels="classes"), is_of_fixed_samples),
        where="classes as labels and a fixed number of samples",
    ),
    Claim(
        "loss_falls_with_heads",
        MEMORIZE,
        "The error on random numbers falls with the heads H.",
        Source(f"{PAPER}, appendix on regression", Mark.UNVERIFIED),
        _loss_heads,
        ("loss",),
        {"heads": 2},
        rows=both(only(labels="regression"), is_of_fixed_samples),
        where="numbers as labels and a fixed number of samples",
    ),
    Claim(
        "loss_falls_with_context",
        MEMORIZE,
        "The error on random numbers falls with the rows n of a context.",
        Source(f"{PAPER}, appendix on regression", Mark.UNVERIFIED),
        _loss_context,
        ("loss",),
        {"context": 2},
        rows=both(only(labels="regression"), is_of_fixed_samples),
        where="numbers as labels and a fixed number of samples",
    ),
    Claim(
        "trained_heads_saturate",
        MEMORIZE,
        "Trained heads look at one row only (largest weight above 0.99) on many samples, as those of the proof do.",
        Source(f"{PAPER}, its figure on saturation", Mark.CODE),
        _saturated_maps,
        (),
        rows=_stores_maps,
        where="stored attention maps (store: [attention])",
    ),
    Claim(
        "variants_memorize_more",
        MEMORIZE,
        "Heads that are composed (talking heads, dcmha) memorize more than softmax at equal parameters.",
        Source("asked here of arXiv 2003.02436 and 2405.08553, which measure language modelling", Mark.QUESTION),
        _variants,
        ("parameters", "accuracy"),
        {"attention": 2},
        rows=only(match_parameters=True),
        where="match_parameters: true",
    ),
)
