"""Claims on the features Z of attention (probe): their rank, what a readout of them fits, and where heads look."""

from __future__ import annotations

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.memorization import PAPER, PROBE, RANK_BOUND, SOFTMAX, THEOREM, is_wide_enough, samples
from mhasweep_analysis.claims.parts import ALL, Claim, Mark, Source, Verdict, at_least, both, exactly, only


def _rank_shared(dataset: xr.Dataset) -> Verdict:
    theory = np.minimum.reduce([samples(dataset), dataset["bound_shared"].values, dataset["bound_width"].values])
    return exactly(dataset["rank"].values, theory, "rank")


def _rank_own(dataset: xr.Dataset) -> Verdict:
    return exactly(dataset["rank"].values, np.minimum(samples(dataset), dataset["bound_width"].values), "rank")


def _rank_reaches(dataset: xr.Dataset) -> Verdict:
    theory = np.minimum(samples(dataset), dataset["bound_lower"].values)
    return at_least(dataset["rank"].values, theory, "rank", "min(T, H (min(n, d_h) - 1) + 1)")


def _rank_added(dataset: xr.Dataset) -> Verdict:
    promised = np.minimum(dataset["context"].values, dataset["key_dim"].values) - 1
    return at_least(dataset["rank_per_head_min"].values, promised, "rank added", "min(n, d_h) - 1")


def _has_whole_heads(dataset: xr.Dataset) -> np.ndarray:
    """Every head has all of its samples, and there is more than one row to choose from."""
    most = np.minimum(dataset["context"].values, dataset["key_dim"].values)
    return (samples(dataset) >= dataset["bound_lower"].values) & (most > 1)


def _is_within_theorem(dataset: xr.Dataset) -> np.ndarray:
    return (dataset["samples"].values <= dataset["bound_lower"].values) & ("capacity" not in dataset)


def _fits_all(dataset: xr.Dataset) -> Verdict:
    fitted_all = dataset["memorized"].values
    return Verdict.of(
        bool(np.all(fitted_all == 1)),
        "share of the points that fit every label",
        float(fitted_all.mean()),
        1.0,
        fitted_all.size,
        f"{int(fitted_all.sum()):,} of {fitted_all.size:,} points",
    )


def _has_full_height(dataset: xr.Dataset) -> np.ndarray:
    return (dataset["samples"].values >= dataset["bound_shared"].values) & ("capacity" not in dataset)


def _conditioning(dataset: xr.Dataset) -> Verdict:
    """Singular values that are left above 1e-6 at the smallest d_h, beside those at the largest."""
    values, counts = dataset["key_dim"].values, dataset["rank_1e6"].values
    least, most = (counts[values == it].mean() for it in (values.min(), values.max()))
    return Verdict.measuring(
        "rank_1e6 at the smallest d_h / at the largest",
        float(least / most),
        values.size,
        f"{least:.4g} at d_h = {values.min()}, {most:.4g} at {values.max()}",
    )


def _saturated_probe(dataset: xr.Dataset) -> Verdict:
    return Verdict.measuring(
        "share of (sample, head) above 0.99",
        fits.mean(dataset["saturated"].values).within(0, 1),
        int(dataset.sizes["point"]),
    )


CLAIMS = (
    Claim(
        "rank_shared_exact",
        PROBE,
        "With one context for all samples and d_h >= n, the rank of Z is exactly H (n - 1) + 1, or T or H d if fewer.",
        RANK_BOUND,
        _rank_shared,
        ("rank", "bound_shared", "bound_width"),
        rows=both(SOFTMAX, only(context_type="shared"), is_wide_enough),
        where="softmax, a shared context and d_h >= n",
        pooled=ALL,
    ),
    Claim(
        "rank_own_exact",
        PROBE,
        "With a context of its own for every sample, the rank of Z is exactly H d, or T if fewer.",
        Source(
            "min(T, H d) is attained by a lemma of Dana, Pydi, Chevaleyre (AISTATS 2025, arXiv 2411.10115); "
            "that random weights have exactly this rank is derived",
            Mark.DERIVED,
        ),
        _rank_own,
        ("rank", "bound_width"),
        rows=both(SOFTMAX, only(context_type="own"), lambda it: it["context"].values > 1),
        where="softmax, own contexts and n > 1",
        pooled=ALL,
    ),
    Claim(
        "rank_reaches_bound",
        PROBE,
        "The rank of Z is at least H (min(n, d_h) - 1) + 1, or T if fewer, for random and trained weights too.",
        Source(
            f"{PAPER}, the proposition on the rank of Z, for some weights; that almost all attain it is derived here",
            Mark.DERIVED,
        ),
        _rank_reaches,
        ("rank", "bound_lower"),
        rows=SOFTMAX,
        where="softmax",
        pooled=ALL,
    ),
    Claim(
        "rank_per_head",
        PROBE,
        "Every head of the constructed weights adds at least min(n, d_h) - 1 to the rank.",
        Source(f"{PAPER}, the proof's induction over heads, reconstructed", Mark.DERIVED),
        _rank_added,
        ("rank_per_head_min", "bound_lower"),
        rows=both(only(weights="constructed"), _has_whole_heads),
        where="constructed weights, all samples of every head and min(n, d_h) > 1",
        pooled=ALL,
    ),
    Claim(
        "theorem_fits",
        PROBE,
        "The weights of the proof with the best readout fit any labels of H (min(n, d_h) - 1) + 1 samples.",
        THEOREM,
        _fits_all,
        ("memorized", "bound_lower"),
        rows=both(only(weights="constructed"), _is_within_theorem),
        where="constructed weights and T within the theorem",
        pooled=ALL,
    ),
    Claim(
        "small_key_dim_is_ill_conditioned",
        PROBE,
        "A small d_h costs conditioning, not rank: fewer singular values of Z are above 1e-6 of the largest.",
        Source("seen in numerical checks for this project; the theorem speaks of the exact rank", Mark.DERIVED),
        _conditioning,
        ("rank_1e6", "bound_shared"),
        {"key_dim": 2},
        rows=both(SOFTMAX, only(weights="random", context_type="shared"), _has_full_height),
        where="softmax, random weights, a shared context and T of at least H (n - 1) + 1",
    ),
    Claim(
        "heads_saturate",
        PROBE,
        "In the proof, heads look at one row only (largest weight above 0.99) on the samples of earlier heads.",
        Source(f"{PAPER}, its proof and its figure on saturation", Mark.SECONDARY),
        _saturated_probe,
        ("saturated",),
        rows=only(weights=("constructed", "trained")),
        where="constructed or trained weights",
    ),
)
