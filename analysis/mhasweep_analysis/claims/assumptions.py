"""Claims on data: whether they satisfy what the theory of memorization assumes (assumptions)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.memorization import PAPER
from mhasweep_analysis.claims.parts import Claim, Mark, Source, Verdict

INDEPENDENT = 0.99  # share of random subsets from which on an assumption counts as fulfilled
ASSUMES = Source(f"{PAPER}, assumptions 1 and 2; 99 % of 5000 random subsets count as all", Mark.SECONDARY)


def _share(name: str, size: str, dataset: xr.Dataset) -> Verdict:
    """A share of random subsets, each replicate with orders of its own: Wilson's interval over all of them."""
    orders = int(dataset["orders"].values.sum())
    found = int(round(float(np.sum(dataset[name].values * dataset["orders"].values))))
    return Verdict.of(
        float(dataset[name].values.min()) >= INDEPENDENT,
        f"share of independent {size}-subsets",
        fits.share(found, orders),
        f">= {INDEPENDENT}",
        int(dataset.sizes["point"]),
        f"{orders:,} random subsets, 95 % interval by Wilson",
    )


def _assumption_1(dataset: xr.Dataset) -> Verdict:
    return _share("assumption1", "n", dataset)


def _assumption_2(dataset: xr.Dataset) -> Verdict:
    shares = dataset["assumption2"].values
    return Verdict.of(
        bool(np.all(shares == 1)), "least share of contexts of rank n", float(shares.min()), 1.0, shares.size
    )


def _assumption_3(dataset: xr.Dataset) -> Verdict:
    return _share("assumption3", "n", dataset)


def _general_position(dataset: xr.Dataset) -> Verdict:
    return _share("general_position", "d", dataset)


CLAIMS = (
    Claim(
        "assumption_1",
        ("assumptions",),
        "Any n queries are linearly independent (Kruskal rank at least n).",
        ASSUMES,
        _assumption_1,
        ("assumption1",),
    ),
    Claim("assumption_2", ("assumptions",), "Every context has rank n.", ASSUMES, _assumption_2, ("assumption2",)),
    Claim(
        "assumption_3",
        ("assumptions",),
        "Any n of the vectors query + mean of its context are linearly independent.",
        Source(f"{PAPER}, the weaker assumption before attention, as its notebook tests it", Mark.CODE),
        _assumption_3,
        ("assumption3",),
    ),
    Claim(
        "general_position",
        ("assumptions",),
        "Any d queries are linearly independent, as earlier bounds ask; the paper saw it fail in every model it tried.",
        Source(f"{PAPER}, table 1 and its notebooks", Mark.CODE),
        _general_position,
        ("general_position",),
    ),
)
