"""In-context learning of nonlinear features: the ladder of critical losses, saddles and how they are left, and what
attention, few true tokens or new tasks add to the loss.

r/2, half the smallest eigenvalue of the true features' covariance S0, is the lowest loss above the floor at which a
critical point can be (derived for this project, as all lines of theory here whose legend names no paper).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter

from mhasweep_analysis import fits
from mhasweep_analysis.figures.parts import (
    MARKERS, Kind, Panel, Spread, band, colour, combinations, count, lines, spread, width)
from mhasweep_analysis.reader import ResultError, sweep_axes

ICL = ("icl",)
TITLE = ("model", "task", "teacher", "sampling", "dim", "features", "true_features", "neurons", "tokens", "step_size")
MODELS = ("model", "attention_step_ratio", "step_size", "perturbation", "birth_death")
THEORY = {"color": "0.45", "lw": 1.4, "zorder": 1}
DASHED = (0, (5, 2))
DOTTED = (0, (1, 1.5))
SIGMA_LEAST = 1e-5
LIFETIMES = 8  # of a neuron, until birth and death are stationary
LINEAR = 0.25  # of r/2: up to this loss the noise of birth and death is linear


def escape_steps(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Steps from the jump off a saddle to half its loss, against the size eta of the jump: a line for every noise.

    Means over the replicates with bands from the least to the greatest; runs that never left are left out. Theory's
    lines start at the largest eta and rise by ln 10 / ln(1 + step |lambda_min|) for each factor of ten.
    """
    left = dataset.isel(point=np.flatnonzero(dataset["escape_step"].values >= 0))
    if left.sizes["point"] == 0:
        raise ResultError("no run has left its saddle")
    parts = lines(left, ("perturbation", "birth_death"), "perturbation_size")
    for number, (words, rows) in enumerate(parts):
        at, slope = spread(rows, "escape_step", "perturbation_size"), float(rows["escape_slope"].mean())
        line = at.mean[-1] + slope * np.log10(at.at[-1] / at.at)
        axes.plot(at.at, line, ls=DASHED, label=_once(axes, r"theory: slope $\ln 10 / \ln(1+\tau|\lambda_{\min}|)$"),
                  **THEORY)
        band(axes, at, number, len(parts), f"{words}: {-_decades(rows):.1f} a decade, theory {slope:.1f}")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(r"size of the jump $\eta$")
    axes.set_ylabel("steps to escape")
    axes.legend()
    return axes


