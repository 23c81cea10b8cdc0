"""Token selection: which tokens one head turns to (select), and what that means for noisy labels (overfit).

In the style of the figures of Tarzanagh et al., arXiv 2308.16898, and of Vasudeva et al., arXiv 2402.05738, on the
direction of W, and of Sakamoto and Sato, arXiv 2409.17625, on benign overfitting.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from mhasweep_analysis import fits
from mhasweep_analysis.figures.parts import (
    Kind, Panel, Spread, band, colour, count, lines, spread, value_axis, width)
from mhasweep_analysis.reader import ResultError

SELECT, OVERFIT = ("select",), ("overfit",)
RULES = ("step_rule", "step_size", "init")
THEORY = {"color": "0.45", "lw": 1.4, "zorder": 1}
COLOURS_MOST = 5
SNR = r"signal-to-noise ratio $\|\mu\|\,/\,\sqrt{d}$"


def correlation_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Correlation of W with the max-margin separator of the tokens it selects at that step, a line for every step rule,
    1 in the limit by the theory. Medians over the replicates; bands hold the middle half of them."""
    _along_training(dataset, axes, "curve_correlation", RULES)
    axes.axhline(1, label=r"theory: $\to 1$", **THEORY)
    axes.set_ylabel(r"$\langle W, W_{mm}\rangle\,/\,(\|W\|\,\|W_{mm}\|)$")
    axes.legend()
    return axes


def misalignment_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """One minus that correlation on a logarithmic axis: how fast the direction of W comes to the separator's. Medians
    over the replicates; bands hold the middle half of them."""
    _along_training(dataset, axes, "curve_misalignment", RULES)
    axes.set_yscale("log")
    axes.set_ylabel(r"$1 - \langle W, W_{mm}\rangle\,/\,(\|W\|\,\|W_{mm}\|)$")
    axes.legend()
    return axes


def softmax_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """How far attention has saturated: the largest weight of a sample, in the sample where it is least; 1 in the limit
    by the theory. Medians over the replicates; bands hold the middle half of them."""
    _along_training(dataset, axes, "curve_softmax_least", RULES)
    axes.axhline(1, label=r"theory: $\to 1$", **THEORY)
    axes.set_ylim(0, 1.04)
    axes.set_ylabel("largest attention weight, least over samples")
    axes.legend()
    return axes


