"""What the claims on memorization share: sources, thresholds, and the quantities that a search changes.

The theory is that of Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers"
(ICLR 2024, arXiv 2306.02010). With r = min(n, d_h) it promises weights that fit H (r - 1) + 1 samples; that almost all
weights do, and what bounds the rank from above, is derived here.
"""

from __future__ import annotations

import re

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.parts import Mark, Source, Verdict, only

PROBE, MEMORIZE = ("probe",), ("memorize",)
SOFTMAX = only(attention="softmax")
STRAIGHT = 0.98  # R^2 from which on a line counts as straight: what a summary reports of the paper's fits
PLATEAU = 0.25  # gain per doubling of d_h beyond n, as a share of that up to n, that still counts as none

PAPER = "Mahdavi, Liao, Thrampoulidis, ICLR 2024, arXiv 2306.02010"
THEOREM = Source(
    f"{PAPER}, theorem 1; its exact + 1 as Dana, Pydi, Chevaleyre (arXiv 2411.10115) state it", Mark.SECONDARY
)
FIGURE_2 = Source(f"{PAPER}, caption of figure 2 (its R^2 >= {STRAIGHT} for straight: from a summary)", Mark.PAPER)
RANK_BOUND = Source(
    "each head's attention weights sum to 1, so the columns of Z span H (n - 1) + 1 dimensions at most; "
    "softmax is analytic, so almost all weights attain what some attain",
    Mark.DERIVED,
)


def samples(dataset: xr.Dataset) -> np.ndarray:
    """How many samples the other results are of: with a search, those at the capacity that it found."""
    return capacity(dataset) if "capacity" in dataset else dataset["samples"].values


def capacity(dataset: xr.Dataset) -> np.ndarray:
    """A search that found nothing counts as 0."""
    return np.maximum(dataset["capacity"].values, 0)


def is_wide_enough(dataset: xr.Dataset) -> np.ndarray:
    """d_h >= n: where the theorem's bound and that of the rank are the same."""
    return dataset["key_dim"].values >= dataset["context"].values


def is_searched_through(dataset: xr.Dataset) -> np.ndarray:
    """Points whose search saw a larger number fail. The others only know that their range (in `samples`) ended."""
    return capacity(dataset) < dataset["samples"].values


def is_of_fixed_samples(dataset: xr.Dataset) -> np.ndarray:
    """Not of a search, whose other results are those at the capacity."""
    return np.full(dataset.sizes["point"], "capacity" not in dataset)


def searched_from(dataset: xr.Dataset) -> int:
    """The least number of samples that the search tried, of which the file tells in its canonical sweep."""
    found = re.search(r"^search = \{.*\bfrom: (\d+)", str(dataset.attrs.get("spec_canonical", "")), re.M)
    return int(found.group(1)) if found else 1


def key_dim_plateau(result: str, dataset: xr.Dataset) -> Verdict:
    """Lines over log2 d_h up to n and from n on: is the second level?"""
    contexts = np.unique(dataset["context"].values)
    if contexts.size != 1:
        return Verdict.absent("the context varies together with the key dimension")
    n, key_dim = contexts[0], dataset["key_dim"].values
    below, beyond = dataset.isel(point=key_dim <= n), dataset.isel(point=key_dim >= n)
    if any(np.unique(it["key_dim"].values).size < 2 for it in (below, beyond)):
        return Verdict.absent("needs key dimensions on both sides of n, and n itself")
    up_to, after = (fits.line(np.log2(it["key_dim"].values), it[result].values) for it in (below, beyond))
    if not up_to.slope.value > 0:
        return Verdict.of(
            False, "gain a doubling of d_h up to n", up_to.slope, "> 0", up_to.points, "does not rise up to n"
        )
    ratio = after.slope.scaled(1 / up_to.slope.value)
    rises = np.isnan(up_to.slope.low) or up_to.slope.low > 0
    is_level = ratio.value <= PLATEAU or ratio.contains(0)
    return Verdict.of(
        bool(rises and is_level),
        "gain a doubling of d_h beyond n, over that up to n",
        ratio,
        0.0,
        int(dataset.sizes["point"]),
        f"{up_to.slope.value:.4g} a doubling up to n = {n}, {after.slope.value:.4g} beyond; "
        f"level if its interval has 0 or it is at most {PLATEAU}",
    )