def success_rates(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the replicates that end below the middle of the floor and r/2, with Wilson's 95 % interval: a bar for
    every way to leave a degenerate start."""
    parts = list(combinations(dataset, [name for name in ("perturbation", "birth_death") if name in dataset.coords]))
    for number, (_, rows) in enumerate(parts):
        done = rows["success"].values
        rate = fits.share(int(done.sum()), done.size)
        axes.bar(number, rate.value, 0.7, color=colour(number, len(parts)))
        axes.errorbar(number, rate.value, [[rate.value - rate.low], [rate.high - rate.value]], color="0.45", capsize=4)
    axes.set_xticks(range(len(parts)), [_way(rows).replace(" ", "\n") for _, rows in parts])
    axes.set_ylim(0, 1.04)
    axes.set_ylabel("share that reaches the optimum")
    return axes


def timescale_gap(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Largest |log(L_TF / L)| behind the first tenth of training against the steps of W for each of mu: how far
    features and attention trained together are from attention at its optimum. Means and bands over the replicates; runs
    that stall at r/2 are in them."""
    parts = lines(dataset, ("attention_start", "step_size", "init_scale"), "attention_step_ratio")
    for number, (words, rows) in enumerate(parts):
        band(axes, spread(rows, "timescale_gap", "attention_step_ratio"), number, len(parts), words)
    axes.set_yscale("log")
    axes.set_ylabel(r"largest $|\log(L_{TF} / L)|$")
    _ratio_axis(axes, dataset)
    axes.legend()
    return axes


def stalled_share(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the replicates that end on the lowest saddle r/2 against the steps of W for each of mu; bands are
    Wilson's 95 % intervals."""
    parts = lines(dataset, ("attention_start", "step_size", "init_scale"), "attention_step_ratio")
    for number, (words, rows) in enumerate(parts):
        at = np.unique(rows["attention_step_ratio"].values)
        ends = [rows["stalled"].values[rows["attention_step_ratio"].values == it] for it in at]
        rates = [fits.share(int(it.sum()), it.size) for it in ends]
        band(axes, Spread(at, *(np.array(it) for it in zip(*rates))), number, len(parts), words)
    axes.set_ylim(-0.02, 1.04)
    axes.set_ylabel("share that stalls at $r/2$")
    _ratio_axis(axes, dataset)
    axes.legend()
    return axes


def misspecified_loss(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Final loss against the number of true features, on the floor of k features: half the sum of the k0 - k smallest
    eigenvalues of S0. Means and bands over the replicates."""
    parts = lines(dataset, ("model", "task", "step_size"), "true_features")
    floor = spread(dataset, "loss_floor", "true_features")
    formula = r"theory: $\frac{1}{2}\sum_{j \leq k_0-k} \lambda_j(\Sigma_0)$"
    axes.plot(floor.at, floor.mean, ls=DASHED, label=formula, **THEORY)
    for number, (words, rows) in enumerate(parts):
        band(axes, spread(rows, "loss", "true_features"), number, len(parts), words)
    axes.set_xticks(floor.at)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("true features $k_0$")
    axes.set_ylabel("final loss $L$")
    axes.legend()
    return axes


def excess_of_rates(dataset: xr.Dataset) -> tuple[xr.Dataset, np.ndarray]:
    """The rows with birth and death whose stationary loss can be told, with `excess`, that loss above the loss without
    (where the sweep has it); and which of them are so far below r/2 that theory calls the excess linear in the rate.

    A neuron lives for 1/gamma, so a law of neurons is stationary after several such times: behind LIFETIMES of them, of
    which the mean over the last quarter sees only the last ones. The noise of rebirths is that of a linearised flow
    while its peaks, some three times the mean, stay below r/2, beyond which there are saddles: LINEAR.
    """
    rate = dataset["birth_death"].values
    lives = rate * dataset["step_size"].values * dataset["steps"].values
    without = dataset["loss_stationary"].values[rate == 0]
    rows = dataset.isel(point=np.flatnonzero((rate > 0) & (lives >= LIFETIMES * (1 - 1e-9))))
    rows = rows.assign(excess=rows["loss_stationary"] - (without.mean() if without.size else 0.0))
    rate, share = rows["birth_death"].values, (rows["loss_stationary"] / rows["lowest_rung"]).values
    return rows, np.array([share[rate == it].mean() <= LINEAR for it in rate], dtype=bool)


def birth_death_bias(dataset: xr.Dataset, axes: Axes) -> Axes:
    """What birth and death add to the stationary loss against their rate, in runs that are stationary, with a grey line
    in proportion to the rate from the smallest one on. The power in the legend, with its interval, is that of the rates
    whose loss is far below r/2 (see excess_of_rates); above, the loss saturates. Means and bands over the replicates."""
    # Slow rates take more steps, which makes no other line of them.
    parts = lines(dataset.reset_coords("steps"), ("perturbation", "step_size"), "birth_death")
    for number, (words, part) in enumerate(parts):
        rows, linear = excess_of_rates(part)
        if rows.sizes["point"] == 0:
            raise ResultError(f"no run is stationary: birth_death x step_size x steps is below {LIFETIMES} in all")
        at, few = spread(rows, "excess", "birth_death"), rows.isel(point=np.flatnonzero(linear))
        if few.sizes["point"] and count(few, "birth_death") > 1 and few["excess"].values.min() > 0:
            power = fits.power(few["birth_death"].values, few["excess"].values).exponent
            words += rf": $\gamma^{{{power.value:.2f} \pm {power.high - power.value:.2f}}}$ far below $r/2$"
        band(axes, at, number, len(parts), words)
        axes.plot(at.at, at.mean[0] * at.at / at.at[0], ls=DASHED, label=_once(axes, r"theory: $\propto \gamma$"),
                  **THEORY)
    axes.axhline(float(dataset["lowest_rung"].mean()), ls=DOTTED, label="theory: lowest rung $r/2$", **THEORY)
    _log_log(axes, r"birth-death rate $\gamma$", "stationary loss above that without")
    axes.legend()
    return axes


def finite_prompt_gap(dataset: xr.Dataset, axes: Axes) -> Axes:
    """What prompts of n tokens add to the loss, against n: the closed form at the best W, random prompts where the
    sweep drew them, and a grey line of 1/n. Means and bands over the replicates."""
    data = dataset.assign(gap=dataset["loss_finite"] - dataset["loss"])
    at = spread(data, "gap", "finite_tokens")
    has_draws = "loss_finite_sampled" in data and bool(data["loss_finite_sampled"].notnull().all())
    axes.plot(at.at, at.mean[-1] * at.at[-1] / at.at, ls=DASHED, label="theory: $\\propto 1/n$", **THEORY)
    band(axes, at, 0, 1 + has_draws, "closed form")
    if has_draws:
        sampled = data.assign(gap=data["loss_finite_sampled"] - data["loss"])
        drawn = spread(sampled, "gap", "finite_tokens")
        axes.plot(drawn.at, drawn.mean, color=colour(1, 2), marker="s", ms=5, ls="none", label="random prompts")
    _log_log(axes, "tokens in a prompt $n$", "$L^n - L$")
    axes.legend()
    return axes


def transfer_error(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Error in context on new tasks against what bounds it up to a constant: the loss plus the error of the task's
    projection on the true features. A line for every length of training; the grey line is the sum itself."""
    parts = lines(dataset, ("steps", "model"), "task_shift")
    bound = (dataset["loss"] + dataset["projection_error"]).values
    ends = np.array([bound.min(), bound.max()])
    axes.plot(ends, ends, ls=DASHED, label=r"theory: $\epsilon + \inf_v\|g - v^\top f\|^2$, up to a constant", **THEORY)
    for number, (words, rows) in enumerate(parts):
        at = spread(rows, "icl_error", "task_shift")
        sums = spread(rows.assign(bound=rows["loss"] + rows["projection_error"]), "bound", "task_shift").mean
        band(axes, at._replace(at=sums), number, len(parts), words)
    _log_log(axes, "loss + projection error", "error in context on new tasks")
    axes.legend()
    return axes


def attention_limit(dataset: xr.Dataset, axes: Axes) -> Axes:
    """How fast W reaches its optimum for fixed features: the measured decay of |C W - C S^-1| a step against that of
    the theory, a point for every run."""
    theory, measured = dataset["attention_rate_theory"].values, dataset["attention_rate"].values
    parts = lines(dataset, ("attention_step_size", "init_scale"), "replicate")
    ends = np.array([theory.min(), theory.max()])
    formula = r"theory: $-\ln(1-\tau\,\lambda_{\min}(A)\lambda_{\min}(S) / \lambda_{\max}(A)\lambda_{\max}(S))$"
    axes.plot(ends, ends, ls=DASHED, label=formula, **THEORY)
    for number, (words, rows) in enumerate(parts):
        axes.plot(rows["attention_rate_theory"], rows["attention_rate"], color=colour(number, len(parts)), ls="none",
                  marker=MARKERS[number % len(MARKERS)], ms=5, label=words)
    if measured.min() > 0:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel("decay a step, theory")
    axes.set_ylabel("decay a step, measured")
    axes.legend()
    return axes


def loss_on_ladder(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The loss above its floor along training, by the height of the lowest rung above it, and the rung next to it: the
    loss rests on rungs only. With no floor that is the loss over r/2. A line for every model (in the means over the
    replicates, with bands), a grey one at the lowest rung."""
    _needs_curves(dataset)
    parts = lines(dataset, MODELS, "replicate")
    floor = dataset["loss_floor"].values[:, None]
    height = dataset["lowest_rung"].values[:, None] - floor
    words = "above the floor" if floor.any() else "$r/2$"
    axes.axhline(1, ls=DASHED, label=f"theory: lowest rung {words}", **THEORY)
    scaled = dataset.assign(curve_scaled=(dataset["curve_loss_attention"] - floor) / height,
                            curve_rung=(dataset["curve_nearest_rung"] - floor) / height)
    for number, (words, rows) in enumerate(parts):
        part = scaled.sel(point=rows["point"].values)
        _curve(axes, part, "curve_scaled", number, len(parts), words)
        if len(parts) == 1:
            step, rung = _mean(part, "curve_rung")
            there = rung > 0
            axes.step(step[there], rung[there], where="mid", label="theory: nearest rung", ls="-", color="0.45", lw=0.9)
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("(loss - floor) / (lowest rung - floor)")
    axes.legend()
    return axes


def excess_loss(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The loss above its floor against the time of the mean-field flow, with a grey line of 1/t."""
    _needs_curves(dataset)
    parts = lines(dataset, MODELS, "replicate")
    ends = []
    for number, (words, rows) in enumerate(parts):
        excess = rows["curve_loss"] - rows["loss_floor"].values[:, None]
        part = rows.assign(curve_excess=excess, curve_step=rows["curve_step"] * rows["step_size"].values[:, None])
        time, mean = _curve(axes, part, "curve_excess", number, len(parts), words)
        ends.append((time[mean > 0][-1], mean[mean > 0][-1]))
    last, loss = max(ends)
    times = np.array([last / 100, last])
    axes.plot(times, 2 * loss * last / times, ls=DASHED, label=r"theory: $\propto 1/t$", **THEORY)
    _log_log(axes, "time (steps x step size)", "loss above its floor")
    axes.legend()
    return axes


def sigma_bound(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The smallest singular value of B along training, and what keeps it from zero below r/2: no critical point is
    there. Means and bands over the replicates; what is zero up to rounding is below the axis."""
    _needs_curves(dataset)
    parts = lines(dataset, MODELS, "replicate")
    for number, (words, rows) in enumerate(parts):
        _curve(axes, rows, "curve_sigma_min_b", number, len(parts), words)
        step, bound = _mean(rows, "curve_sigma_bound")
        there = bound > 0
        axes.plot(step[there], bound[there], ls=DASHED, color=colour(number, len(parts)), lw=1,
                  label=_once(axes, r"theory: $\geq \sqrt{(r-2L)/\lambda_{\max}(S)}$"))
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel(r"$\sigma_{\min}(B)$")
    axes.set_ylim(bottom=max(axes.get_ylim()[0], SIGMA_LEAST))
    axes.legend()
    return axes


def strict_saddles(dataset: xr.Dataset, axes: Axes) -> Axes:
    """How sharply the loss falls along the homotopy that leaves each saddle, against the least that theory gives: a
    point for every run with task: symmetric that had time to settle on it (perturb_first); by theory all are above the
    grey line."""
    settled = (dataset["task"].values == "symmetric") & (dataset["perturb_first"].values > 0)
    there = np.flatnonzero(settled & (dataset["curvature"].values < 0))
    if there.size == 0:
        raise ResultError("no run settles on a saddle (task: symmetric and perturb_first)")
    shown = dataset.isel(point=there)
    parts = list(combinations(shown, [it for it in sweep_axes(shown) if it != "replicate" and count(shown, it) > 1]))
    bound = -shown["curvature_bound"].values
    ends = np.array([bound.min(), bound.max()])
    axes.plot(ends, ends, ls=DASHED, label=r"theory: $\geq 4 L^2 / (k\,\mathrm{tr}\,S)$", **THEORY)
    for number, (words, rows) in enumerate(parts):
        axes.plot(-rows["curvature_bound"], -rows["curvature"], color=colour(number, len(parts)), ls="none",
                  marker=MARKERS[number % len(MARKERS)], ms=5, label=words)
    _log_log(axes, "theory's least downward curvature", "downward curvature of the saddle")
    axes.legend()
    return axes


def _decades(rows: xr.Dataset) -> float:
    """Steps to escape for each factor of ten in eta."""
    return fits.line(np.log10(rows["perturbation_size"].values), rows["escape_step"].values).slope.value


def _way(rows: xr.Dataset) -> str:
    noise = str(rows["perturbation"].values[0]) if "perturbation" in rows.coords else "none"
    rate = float(rows["birth_death"].values[0]) if "birth_death" in rows.coords else 0.0
    births = "birth-death" if rate > 0 else ""
    return births if noise == "none" and births else f"{noise} {births}".strip()


def _once(axes: Axes, label: str) -> str:
    """A label for the first line of a kind only."""
    return "_" if label in axes.get_legend_handles_labels()[1] else label


def _needs_curves(dataset: xr.Dataset) -> None:
    if "curve_step" not in dataset:
        raise ResultError("holds no curves; the sweep file has to ask for them (store: [curves])")


def _filled(dataset: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and the values of a curve, up to where all runs have one."""
    there = ~(np.isnan(dataset[name].values).any(axis=0) | np.isnan(dataset["curve_step"].values).any(axis=0))
    return dataset["curve_step"].values[0, there], dataset[name].values[:, there]


def _mean(dataset: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    step, values = _filled(dataset, name)
    return step, values.mean(axis=0)


def _curve(axes: Axes, rows: xr.Dataset, name: str, number: int, total: int, words: str) -> tuple[np.ndarray, ...]:
    step, values = _filled(rows, name)
    mean, shade = values.mean(axis=0), colour(number, total)
    axes.fill_between(step, values.min(axis=0), values.max(axis=0), color=shade, alpha=0.18, linewidth=0)
    axes.plot(step, mean, color=shade, lw=width(number, total), label=words)
    return step, mean


def _ratio_axis(axes: Axes, dataset: xr.Dataset) -> None:
    axes.set_xscale("log")
    axes.set_xticks(np.unique(dataset["attention_step_ratio"].values))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.minorticks_off()
    axes.set_xlabel(r"steps of $W$ for each step of $\mu$")


def _log_log(axes: Axes, x: str, y: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _kind(panel: Panel, result: str, along: str | None = None, shown: tuple[str, ...] = (), wide: str = "") -> Kind:
    return Kind(panel, ICL, result, along, shown, wide, title=TITLE)


JOINT = ("attention_start", "step_size", "init_scale")
FIGURES = {
    "escape_steps": _kind(escape_steps, "escape_slope", "perturbation_size", ("perturbation", "birth_death")),
    "success_rates": _kind(success_rates, "success", "perturbation", ("birth_death",)),
    "birth_death_bias": _kind(birth_death_bias, "loss_stationary", "birth_death",
                              ("perturbation", "step_size", "steps")),
    "timescale_gap": _kind(timescale_gap, "timescale_gap", "attention_step_ratio", JOINT),
    "stalled_share": _kind(stalled_share, "stalled", "attention_step_ratio", JOINT),
    "finite_prompt_gap": _kind(finite_prompt_gap, "loss_finite", "finite_tokens"),
    "transfer_error": _kind(transfer_error, "icl_error", "task_shift", ("steps", "model")),
    "attention_limit": _kind(attention_limit, "attention_rate", "attention_step_size", ("init_scale",)),
    "misspecified_loss": _kind(misspecified_loss, "loss", "true_features", ("model", "step_size")),
    "loss_on_ladder": _kind(loss_on_ladder, "loss", shown=MODELS, wide="curve_nearest_rung"),
    "strict_saddles": _kind(strict_saddles, "curvature", shown=("task", "teacher", *MODELS, "perturbation_size")),
    "excess_loss": _kind(excess_loss, "exponent", shown=MODELS, wide="curve_loss"),
    "sigma_bound": _kind(sigma_bound, "sigma_min_b", shown=MODELS, wide="curve_sigma_bound"),
}