def correlation_against_dim(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Correlation of W with the max-margin separator after training, against the dimension, a line for every number of
    samples. Medians over the replicates; bands hold the middle half of them."""
    parts = lines(dataset, ("samples",), "dim")
    for number, (words, rows) in enumerate(parts):
        band(axes, _middle(rows, "correlation", "dim"), number, len(parts), words)
    axes.axhline(1, label=r"theory: $\to 1$", **THEORY)
    value_axis(axes, dataset, "dim")
    axes.set_ylabel(r"$\langle W, W_{mm}\rangle\,/\,(\|W\|\,\|W_{mm}\|)$")
    axes.legend()
    return axes


def best_tokens_against_dim(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the replicates in which every sample's selected token is its best one, against the dimension, a line for
    every number of samples; bands are Wilson's 95 % intervals."""
    parts = lines(dataset, ("samples",), "dim")
    for number, (words, rows) in enumerate(parts):
        at = np.unique(rows["dim"].values)
        are_best = [rows["optimal_share"].values[rows["dim"].values == it] == 1 for it in at]
        shares = [fits.share(int(it.sum()), it.size) for it in are_best]
        band(axes, Spread(at, *(np.array(it) for it in zip(*shares))), number, len(parts), words)
    value_axis(axes, dataset, "dim")
    axes.set_ylim(-0.02, 1.04)
    axes.set_ylabel("share of runs that select the best tokens")
    axes.legend()
    return axes


def errors_against_snr(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Errors of the test samples, and of the training samples with flipped labels, against the signal-to-noise ratio.
    Green ground: overfitting is benign in all replicates, no training error and a low test error. Means and bands over
    the replicates."""
    _benign(dataset, axes)
    for number, (name, words) in enumerate((("test_error", "test samples"), ("error_flipped", "flipped labels"))):
        band(axes, spread(dataset, name, "snr"), number, 2, words)
    axes.set_ylim(-0.02, 1.04)
    return _snr_axis(axes, "share classified wrong")


def steps_against_snr(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The first logged steps from which on there is no training error and from which on the test error is low, against
    the signal-to-noise ratio; only where all replicates get there. By the theory generalization may come later than the
    fit. Green ground: overfitting is benign in all replicates. Means and bands over the replicates."""
    _benign(dataset, axes)
    for number, (name, words) in enumerate((("generalize_step", "generalizes"), ("fit_step", "fits all labels"))):
        ratios = np.unique(dataset["snr"].values)
        there = [it for it in ratios if bool(np.all(dataset[name].values[dataset["snr"].values == it] >= 0))]
        rows = dataset.isel(point=np.flatnonzero(np.isin(dataset["snr"].values, there)))
        band(axes, spread(rows, name, "snr"), number, 2, words)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylim(bottom=-3)
    return _snr_axis(axes, "step of descent")


def attention_against_snr(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Attention on the token that carries the signal, mean over the training samples with their own labels and over
    those with flipped ones, against the signal-to-noise ratio: flipped labels are fitted by looking elsewhere. Means and
    bands over the replicates."""
    _benign(dataset, axes)
    for number, (name, words) in enumerate((("attention_clean", "own labels"), ("attention_flipped", "flipped labels"))):
        band(axes, spread(dataset, name, "snr"), number, 2, words)
    if count(dataset, "tokens") == 1:
        tokens = int(dataset["tokens"].values[0])
        axes.axhline(1 / tokens, label=f"uniform: $1/T = {1 / tokens:.3g}$", **THEORY)
    axes.set_ylim(-0.02, 1.04)
    return _snr_axis(axes, "attention on the signal")


def errors_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Test error (lines) and training error (dashed) against the steps, a colour for every strength of the signal, of
    many for five: how fit and generalization follow one another. Means over the replicates."""
    parts = lines(dataset, ("signal",), "replicate")
    if len(parts) > COLOURS_MOST:
        parts = [parts[it] for it in np.linspace(0, len(parts) - 1, COLOURS_MOST).round().astype(int)]
    for number, (words, rows) in enumerate(parts):
        for name, style in (("test_error", "-"), ("train_error", (0, (4, 2)))):
            step, values = _curve(rows, f"curve_{name}")
            axes.plot(step, np.nanmean(values, axis=0), color=colour(number, len(parts)), ls=style,
                      lw=width(number, len(parts)), label=words if style == "-" else None)
    axes.plot([], [], color="0.45", ls=(0, (4, 2)), label="training error")
    _step_axis(axes)
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top + 0.3 * (top - bottom))  # room for the legend
    axes.set_ylabel("share classified wrong")
    axes.legend(ncols=2, loc="upper right")
    return axes


# ---- what they share ----


def _along_training(dataset: xr.Dataset, axes: Axes, name: str, by: tuple[str, ...]) -> None:
    parts = lines(dataset, by, "replicate")
    for number, (words, rows) in enumerate(parts):
        step, values = _curve(rows, name)
        low, middle, high = np.nanpercentile(values, (25, 50, 75), axis=0)
        shade = colour(number, len(parts))
        axes.fill_between(step, low, high, color=shade, alpha=0.18, linewidth=0)
        axes.plot(step, middle, color=shade, lw=width(number, len(parts)), label=words)
    _step_axis(axes)


def _curve(rows: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps without the first one, and a curve's values there (replicates, steps), as far as some replicate has one."""
    if name not in rows or "curve_step" not in rows:
        raise ResultError("holds no curves; the sweep file has to ask for them (store: [curves])")
    step, values = rows["curve_step"].values[0], rows[name].values
    there = (step > 0) & ~np.isnan(values).all(axis=0)
    return step[there], values[:, there]


def _step_axis(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("steps of descent")


def _middle(dataset: xr.Dataset, result: str, along: str) -> Spread:
    """Median and quartiles in place of mean, least and most: a few runs are caught by other tokens."""
    at = np.unique(dataset[along].values)
    groups = [dataset[result].values[dataset[along].values == it] for it in at]
    low, middle, high = np.array([np.nanpercentile(it, (25, 50, 75)) for it in groups]).T
    return Spread(at, middle, low, high)


def _benign(dataset: xr.Dataset, axes: Axes) -> None:
    """A ground where all replicates overfit benignly, to half way (of the logarithms) to the next ratio."""
    at = spread(dataset, "benign", "snr")
    edges = _half_way(at.at)
    for place in np.flatnonzero(at.least == 1):
        words = "benign overfitting" if not axes.patches else None
        axes.axvspan(edges[place], edges[place + 1], color="#2a9d5c", alpha=0.15, lw=0, zorder=0, label=words)


def _half_way(at: np.ndarray) -> np.ndarray:
    """Borders around ascending positive numbers, half way between their logarithms."""
    logs = np.log(at)
    if logs.size == 1:
        return np.exp(np.array([logs[0] - 0.1, logs[0] + 0.1]))
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp(np.concatenate([[2 * logs[0] - middle[0]], middle, [2 * logs[-1] - middle[-1]]]))


def _snr_axis(axes: Axes, words: str) -> Axes:
    axes.set_xscale("log")
    axes.set_xlabel(SNR)
    axes.set_ylabel(words)
    axes.legend()
    return axes


def _select(panel: Panel, result: str, along: str | None = None, shown: tuple[str, ...] = RULES, wide: str = "") -> Kind:
    return Kind(panel, SELECT, result, along, shown, wide,
                title=("samples", "tokens", "dim", "step_rule", "step_size", "steps"))


def _overfit(panel: Panel, result: str, along: str | None = None, shown: tuple[str, ...] = (), wide: str = "") -> Kind:
    return Kind(panel, OVERFIT, result, along, shown, wide,
                title=("samples", "tokens", "dim", "signal", "label_noise", "trained", "step_size", "steps"))


FIGURES = {
    "correlation_against_dim": _select(correlation_against_dim, "correlation", "dim", ("samples",)),
    "best_tokens_against_dim": _select(best_tokens_against_dim, "optimal_share", "dim", ("samples",)),
    "correlation_along_training": _select(correlation_along_training, "correlation", wide="curve_correlation"),
    "misalignment_along_training": _select(misalignment_along_training, "misalignment", wide="curve_misalignment"),
    "softmax_along_training": _select(softmax_along_training, "softmax_least", wide="curve_softmax_least"),
    "errors_against_snr": _overfit(errors_against_snr, "test_error", "signal"),
    "steps_against_snr": _overfit(steps_against_snr, "benign", "signal"),
    "attention_against_snr": _overfit(attention_against_snr, "attention_flipped", "signal"),
    "errors_along_training": _overfit(errors_along_training, "train_error", shown=("signal",), wide="curve_train_error"),
}
