"""Claims on token selection: the direction of one head's weights (select), and noisy labels (overfit)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.parts import ALL, Claim, Mark, Source, Verdict, rise
from mhasweep_analysis.figures.parts import combinations, count
from mhasweep_analysis.reader import sweep_axes

SELECT, OVERFIT = ("select",), ("overfit",)
SATURATED = 0.99  # attention weight from which on a token counts as selected
NEARLY_ALL = 0.99  # of the runs: one that settles by the end has had no time to come nearer

SIZES = ("samples", "tokens", "dim")

SVM = "Tarzanagh, Li, Thrampoulidis, Oymak, arXiv 2308.16898"
BENIGN = "Sakamoto, Sato, ICML 2025, arXiv 2409.17625"


def _direction(dataset: xr.Dataset) -> Verdict:
    """Of every run, from the record on at which attention has settled: before, W turns to one separator after the
    other."""
    ratios = []
    for away, weight in zip(dataset["curve_misalignment"].values, dataset["curve_softmax_least"].values):
        away, weight = away[~np.isnan(weight)], weight[~np.isnan(weight)]
        unsettled = np.flatnonzero(weight < SATURATED)
        first = 0 if unsettled.size == 0 else int(unsettled[-1]) + 1
        if first + 1 < weight.size:
            ratios.append(float(away[-1] / away[first]))
    if not ratios:
        return Verdict.absent(f"in no run every sample's attention is on one token (above {SATURATED})")
    correlation = dataset["correlation"].values
    nearer = fits.share(sum(it < 1 for it in ratios), len(ratios))
    return Verdict.of(
        nearer.value >= NEARLY_ALL,
        "share of runs that come nearer to the separator once attention has settled",
        nearer,
        1.0,
        len(ratios),
        f"{NEARLY_ALL:g} counts; settled: above {SATURATED} in every sample; correlation at the end "
        f"{np.median(correlation):.4f} (median), least {correlation.min():.4f}",
    )


def _saturation(dataset: xr.Dataset) -> Verdict:
    steps, weight = dataset["curve_step"].values, dataset["curve_softmax_least"].values
    tenth = np.sum(steps <= np.nanmax(steps, axis=1, keepdims=True) / 10, axis=1) - 1
    end, before = dataset["softmax_least"].values, weight[np.arange(tenth.size), tenth]
    there = int(np.sum(end >= SATURATED))
    right = int(np.sum((end >= SATURATED) | (end > before)))
    return Verdict.of(
        right == end.size,
        "least over runs and samples of the largest weight",
        float(end.min()),
        "tends to 1",
        end.size,
        f"above {SATURATED} in {there:,} of {end.size:,} runs, higher than at a tenth of the steps in {right - there:,} others",
    )


def _best_tokens(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "optimal_share", "dim")


def _is_benign(dataset: xr.Dataset) -> Verdict:
    varying = [it for it in sweep_axes(dataset) if it != "replicate" and count(dataset, it) > 1]
    shares = {}
    for words, rows in combinations(dataset, varying):
        shares[words] = fits.share(int(rows["benign"].values.sum()), int(rows.sizes["point"]))
    everywhere = [words for words, share in shares.items() if share.value == 1]
    best = max(shares, key=lambda it: shares[it].value)
    return Verdict.of(
        bool(everywhere),
        f"share of runs that overfit benignly at {best}",
        shares[best],
        "1 somewhere",
        int(dataset.sizes["point"]),
        f"all runs at {'; '.join(everywhere)}" if everywhere else "nowhere all runs",
    )


def _strong_signal(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "error_flipped", "signal")


def _weak_signal(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "test_error", "signal", falls=True)


def _delay(dataset: xr.Dataset) -> Verdict:
    delay = dataset["delay"].values
    late = fits.share(int(np.sum(delay > 0)), delay.size)
    return Verdict.of(
        late.low > 0.5,
        "share of runs that generalize after the fit",
        late,
        "> 0.5",
        delay.size,
        f"generalize_step - fit_step goes from {delay.min():g} to {delay.max():g}",
    )


CLAIMS = (
    Claim(
        "direction_is_max_margin",
        SELECT,
        "The direction of W tends to that of the max-margin separator of the tokens it selects.",
        Source(f"{SVM}, abstract; other steps than its own: arXiv 2402.05738", Mark.PAPER),
        _direction,
        ("correlation", "curve_misalignment", "curve_softmax_least"),
        pooled=SIZES,
    ),
    Claim(
        "attention_saturates",
        SELECT,
        "Attention saturates: the largest weight of every sample tends to 1.",
        Source(f"{SVM}, its code and figures", Mark.CODE),
        _saturation,
        ("softmax_least", "curve_softmax_least", "curve_step"),
        pooled=SIZES,
    ),
    Claim(
        "dimension_selects_best_tokens",
        SELECT,
        "Over-parameterization leads to the best tokens: the share of samples that select theirs rises with d.",
        Source(f"{SVM}, abstract: it catalyzes global convergence", Mark.PAPER),
        _best_tokens,
        ("optimal_share",),
        {"dim": 2},
        pooled=("samples", "tokens"),
    ),
    Claim(
        "overfitting_is_benign",
        OVERFIT,
        "At some signal-to-noise ratio all flipped labels are fitted and the test error is low.",
        Source(f"{BENIGN}, abstract", Mark.PAPER),
        _is_benign,
        ("benign",),
        {"signal": 2},
        pooled=ALL,
    ),
    Claim(
        "strong_signal_ignores_flipped_labels",
        OVERFIT,
        "The stronger the signal, the fewer of the flipped labels are fitted.",
        Source(f"{BENIGN}: no overfitting at high ratios", Mark.SECONDARY),
        _strong_signal,
        ("error_flipped",),
        {"signal": 2},
    ),
    Claim(
        "signal_lowers_test_error",
        OVERFIT,
        "The stronger the signal, the lower the test error.",
        Source(f"{BENIGN}, which characterizes generalization by the ratio", Mark.SECONDARY),
        _weak_signal,
        ("test_error",),
        {"signal": 2},
    ),
    Claim(
        "generalization_comes_late",
        OVERFIT,
        "Where overfitting is benign, the test error gets low only after all labels are fitted.",
        Source(f"{BENIGN}, abstract: delayed acquisition of generalization after an initial phase of overfitting",
               Mark.PAPER),
        _delay,
        ("delay",),
        pooled=("signal",),
    ),
)
