"""Optimization and generalization of multi-head attention (optimize): curvature, descent, margins, stability, gap.

The theory's lines are in the style of Deora et al., arXiv 2310.12680; their constants were derived for this project.
"""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from mhasweep_analysis import fits
from mhasweep_analysis.figures.parts import (
    MARKERS, Kind, Panel, Spread, band, colour, count, lines, spread, words_of)
from mhasweep_analysis.reader import ResultError

LEAST = 1e-17  # stands for zero on a logarithmic axis
DASHED = (0, (5, 2))


def curvature_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Weak convexity: -lambda_min / L, the largest of the logged steps, against heads, with the best power law, the
    interval of its exponent, and the theory's H^{-1/2} through the first point. Mean and band over the replicates."""
    at = spread(dataset, "curvature_ratio", "heads")
    axes.plot(at.at, at.mean[0] * np.sqrt(at.at[0] / at.at), color="0.45", lw=1.4, zorder=1,
              label=r"theory: $\propto H^{-1/2}$")
    band(axes, at, 0, 1, f"measured{_power(dataset, 'curvature_ratio', 'heads', 'H')}")
    return _finish(axes, "heads", r"$-\lambda_{\min}\,/\,L$")


def gradient_bound(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The self-bounded gradient, the largest ||gradient|| / (b1 L) of the logged steps, against heads: at most 1 by the
    theory. A line for every initialisation, with a band over the replicates."""
    return _bound(dataset, axes, "self_bound", r"$\|\nabla L\|\,/\,(b_1 L)$")


def curvature_bound(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The weak convexity by its bound, the largest -lambda_min / (kappa L) of the logged steps, against heads: at most
    1 by the theory. A line for every initialisation, with a band over the replicates."""
    return _bound(dataset, axes, "weak_convexity", r"$-\lambda_{\min}\,/\,(\kappa L)$")


def smoothness_bound(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The largest eigenvalue by its bound, the largest of the logged steps, against heads: at most 1 by the theory. A
    line for every initialisation, with a band over the replicates."""
    return _bound(dataset, axes, "smoothness", r"$\lambda_{\max}\,/\,(b_1^2/4 + \kappa \min(1, L))$")


def edge_of_stability(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The largest eigenvalue of the Hessian at any logged step against the step size, beside 2 / eta, above which
    descent on a quadratic is unstable. Hollow markers: the loss rose at some step of at least one replicate."""
    dataset = dataset.assign(sharpest=("point", sharpest(dataset)))
    parts = lines(dataset, ("heads",), "step_size")
    for number, (words, rows) in enumerate(parts):
        at = spread(rows, "sharpest", "step_size")
        band(axes, at, number, len(parts), words, marker="")
        fell = spread(rows, "monotone", "step_size").least > 0
        shade = colour(number, len(parts))
        for is_full in (True, False):
            axes.plot(at.at[fell == is_full], at.mean[fell == is_full], MARKERS[number % len(MARKERS)], ms=5,
                      color=shade, mfc=shade if is_full else "none")
    steps = np.unique(dataset["step_size"].values)
    axes.plot(steps, 2 / steps, color="0.45", lw=1.4, zorder=1, label=r"theory: $2/\eta$")
    return _finish(axes, "step_size", r"largest $\lambda_{\max}$ of a logged step")


def sharpest(dataset: xr.Dataset) -> np.ndarray:
    """The largest eigenvalue of the Hessian at any logged step, of every point."""
    if "curve_lambda_max" not in dataset:
        raise ResultError("holds no curves; the sweep file has to ask for them (store: [curves])")
    return np.nanmax(dataset["curve_lambda_max"].values, axis=1)


def loss_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The training loss against the steps, a line for every number of heads with a band over the replicates, and the
    theory's rate log^2(k) / k, up to a constant: through the mean of the first line at its middle."""
    for number, total, words, at in _curves(dataset, "curve_train_loss"):
        if number == 0 and at.at[-1] > 10:
            k = at.at[at.at >= 10]
            rate, middle = np.log(k) ** 2 / k, k.size // 2
            axes.plot(k, rate * at.mean[at.at >= 10][middle] / rate[middle], color="0.45", lw=1.4, zorder=1,
                      label=r"theory: $\propto \log^2(k)\,/\,k$")
        band(axes, at, number, total, words, marker="")
    return _finish(axes, "step", "training loss")


def test_loss_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The loss of the test samples against the steps, a line for every number of heads with a band over the
    replicates."""
    for number, total, words, at in _curves(dataset, "curve_test_loss"):
        band(axes, at, number, total, words, marker="")
    return _finish(axes, "step", "test loss")


def distance_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """How far the weights have gone, ||theta_k - theta_0||, against the steps, a line for every number of heads, beside
    log(k) / gamma, which is its order by the theory."""
    for number, total, words, at in _curves(dataset, "curve_distance"):
        band(axes, at, number, total, words, marker="")
        if number == 0 and "margin" in dataset and bool(dataset["margin"].notnull().all()):
            gamma = float(dataset["margin"].mean())
            axes.plot(at.at, np.log(at.at) / gamma, color="0.45", lw=1.4, zorder=1,
                      label=r"theory, in order: $\log(k)\,/\,\gamma$")
    return _finish(axes, "step", r"$\|\theta_k - \theta_0\|$", logarithmic=False)


def attention_along_training(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Attention on the relevant tokens against the steps, a line for every number of heads with a band over the
    replicates; it starts at their share zeta where it is uniform."""
    for number, total, words, at in _curves(dataset, "curve_attention_mass"):
        band(axes, at, number, total, words, marker="")
    if count(dataset, "relevant") == 1:
        tokens = int(dataset["tokens"].values[0])
        share = max(1, round(float(dataset["relevant"].values[0]) * tokens)) / tokens
        axes.axhline(share, color="0.45", lw=1.4, label=rf"uniform: $\zeta = {share:g}$")
    _finish(axes, "step", "attention on the relevant tokens", logarithmic=False)
    axes.set_ylim(0, 1.02)
    return axes


def realizability(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The loss at theta_0 + lambda theta_star against the epsilon that it is to reach: at most that, by the theory,
    where heads are enough. A line for every number of heads with a band over the replicates."""
    parts = lines(dataset, ("heads",), "target_loss")
    for number, (words, rows) in enumerate(parts):
        band(axes, spread(rows, "realized_loss", "target_loss"), number, len(parts), words)
    at = np.unique(dataset["target_loss"].values)
    axes.plot(at, at, color="0.45", lw=1.4, zorder=1, label=r"theory: at most $\epsilon$")
    return _finish(axes, "target_loss", r"$L(\theta_0 + \lambda \theta_\star)$")


def margin_against_relevant(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The margin of the tangent features at theta_0 and those of U's and W's features alone, against the share of
    relevant tokens, on their closed forms without noise. Markers of all numbers of heads lie on one another where the
    margin does not depend on them."""
    attention = spread(dataset, "margin_w_closed", "relevant").mean
    linear = spread(dataset, "margin_linear", "relevant").mean
    closed = {"margin": (np.hypot(linear, attention), r"$\gamma = \sqrt{\gamma_{lin}^2 + \gamma_W^2}$"),
              "margin_u": (linear, r"$\gamma_{lin} = \zeta S \sqrt{T/2}$"),
              "margin_w": (attention, r"$\gamma_W$")}
    at = np.unique(dataset["relevant"].values)
    for number, (name, (theory, formula)) in enumerate(closed.items()):
        axes.plot(at, theory, color="0.45", lw=1.4, ls=("-", DASHED, (0, (1, 2)))[number], zorder=1,
                  label=f"theory: {formula}")
        parts = lines(dataset, ("heads",), "relevant")
        for place, (words, rows) in enumerate(parts):
            measured = spread(rows, name, "relevant")
            axes.plot(measured.at, measured.mean, MARKERS[place % len(MARKERS)], ms=5 + 2 * (len(parts) - 1 - place),
                      mfc="none", color=colour(place, len(parts)), label=words if number == 0 else None)
    return _finish(axes, "relevant", "margin", logarithmic=False)


def margin_against_noise(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The margin of the tangent features at theta_0 against the noise of the irrelevant tokens, a line for every number
    of heads with a band over the replicates; across, its closed form without noise."""
    parts = lines(dataset, ("heads",), "noise")
    for number, (words, rows) in enumerate(parts):
        band(axes, spread(rows, "margin", "noise"), number, len(parts), words)
    closed = float(np.hypot(dataset["margin_linear"], dataset["margin_w_closed"]).mean())
    if not np.isnan(closed):
        axes.axhline(closed, color="0.45", lw=1.4, zorder=1,
                     label=r"theory, $\sigma = 0$: $\sqrt{\gamma_{lin}^2 + \gamma_W^2}$")
    return _finish(axes, "noise", r"margin $\gamma$", logarithmic=False)


def margin_attained(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The margin of U's features where attention has turned to the relevant tokens, against its logit there, on the
    closed form: from zeta S sqrt(T / 2) to 1 / zeta times that. A line for every share of relevant tokens."""
    parts = lines(dataset, ("relevant", "heads"), "init_logit")
    for number, (words, rows) in enumerate(parts):
        at = spread(rows, "margin_linear", "init_logit")
        axes.plot(at.at, at.mean, color="0.45", lw=1.4, zorder=1,
                  label=r"theory: $S\sqrt{T/2}\;\zeta\,/\,(\zeta + (1 - \zeta) e^{-a})$" if number == 0 else None)
        measured = spread(rows, "margin_u", "init_logit")
        axes.plot(measured.at, measured.mean, MARKERS[number % len(MARKERS)], ms=5, color=colour(number, len(parts)),
                  label=words)
    return _finish(axes, "init_logit", "margin of $U$'s features", logarithmic=False)


def output_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The largest output at theta_0 by alpha T max |<xbar, utilde>|, against heads: the root of its mean square over
    the replicates, 1 by the theory with random signs and sqrt(H) without."""
    parts = lines(dataset, ("random_signs",), "heads")
    for number, (_, rows) in enumerate(parts):
        has_signs = bool(rows["random_signs"].values[0])
        square = rows.assign(square=(rows["output_at_init"] / rows["output_deviation"]) ** 2)
        root = np.sqrt(spread(square, "square", "heads").mean)
        at = np.unique(rows["heads"].values)
        axes.plot(at, np.ones(at.size) if has_signs else np.sqrt(at), color="0.45", lw=1.4, zorder=1,
                  ls="-" if has_signs else DASHED, label=f"theory: {'$1$' if has_signs else '$H^{1/2}$'}")
        axes.plot(at, root, MARKERS[number], ms=5, color=colour(number, len(parts)),
                  label="random signs" if has_signs else "all steps of one sign")
    return _finish(axes, "heads", r"$B_\Phi$ by $\alpha T \max_i |\langle \bar x_i, \tilde u \rangle|$")


def stability_against_samples(dataset: xr.Dataset, axes: Axes) -> Axes:
    """How far the weights move when a sample is left out, against n, with the best power law, and the theory's bound
    without its factor e^c, dashed. A line for every number of heads with a band over the replicates."""
    parts = lines(dataset, ("heads",), "samples")
    for number, (words, rows) in enumerate(parts):
        bound = spread(rows, "stability_bound", "samples")
        axes.plot(bound.at, bound.mean, color=colour(number, len(parts)), lw=1.2, ls=DASHED,
                  label=r"theory: $(\eta G / n) \sum_k L(\theta_k)$" if number == 0 else None)
        band(axes, spread(rows, "stability", "samples"), number, len(parts),
             f"{words}{_power(rows, 'stability', 'samples', 'n')}")
    return _finish(axes, "samples", "mean distance, one sample left out")


def test_loss_against_samples(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The test loss against n, with the best power law and the interval of its exponent, beside the theory's 1 / n
    through the last point. A line for every number of heads with a band over the replicates."""
    parts = lines(dataset, ("heads",), "samples")
    for number, (words, rows) in enumerate(parts):
        at = spread(rows, "test_loss", "samples")
        axes.plot(at.at, at.mean[-1] * at.at[-1] / at.at, color="0.45", lw=1.4, zorder=1,
                  label=r"theory: $\propto 1/n$" if number == 0 else None)
        band(axes, at, number, len(parts), f"{words}{_power(rows, 'test_loss', 'samples', 'n')}")
    return _finish(axes, "samples", "test loss")


def gap_against_samples(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The gap between test and training loss times n, against n: level, up to log^2 n, if the gap falls as the theory
    says. With the best power law and its interval. A line for every number of heads with a band over replicates."""
    dataset = dataset.assign(scaled=dataset["gap"] * dataset["samples"])
    parts = lines(dataset, ("heads",), "samples")
    for number, (words, rows) in enumerate(parts):
        at = spread(rows, "scaled", "samples")
        rate = np.log(at.at) ** 2
        axes.plot(at.at, at.mean[0] * rate / rate[0], color="0.45", lw=1.2, ls=DASHED, zorder=1,
                  label=r"theory, at most: $\propto \log^2 n$" if number == 0 else None)
        band(axes, at, number, len(parts), f"{words}{_power(rows, 'scaled', 'samples', 'n')}")
    return _finish(axes, "samples", "gap times $n$")


def head_collapse(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The training loss from zero against the steps: lines are one head with the steps eta and eta / H, markers are H
    heads, each computed by itself (`collapse: false`). They are the same by the theory."""
    for is_one in (True, False):
        rows = dataset.isel(point=np.flatnonzero(dataset["collapse"].values == is_one))
        for number, total, words, at in _curves(rows, "curve_train_loss") if rows.sizes["point"] else ():
            if is_one:
                band(axes, at, number, total, f"theory, one head for {words}", marker="")
            else:
                axes.plot(at.at, at.mean, MARKERS[number % len(MARKERS)], ms=5, mfc="none",
                          color=colour(number, total), label=f"each by itself, {words}")
    return _finish(axes, "step", "training loss")


def heads_needed(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The fewest heads of the sweep for which what the training theorem concludes is so in all replicates, against n,
    beside log^6 n, the order that suffices by the theory."""
    needed = fewest_heads(dataset)
    at = np.array(sorted(needed))
    axes.plot(at, np.log(at) ** 6, color="0.45", lw=1.4, zorder=1, label=r"theory, sufficient in order: $\log^6 n$")
    is_found = np.array([needed[n] is not None for n in at])
    axes.plot(at[is_found], [needed[n] for n in at[is_found]], MARKERS[0], ms=6, color=colour(0, 1), label="measured")
    most = int(dataset["heads"].values.max())
    if not is_found.all():
        axes.plot(at[~is_found], [most] * int((~is_found).sum()), "^", mfc="none", ms=7, color=colour(0, 1),
                  label=f"more than {most}")
    return _finish(axes, "samples", "heads needed")


def fewest_heads(dataset: xr.Dataset) -> dict[int, int | None]:
    """Of each number of samples the fewest heads from which on the conclusions are so in all replicates, or None."""
    needed: dict[int, int | None] = {}
    for n in np.unique(dataset["samples"].values):
        rows = dataset.isel(point=dataset["samples"].values == n)
        so = spread(rows, "conclusions", "heads")
        fails = np.flatnonzero(so.least < 1)
        first = 0 if fails.size == 0 else int(fails[-1]) + 1
        needed[int(n)] = int(so.at[first]) if first < so.at.size else None
    return needed


def _curves(dataset: xr.Dataset, name: str) -> Iterator[tuple[int, int, str, Spread]]:
    """For each number of heads its place, their count, its words, and the curve over the replicates without step 0."""
    if name not in dataset or "curve_step" not in dataset:
        raise ResultError("holds no curves; the sweep file has to ask for them (store: [curves])")
    parts = lines(dataset, ("heads",), along="replicate")
    for number, (words, rows) in enumerate(parts):
        steps, values = rows["curve_step"].values[0], rows[name].values
        keep = (steps > 0) & ~np.isnan(values).any(axis=0)
        values = values[:, keep]
        at = Spread(steps[keep], values.mean(axis=0), values.min(axis=0), values.max(axis=0))
        yield number, len(parts), words, at


def _bound(dataset: xr.Dataset, axes: Axes, result: str, words: str) -> Axes:
    parts = lines(dataset, ("init",), "heads")
    for number, (label, rows) in enumerate(parts):
        band(axes, spread(rows, result, "heads"), number, len(parts), label)
    axes.axhline(1, color="0.45", lw=1.4, label="theory: at most 1")
    return _finish(axes, "heads", words)


def _power(dataset: xr.Dataset, result: str, along: str, letter: str) -> str:
    """The best power law's exponent with its interval, for the legend; nothing where there is none."""
    if count(dataset, along) < 3 or bool((dataset[result] <= 0).any()):
        return ""
    fit = fits.power(dataset[along].values, dataset[result].values)
    away = fit.exponent.high - fit.exponent.value
    return rf": $\propto {letter}^{{{fit.exponent.value:.3f} \pm {away:.2g}}}$, $R^2 = {fit.r2:.3f}$"


def _finish(axes: Axes, along: str, words: str, logarithmic: bool = True) -> Axes:
    """Labels, and logarithmic axes where laws are powers; heads, samples and steps are powers apart in any case."""
    if logarithmic or along in ("heads", "samples", "step"):
        axes.set_xscale("log", base=2 if along in ("heads", "samples") else 10)
    if along in ("heads", "samples"):
        axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}"))
    if logarithmic:
        axes.set_yscale("log")
    axes.set_xlabel(words_of(along, "optimize"))
    axes.set_ylabel(words)
    axes.legend()
    return axes


ONLY = ("optimize",)
TITLE = ("data", "init", "heads", "samples", "tokens", "dim", "relevant", "signal", "prototypes", "noise", "step_rule",
         "step_size", "steps")


def _kind(panel: Panel, result: str, along: str | None = None, shown: tuple[str, ...] = ("heads",),
          wide: str = "") -> Kind:
    return Kind(panel, ONLY, result, along, shown, wide, title=TITLE)


# Where several fit, the one along the axis of the fewest sweeps stands first.
FIGURES = {
    "edge_of_stability": _kind(edge_of_stability, "lambda_max", "step_size", wide="curve_lambda_max"),
    "realizability": _kind(realizability, "realized_loss", "target_loss"),
    "margin_attained": _kind(margin_attained, "margin_u", "init_logit", ("relevant", "heads")),
    "margin_against_relevant": _kind(margin_against_relevant, "margin_w_closed", "relevant"),
    "margin_against_noise": _kind(margin_against_noise, "margin", "noise"),
    "output_against_heads": _kind(output_against_heads, "output_deviation", "random_signs"),
    "head_collapse": _kind(head_collapse, "mean_loss", "collapse", wide="curve_train_loss"),
    "stability_against_samples": _kind(stability_against_samples, "stability", "samples"),
    "test_loss_against_samples": _kind(test_loss_against_samples, "test_loss", "samples"),
    "gap_against_samples": _kind(gap_against_samples, "gap", "samples"),
    "heads_needed": _kind(heads_needed, "conclusions", "samples"),
    "curvature_against_heads": _kind(curvature_against_heads, "curvature_ratio", "heads", ()),
    "loss_along_training": _kind(loss_along_training, "mean_loss", wide="curve_train_loss"),
    "test_loss_along_training": _kind(test_loss_along_training, "test_loss", wide="curve_test_loss"),
    "distance_along_training": _kind(distance_along_training, "mean_loss", wide="curve_distance"),
    "attention_along_training": _kind(attention_along_training, "mean_loss", wide="curve_attention_mass"),
    "gradient_bound": _kind(gradient_bound, "self_bound", "heads", ("init",)),
    "curvature_bound": _kind(curvature_bound, "weak_convexity", "heads", ("init",)),
    "smoothness_bound": _kind(smoothness_bound, "smoothness", "heads", ("init",)),
}
