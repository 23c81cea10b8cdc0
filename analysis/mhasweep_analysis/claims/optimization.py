"""Claims on the optimization and generalization of multi-head attention (optimize).

Their form is that of Deora et al.; where a claim has constants, they and their proofs were derived for this project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.parts import ALL, Claim, Mark, Rows, Source, Verdict, at_most, both, only, rise
from mhasweep_analysis.figures.optimization import fewest_heads, sharpest
from mhasweep_analysis.figures.parts import count

OPTIMIZE = ("optimize",)
PAPER = "Deora, Ghaderi, Taheri, Thrampoulidis, arXiv 2310.12680"
DERIVED = Source(f"in the style of {PAPER}, with constants of its own", Mark.DERIVED)
ASKED = Source(f"asked here of {PAPER}", Mark.QUESTION)
FORM = Source(f"the form of a statement of {PAPER}, from memory", Mark.UNVERIFIED)

HALF, HALF_AWAY = -0.5, 0.05  # exponent of the weak convexity in the heads, and how far it may be off
CERTIFIED = 1e-9  # of a margin, relative: both of its ends are computed to rounding
ROUNDING = 1e-11  # of a loss after hundreds of steps, relative
FITTED = 0.01  # a loss from which on its rate is that of the theory's end, not of the start
SIGNS_LEAST = 20  # replicates that tell the mean of a square of random signs


# ---- bounds ----


def _at_most_one(dataset: xr.Dataset, result: str, what: str, formula: str) -> Verdict:
    return at_most(dataset[result].values, np.ones(dataset.sizes["point"]), what, formula)


def _self_bound(dataset: xr.Dataset) -> Verdict:
    return _at_most_one(dataset, "self_bound", "||gradient|| / L", "b1")


def _weak_convexity(dataset: xr.Dataset) -> Verdict:
    return _at_most_one(dataset, "weak_convexity", "-lambda_min / L", "kappa")


def _smoothness(dataset: xr.Dataset) -> Verdict:
    return _at_most_one(dataset, "smoothness", "lambda_max", "b1^2 / 4 + kappa min(1, L)")


def _training(dataset: xr.Dataset) -> Verdict:
    return _at_most_one(dataset, "training_ratio", "mean loss", "1.5 L(theta) + 0.875 D^2 / (eta K)")


def _local(dataset: xr.Dataset) -> Verdict:
    return _at_most_one(dataset, "local_ratio", "||theta_k - theta||", "2 D")


def _stability(dataset: xr.Dataset) -> Verdict:
    return at_most(
        dataset["stability"].values, dataset["stability_bound"].values, "mean distance", "(eta G / n) sum of losses"
    )


def _gap(dataset: xr.Dataset) -> Verdict:
    return at_most(dataset["gap"].values, dataset["gap_bound"].values, "gap", "2 G stability")


def _gap_losses(dataset: xr.Dataset) -> Verdict:
    return at_most(dataset["gap"].values, dataset["gap_bound_losses"].values, "gap", "(2 eta G^2 / n) sum of losses")


def _realized(dataset: xr.Dataset) -> Verdict:
    most = dataset["heads"].values == dataset["heads"].values.max()
    loss, target = dataset["realized_loss"].values, dataset["target_loss"].values
    verdict = at_most(loss[most], target[most], "L(theta_0 + lambda theta_star)", "epsilon")
    short = np.unique(dataset["heads"].values[loss > target])
    note = f"with the most heads {verdict.note}; not reached at H = {', '.join(f'{it:g}' for it in short)}"
    reached = f"with the most heads {verdict.note}; reached with every number of heads"
    return replace(verdict, note=note if short.size else reached)


# ---- laws in the heads and samples ----


def _curvature(dataset: xr.Dataset) -> Verdict:
    ratio = dataset["curvature_ratio"].values
    if np.any(ratio <= 0):
        return Verdict.absent("the Hessian has no negative eigenvalue in some point")
    fit = fits.power(dataset["heads"].values, ratio)
    return Verdict.of(
        abs(fit.exponent.value - HALF) <= HALF_AWAY,
        "exponent of -lambda_min / L in H",
        fit.exponent,
        HALF,
        fit.points,
        f"within {HALF_AWAY} of it or not",
        R2=fit.r2,
    )


def _exponent(dataset: xr.Dataset, result: str, what: str) -> Verdict:
    values = dataset[result].values
    if np.any(values <= 0):
        return Verdict.absent(f"{what} is not positive at {int(np.sum(values <= 0))} points, so it has no exponent")
    fit = fits.power(dataset["samples"].values, values)
    return Verdict.measuring(
        f"exponent of {what} in n", fit.exponent, fit.points, "by least squares of logarithms", R2=fit.r2
    )


def _stability_law(dataset: xr.Dataset) -> Verdict:
    return _exponent(dataset, "stability", "the mean distance")


def _test_loss_law(dataset: xr.Dataset) -> Verdict:
    return _exponent(dataset, "test_loss", "the test loss")


def _gap_law(dataset: xr.Dataset) -> Verdict:
    return _exponent(dataset.assign(scaled=dataset["gap"] * dataset["samples"]), "scaled", "gap times n")


def _steps_are_samples(dataset: xr.Dataset) -> np.ndarray:
    return dataset["steps"].values == dataset["samples"].values


def _output_signs(dataset: xr.Dataset) -> Verdict:
    if count(dataset, "replicate") < SIGNS_LEAST:
        return Verdict.absent(f"fewer than {SIGNS_LEAST} replicates tell nothing of random signs")
    square = (dataset["output_at_init"].values / dataset["output_deviation"].values) ** 2
    mean, slope = fits.mean(square), fits.line(np.log(dataset["heads"].values), square).slope
    return Verdict.of(
        mean.contains(1.0) and slope.contains(0.0),
        "mean of (B_Phi / (alpha T max |<xbar, utilde>|))^2",
        mean,
        1.0,
        square.size,
        f"against log H it has the slope {slope.value:.2g} in [{slope.low:.2g}, {slope.high:.2g}], by theory 0",
    )


def _output_without(dataset: xr.Dataset) -> Verdict:
    ratio = dataset["output_at_init"].values / dataset["output_deviation"].values
    away = np.abs(ratio / np.sqrt(dataset["heads"].values) - 1)
    return _to_rounding(away, "B_Phi", "H^{1/2} alpha T max |<xbar, utilde>|")


# ---- training ----


def _rate(dataset: xr.Dataset) -> Verdict:
    """The exponent of the loss in the last decade of steps against that of log^2(k) / k there."""
    steps, loss = dataset["curve_step"].values, dataset["curve_train_loss"].values
    last = (steps >= np.nanmax(steps) / 10) & (loss > 0)
    if np.unique(steps[last]).size < 3 or np.min(steps[last]) < 10:
        return Verdict.absent("fewer than 3 logged steps beyond 10 in the last decade")
    k = steps[last]
    fit, theory = fits.power(k, loss[last]), fits.power(k, np.log(k) ** 2 / k)
    return Verdict.of(
        fit.exponent.value <= theory.exponent.value,
        "exponent of L in k over the last decade",
        fit.exponent,
        f"<= {theory.exponent.value:.3g}, that of log^2(k) / k",
        int(dataset.sizes["point"]),
        "falls as fast or faster" if fit.exponent.value <= theory.exponent.value else "falls more slowly",
    )


def _locality(dataset: xr.Dataset) -> Verdict:
    values = dataset["locality"].values
    return Verdict.measuring(
        "distance gamma / log K", fits.mean(values), values.size, f"from {values.min():.3g} to {values.max():.3g}"
    )


def _descent(dataset: xr.Dataset) -> Verdict:
    """Of the runs in which the loss never rose, and of the others: how near eta lambda_max comes to 2."""
    edge = dataset["step_size"].values * sharpest(dataset) / 2
    fell = dataset["monotone"].values > 0
    note = f"the loss never rose in {int(fell.sum())} of {fell.size} runs"
    if (~fell).any():
        note += f"; where it did, the largest eta lambda_max / 2 is {edge[~fell].min():.3g} or more"
    if not fell.any():
        return Verdict.absent("the loss rose in every run")
    return Verdict.measuring(
        "largest eta lambda_max / 2 of a run whose loss never rose", edge[fell].max(), edge.size, note
    )


def _fewest(dataset: xr.Dataset) -> Verdict:
    needed = fewest_heads(dataset)
    found = [it for it in needed.values() if it is not None]
    words = ", ".join(f"{n}: {'more' if h is None else h}" for n, h in needed.items())
    if not found:
        return Verdict.absent("the conclusions fail with the most heads")
    return Verdict.measuring(
        "heads needed at the largest n that has them",
        found[-1],
        int(dataset.sizes["point"]),
        f"by n: {words}; log^6 n goes to {np.log(max(needed)) ** 6:.3g}",
    )


def _fell(dataset: xr.Dataset) -> np.ndarray:
    return dataset["monotone"].values > 0


def _slower(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "train_loss", "heads")


def _faster(dataset: xr.Dataset) -> Verdict:
    return rise(dataset, "train_loss", "heads", falls=True)


# ---- exact ----


def _to_rounding(away: np.ndarray, what: str, formula: str, most: float = CERTIFIED) -> Verdict:
    right = int(np.sum(away <= most))
    return Verdict.of(
        right == away.size,
        f"largest |{what} / ({formula}) - 1|",
        float(away.max()),
        f"<= {most:g}",
        away.size,
        f"to {most:g} at {right:,} of {away.size:,} points",
    )


def _margin_u(dataset: xr.Dataset) -> Verdict:
    away = np.abs(dataset["margin_u"].values / dataset["margin_linear"].values - 1)
    return _to_rounding(away, "margin of U", "m S sqrt(T / 2)")


def _margin(dataset: xr.Dataset) -> Verdict:
    theory = np.hypot(dataset["margin_linear"].values, dataset["margin_w_closed"].values)
    away = np.abs(dataset["margin"].values / theory - 1)
    return _to_rounding(away, "margin", "sqrt(gamma_lin^2 + gamma_W^2)")


def _margin_heads(dataset: xr.Dataset) -> Verdict:
    first = dataset["margin"].values[np.argmin(dataset["heads"].values)]
    return _to_rounding(np.abs(dataset["margin"].values / first - 1), "margin", "that of the fewest heads")


def _equal(dataset: xr.Dataset) -> Verdict:
    most = float(np.abs(dataset["head_spread"].values).max())
    return Verdict.of(most == 0, "largest spread of the heads", most, 0.0, int(dataset.sizes["point"]))


def _collapse(dataset: xr.Dataset) -> Verdict:
    """Pairs of points that differ only in whether heads are computed once for all."""
    names = [name for name in ("heads", "replicate") if name in dataset.coords]
    keys = list(zip(*(dataset[name].values for name in names)))
    is_one = dataset["collapse"].values.astype(bool)
    loss = dict(zip(zip(keys, is_one), dataset["train_loss"].values))
    pairs = [key for key in dict.fromkeys(keys) if (key, True) in loss and (key, False) in loss]
    if not pairs:
        return Verdict.absent("no pair of points differs only in collapse")
    away = np.array([abs(loss[key, False] / loss[key, True] - 1) for key in pairs])
    return _to_rounding(away, "loss of H heads", "that of one head with eta and eta / H", ROUNDING)


EVEN = only(noise=0.0, mixing="even", data="dm1")


def _claim(
    name: str,
    statement: str,
    measure: Callable[[xr.Dataset], Verdict],
    results: tuple[str, ...],
    axes: Mapping[str, int] | None = None,
    rows: Rows | None = None,
    where: str = "",
    source: Source = DERIVED,
    pooled: tuple[str, ...] | str = (),
) -> Claim:
    return Claim(name, OPTIMIZE, statement, source, measure, results, axes or {}, rows, where, pooled)


CLAIMS = (
    _claim(
        "gradient_self_bounded",
        "The gradient is bounded by the loss: ||gradient|| <= b1 L at every logged step.",
        _self_bound,
        ("self_bound",),
        pooled=ALL,
    ),
    _claim(
        "curvature_weakly_convex",
        "The loss is weakly convex in proportion to itself: lambda_min >= -kappa L.",
        _weak_convexity,
        ("weak_convexity",),
        pooled=ALL,
    ),
    _claim(
        "curvature_falls_with_heads",
        "At normal weights -lambda_min / L falls as H^{-1/2}, from H = 4 on.",
        _curvature,
        ("curvature_ratio",),
        {"heads": 3},
        both(only(init="gaussian", steps=0), lambda dataset: dataset["heads"].values >= 4),
        "init: gaussian, steps: 0 and 4 heads or more",
    ),
    _claim(
        "smoothness_bounded",
        "The largest eigenvalue is at most b1^2 / 4 + kappa min(1, L).",
        _smoothness,
        ("smoothness",),
        pooled=ALL,
    ),
    _claim(
        "descent_up_to_the_edge",
        "The loss falls at every step up to a step size of about 2 / lambda_max.",
        _descent,
        ("monotone", "curve_lambda_max"),
        {"step_size": 3},
        source=ASKED,
    ),
    _claim(
        "training_bounded",
        "The mean loss is at most 1.5 L(theta) + 0.875 D^2 / (eta K).",
        _training,
        ("training_ratio",),
        pooled=ALL,
    ),
    _claim(
        "training_rate",
        "K L(theta_K) stays bounded up to log^2 K.",
        _rate,
        ("train_loss", "monotone", "curve_step", "curve_train_loss"),
        {},
        both(only(step_rule="constant"), _fell, lambda dataset: dataset["train_loss"].values <= FITTED),
        f"steps of constant size and a loss that never rose and came to {FITTED}",
        FORM,
    ),
    _claim(
        "weights_stay_local",
        "The weights stay within 2 D of theta = theta_0 + D theta_star.",
        _local,
        ("local_ratio",),
        pooled=ALL,
    ),
    _claim(
        "distance_is_logarithmic",
        "The weights go no further than of the order of log(K) / gamma.",
        _locality,
        ("locality",),
        pooled=ALL,
    ),
    _claim(
        "loss_is_realizable",
        "With enough heads, theta_0 + lambda theta_star has the loss epsilon or less.",
        _realized,
        ("realized_loss",),
        {"target_loss": 2, "heads": 2},
    ),
    _claim(
        "margin_u_exact",
        "Without noise, the margin of U's features is m S sqrt(T / 2), m the attention on relevant " "tokens.",
        _margin_u,
        ("margin_u", "margin_linear"),
        {},
        both(EVEN, only(init=("zero", "one_step", "planted"))),
        "noise: 0, mixing: even and init: zero, one_step or planted",
        pooled=ALL,
    ),
    _claim(
        "margin_exact",
        "Without noise, the margin is sqrt(gamma_lin^2 + gamma_W^2), and gamma_lin from zero.",
        _margin,
        ("margin", "margin_linear", "margin_w_closed"),
        {},
        EVEN,
        "noise: 0 and mixing: even",
        pooled=ALL,
    ),
    _claim(
        "margin_ignores_heads",
        "At the first step the margin does not depend on the number of heads.",
        _margin_heads,
        ("margin",),
        {"heads": 2},
        both(EVEN, only(init=("zero", "one_step"))),
        "noise: 0, mixing: even and init: zero or one_step",
    ),
    _claim(
        "output_ignores_heads",
        "With random signs, the mean square of the output at theta_0 does not depend on H.",
        _output_signs,
        ("output_at_init", "output_deviation"),
        {"heads": 2},
        only(init="one_step", random_signs=True),
        "init: one_step and random signs",
    ),
    _claim(
        "output_grows_without_signs",
        "Without random signs the output at theta_0 grows as H^{1/2}.",
        _output_without,
        ("output_at_init", "output_deviation"),
        {"heads": 2},
        only(init="one_step", random_signs=False),
        "init: one_step without random signs",
    ),
    _claim(
        "stability_bounded",
        "Leaving a sample out moves the weights by (eta G / n) sum_k L(theta_k) or less, c = 0.",
        _stability,
        ("stability", "stability_bound"),
        pooled=ALL,
    ),
    _claim(
        "stability_falls_with_samples",
        "The distance when a sample is left out falls as 1 / n.",
        _stability_law,
        ("stability",),
        {"samples": 3},
    ),
    _claim(
        "gap_below_stability",
        "The gap is at most 2 G times the stability, in the mean over samples.",
        _gap,
        ("gap", "gap_bound"),
        pooled=ALL,
    ),
    _claim(
        "gap_below_losses",
        "The gap is at most (2 eta G^2 / n) sum_k L(theta_k), up to a factor e^c.",
        _gap_losses,
        ("gap", "gap_bound_losses"),
        pooled=ALL,
    ),
    _claim(
        "test_loss_falls_with_samples",
        "With K = n steps the test loss falls as 1 / n, up to log^2 n.",
        _test_loss_law,
        ("test_loss",),
        {"samples": 3},
        _steps_are_samples,
        "steps: = samples",
        FORM,
    ),
    _claim(
        "gap_times_samples",
        "With K = n steps the gap times n grows as log^2 n at most.",
        _gap_law,
        ("gap",),
        {"samples": 3},
        _steps_are_samples,
        "steps: = samples",
        FORM,
    ),
    _claim(
        "heads_stay_equal",
        "From zero all heads stay equal.",
        _equal,
        ("head_spread",),
        {},
        only(init="zero", key_dim=0),
        "init: zero",
        pooled=ALL,
    ),
    _claim(
        "heads_collapse_to_one",
        "From zero H heads are one head with the steps eta and eta / H.",
        _collapse,
        ("train_loss",),
        {"heads": 2, "collapse": 2},
        only(init="zero"),
        "init: zero",
    ),
    _claim(
        "more_heads_train_slower",
        "With a fixed step the training loss after K steps rises with the heads.",
        _slower,
        ("train_loss", "monotone"),
        {"heads": 2},
        both(only(step_rule="constant"), _fell, lambda dataset: dataset["steps"].values > 0),
        "steps of constant size and a loss that never rose",
        ASKED,
    ),
    _claim(
        "sqrt_steps_train_faster",
        "With steps sqrt(H) times as long the training loss falls with the heads.",
        _faster,
        ("train_loss",),
        {"heads": 2},
        only(step_rule="sqrt_heads"),
        "step_rule: sqrt_heads",
        ASKED,
    ),
    _claim(
        "few_heads_suffice",
        "What the training theorem concludes is so with far fewer heads than it asks for.",
        _fewest,
        ("conclusions",),
        {"heads": 2, "samples": 2},
        source=ASKED,
    ),
)
