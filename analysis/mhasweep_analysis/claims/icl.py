"""Claims on in-context learning of nonlinear features (icl).

The theory is that of Kim, Suzuki, "Transformers Learn Nonlinear Features In Context: Nonconvex Mean-field Dynamics on
the Attention Landscape" (ICML 2024, arXiv 2402.01258). That critical losses are half sums of eigenvalues of S0 = E[f
f^T], and the constants here, were derived for this project.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.claims.parts import ALL, Claim, Mark, Source, Verdict, both, only
from mhasweep_analysis.figures.icl import LINEAR, excess_of_rates
from mhasweep_analysis.figures.parts import combinations, count

ICL = ("icl",)
NEAR = 0.01  # of a rung or a floor
# Of its loss, what a run would still fall by at the present speed |gradient|^2 in the time of the whole run: a loss that
# rests on no rung, but falls to one as t^-p, is then within STILL / p of it.
STILL = 0.001
SLOPE = 0.05  # by which a rate or an escape's slope may differ
DECAY = (3.0, 25.0)  # logarithm of the factor by which the slowest mode of W falls, for a rate to be read off
POWER = 0.1  # by which an exponent may
ROUNDING = 1e-5  # of curves, which are stored in single precision
FEW = 10  # tokens a neuron's output: from so many on, what prompts add falls as 1/n

PAPER = "Kim, Suzuki, ICML 2024, arXiv 2402.01258"
LADDER = Source(
    f"Res B = 0 at critical points, so range(B) is invariant under S0; sharpens theorem 3.3 of {PAPER}", Mark.DERIVED
)


def _is_resolved(dataset: xr.Dataset) -> np.ndarray:
    """Its slowest mode has time to outlast the others, and not to reach the rounding."""
    steps = dataset["steps"].values * dataset["attention_step_ratio"].values
    decay = dataset["attention_rate_theory"].values * steps
    return (dataset["model"].values == "attention") & (decay >= DECAY[0]) & (decay <= DECAY[1])


def _attention_limit(dataset: xr.Dataset) -> Verdict:
    ratio = (dataset["attention_rate"] / dataset["attention_rate_theory"]).values
    away = float(np.abs(ratio - 1).max())
    return Verdict.of(
        away <= SLOPE,
        "largest |rate / theory - 1|",
        away,
        f"<= {SLOPE}",
        ratio.size,
        f"the ratio goes from {ratio.min():.4f} to {ratio.max():.4f}",
    )


def _plateaus(dataset: xr.Dataset) -> Verdict:
    """Where the flow is slowest, if it stands still there by the measure of STILL."""
    time = (dataset["step_size"] * dataset["steps"]).values
    loss = dataset["curve_loss"].values
    falls = np.nan_to_num(dataset["curve_gradient_norm"].values ** 2 * time[:, None] / loss, nan=np.inf)
    slowest = falls.argmin(axis=1)
    rests = np.flatnonzero(falls.min(axis=1) <= STILL)
    if rests.size == 0:
        return Verdict.absent(f"no loss rests: {falls.shape[0]} runs would all fall by more than {STILL} of it")
    away = dataset["curve_rung_distance"].values[rests, slowest[rests]]
    near = int(np.sum(away < NEAR))
    return Verdict.of(
        near == away.size,
        "largest relative distance from its rung where a run is slowest",
        float(away.max()),
        f"< {NEAR}",
        away.size,
        f"{near} of {away.size} are nearer, the middle one is at {np.median(away):.2g}; "
        f"{falls.shape[0] - away.size} runs do not rest",
    )


def _below_lowest_rung(dataset: xr.Dataset) -> Verdict:
    bound = dataset["curve_sigma_bound"].values
    below = bound > 0
    if not below.any():
        return Verdict.absent("no loss gets below r/2")
    ratio = dataset["curve_sigma_min_b"].values[below] / bound[below]
    still = int(np.sum(dataset["curve_gradient_norm"].values[below] <= 0))
    return Verdict.of(
        bool(ratio.min() >= 1 - ROUNDING and still == 0),
        "least sigma_min(B) / sqrt((r - 2 L) / lambda_max(S))",
        float(ratio.min()),
        ">= 1",
        int(below.sum()),
        f"at all records below r/2; the gradient is zero at {still} of them",
    )


def _monotone(dataset: xr.Dataset) -> Verdict:
    loss = dataset["curve_loss"].values
    rise = np.nan_to_num(loss[:, 1:] / loss[:, :-1] - 1, nan=-1.0)
    below = loss[:, :-1] < dataset["lowest_rung"].values[:, None]
    if not below.any():
        return Verdict.absent("no loss gets below r/2")
    worst = float(rise[below].max())
    return Verdict.of(
        worst <= ROUNDING,
        "largest relative rise from one record to the next, below r/2",
        worst,
        "<= 0",
        int(below.sum()),
        f"{int(np.sum(rise[below] > ROUNDING))} of {int(below.sum())} records rise",
    )


def _follows_the_flow(dataset: xr.Dataset) -> np.ndarray:
    return dataset["stiff"].values == 0


def _has_settled(dataset: xr.Dataset) -> np.ndarray:
    return dataset["perturb_first"].values > 0


def _strict(dataset: xr.Dataset) -> Verdict:
    ratio = (dataset["curvature"] / dataset["curvature_bound"]).values
    return Verdict.of(
        bool(ratio.min() >= 1),
        "least curvature / (-4 L^2 / (k tr S))",
        float(ratio.min()),
        ">= 1",
        ratio.size,
        f"the ratio goes up to {ratio.max():.3g}",
    )


def _has_left(dataset: xr.Dataset) -> np.ndarray:
    return dataset["escape_step"].values >= 0


def _escape(dataset: xr.Dataset) -> Verdict:
    """The saddle of each replicate has a curvature of its own, so each is measured by itself; the worst counts."""
    ratios = []
    for _, rows in combinations(dataset, ["replicate"] if "replicate" in dataset.coords else []):
        if count(rows, "perturbation_size") < 3:
            continue
        fit = fits.line(-np.log10(rows["perturbation_size"].values), rows["escape_step"].values)
        ratios.append(fit.slope.scaled(1 / float(rows["escape_slope"].mean())))
    if not ratios:
        return Verdict.absent("no saddle was left after jumps of three sizes")
    worst = max(ratios, key=lambda it: abs(it.value - 1))
    return Verdict.of(
        abs(worst.value - 1) <= SLOPE,
        "steps a decade of the jump / (ln 10 / ln(1 + step |lambda_min|)), farthest from 1",
        worst,
        1.0,
        int(dataset.sizes["point"]),
        f"{len(ratios)} saddles, from {min(it.value for it in ratios):.3f} to {max(it.value for it in ratios):.3f}; "
        f"within {SLOPE} of 1 counts",
    )


def _timescales(dataset: xr.Dataset) -> Verdict:
    ratios = np.unique(dataset["attention_step_ratio"].values)
    gaps = [dataset["timescale_gap"].values[dataset["attention_step_ratio"].values == it] for it in ratios]
    words = ", ".join(f"{np.median(gap):.2g} at {it:g}" for it, gap in zip(ratios, gaps))
    return Verdict.measuring(
        f"largest |log(L_TF / L)|, mean at {ratios[-1]:g} steps of W for each of mu",
        fits.mean(gaps[-1]),
        int(dataset.sizes["point"]),
        f"medians: {words}",
    )


def _stalls(dataset: xr.Dataset) -> Verdict:
    stalled = dataset["stalled"].values
    where = dataset["attention_step_ratio"].values
    words = ", ".join(f"{stalled[where == it].mean():.2g} at {it:g}" for it in np.unique(where))
    return Verdict.measuring(
        "share of runs that end on r/2", fits.share(int(stalled.sum()), stalled.size), stalled.size, words
    )


def _is_misspecified(dataset: xr.Dataset) -> np.ndarray:
    return dataset["true_features"].values > dataset["features"].values


def _floor(dataset: xr.Dataset) -> Verdict:
    gap = ((dataset["loss"] - dataset["loss_floor"]) / dataset["loss_floor"]).values
    right = int(np.sum((gap >= -1e-12) & (gap < NEAR)))
    return Verdict.of(
        right == gap.size,
        "largest (loss - floor) / floor",
        float(gap.max()),
        f"in [0, {NEAR})",
        gap.size,
        f"{right} of {gap.size} within; the least is {gap.min():.2g}, the middle one {np.median(gap):.2g}",
    )


def _is_successful(dataset: xr.Dataset) -> np.ndarray:
    return dataset["success"].values == 1


def _one_over_t(dataset: xr.Dataset) -> Verdict:
    exponent = dataset["exponent"].values
    fast = int(np.sum(exponent >= 1 - POWER))
    return Verdict.of(
        fast == exponent.size,
        "least exponent p of loss - floor = t^-p",
        float(exponent.min()),
        f">= {1 - POWER}",
        exponent.size,
        f"{fast} of {exponent.size} runs; mean {exponent.mean():.3f}",
    )


def _finite(dataset: xr.Dataset) -> Verdict:
    enough = dataset["finite_tokens"].values >= FEW * dataset["features"].values
    long = dataset.isel(point=np.flatnonzero(enough))
    if long.sizes["point"] == 0 or count(long, "finite_tokens") < 3:
        return Verdict.absent(f"fewer than 3 lengths of at least {FEW} tokens a feature")
    fit = fits.power(long["finite_tokens"].values, (long["loss_finite"] - long["loss"]).values)
    return Verdict.of(
        abs(fit.exponent.value + 1) <= POWER,
        "exponent of L^n - L in n",
        fit.exponent,
        -1.0,
        fit.points,
        f"prompts of {FEW} tokens a feature or more; R^2 = {fit.r2:.4f}; the paper bounds it by n^-1/2; "
        f"within {POWER} counts",
    )


def _finite_drawn(dataset: xr.Dataset) -> Verdict:
    ratio = (dataset["loss_finite_sampled"] / dataset["loss_finite"]).values
    away = float(np.abs(ratio - 1).max())
    return Verdict.of(
        away <= SLOPE, "largest |sampled / closed form - 1|", away, f"<= {SLOPE}", ratio.size, "random prompts, same W"
    )


def _transfer(dataset: xr.Dataset) -> Verdict:
    ratio = (dataset["icl_error"] / (dataset["loss"] + dataset["projection_error"])).values
    return Verdict.measuring(
        "largest error in context / (loss + projection error)",
        float(ratio.max()),
        ratio.size,
        f"the ratio goes from {ratio.min():.3g} to {ratio.max():.3g}; the theorem's constant is not known here",
    )


def _bias(dataset: xr.Dataset) -> Verdict:
    rows, linear = excess_of_rates(dataset)
    few = rows.isel(point=np.flatnonzero(linear))
    if few.sizes["point"] == 0 or count(few, "birth_death") < 3:
        return Verdict.absent(f"fewer than 3 rates with a stationary loss of at most {LINEAR} x r/2")
    if few["excess"].values.min() <= 0:
        return Verdict.absent("the loss with birth and death is not above that without")
    fit = fits.power(few["birth_death"].values, few["excess"].values)
    rates = few["birth_death"].values
    above = np.unique(rows["birth_death"].values[~linear])
    return Verdict.of(
        abs(fit.exponent.value - 1) <= POWER or fit.exponent.contains(1),
        "exponent of the stationary excess loss in the rate",
        fit.exponent,
        1.0,
        fit.points,
        f"rates {rates.min():g} to {rates.max():g}; R^2 = {fit.r2:.4f}; within {POWER} of 1, or 1 in its interval, "
        f"counts; left out as above {LINEAR} x r/2: {', '.join(f'{it:g}' for it in above) or 'none'}",
    )


def _rates(dataset: xr.Dataset) -> Verdict:
    """Does some modification end at the optimum more often than none, by more than chance (Wilson's intervals)?"""
    names = [name for name in ("perturbation", "birth_death") if name in dataset.coords]
    shares = {}
    for _, rows in combinations(dataset, names):
        rate = float(rows["birth_death"].values[0]) if "birth_death" in names else 0.0
        way = f"{rows['perturbation'].values[0]}{f' and birth-death {rate:g}' if rate > 0 else ''}"
        shares[way] = fits.share(int(rows["success"].values.sum()), int(rows.sizes["point"]))
    if "none" not in shares or len(shares) < 2:
        return Verdict.absent("needs runs without any modification, and others, on the same task")
    best = max((it for it in shares if it != "none"), key=lambda it: shares[it].value)
    return Verdict.of(
        shares[best].low > shares["none"].high,
        f"share that reaches the optimum by {best}",
        shares[best],
        f"> {shares['none'].high:.3g} (none)",
        int(dataset.sizes["point"]),
        ", ".join(f"{way} {share.value:.2f}" for way, share in shares.items()),
    )


CLAIMS = (
    Claim(
        "attention_limit_is_linear",
        ICL,
        "For fixed features W converges linearly to its optimum, at the rate of the smallest eigenvalues of A and S.",
        Source(f"lemma 3.1 of {PAPER} says linear; the rate is derived here", Mark.DERIVED),
        _attention_limit,
        ("attention_rate", "attention_rate_theory"),
        rows=_is_resolved,
        where="model: attention and a slowest mode that falls by a factor of e^3 to e^25",
        pooled=ALL,
    ),
    Claim(
        "plateaus_are_rungs",
        ICL,
        "Where the loss rests it is half a sum of eigenvalues of S0.",
        LADDER,
        _plateaus,
        ("curve_loss", "curve_gradient_norm", "curve_rung_distance"),
        rows=only(model="static", sampling="pool"),
        where="model: static and sampling: pool",
        pooled=ALL,
    ),
    Claim(
        "no_critical_point_below_lowest_rung",
        ICL,
        "Below r/2 no point is critical: B is nonsingular by sigma_min(B)^2 >= (r - 2 L) / lambda_max(S).",
        LADDER,
        _below_lowest_rung,
        ("curve_sigma_min_b", "curve_sigma_bound", "curve_gradient_norm"),
        pooled=ALL,
    ),
    Claim(
        "loss_falls_below_lowest_rung",
        ICL,
        "Below r/2 the loss of the plain flow falls without a stop.",
        LADDER,
        _monotone,
        ("curve_loss", "lowest_rung", "stiff"),
        rows=both(only(model="static", sampling="pool"), _follows_the_flow),
        where="model: static, sampling: pool and steps that are not stiff",
        pooled=ALL,
    ),
    Claim(
        "saddles_are_strict",
        ICL,
        "Every saddle has a direction of curvature -4 L^2 / (k tr S) or less.",
        Source(f"theorem 3.3 of {PAPER} with tr S for its R_1^2, which is no less", Mark.DERIVED),
        _strict,
        ("curvature", "curvature_bound"),
        rows=both(only(task="symmetric"), _has_settled),
        where="task: symmetric with time to settle on its saddle (perturb_first)",
        pooled=ALL,
    ),
    Claim(
        "escape_is_logarithmic",
        ICL,
        "An escape takes ln 10 / ln(1 + step |lambda_min|) steps longer for each factor of ten off the jump.",
        Source("linearised flow at the saddle; lambda_min of the integral Hessian", Mark.DERIVED),
        _escape,
        ("escape_step", "escape_slope"),
        {"perturbation_size": 3},
        rows=both(only(trigger="once", perturbation=("isotropic", "hessian")), _has_left),
        where="trigger: once and a saddle that was left",
    ),
    Claim(
        "attention_follows_features",
        ICL,
        "Features and attention trained together follow the loss of attention at its optimum.",
        Source(f"{PAPER}, experiments: similar dynamics, which justify two timescales", Mark.SECONDARY),
        _timescales,
        ("timescale_gap",),
        {"attention_step_ratio": 2},
        rows=only(model="attention"),
        where="model: attention",
    ),
    Claim(
        "attention_stalls_on_lowest_rung",
        ICL,
        "Features and attention trained together may stall at r/2, where the features alone do not.",
        Source("asked here: the joint flow has rank-deficient traps of its own", Mark.QUESTION),
        _stalls,
        ("stalled",),
        {"attention_step_ratio": 2},
        rows=only(model="attention"),
        where="model: attention",
    ),
    Claim(
        "misspecified_floor",
        ICL,
        "With too few features the loss ends at half the sum of the k0 - k smallest eigenvalues of S0, never below.",
        Source("Eckart and Young 1936, applied to S0", Mark.DERIVED),
        _floor,
        ("loss", "loss_floor"),
        rows=_is_misspecified,
        where="true_features > features",
    ),
    Claim(
        "loss_falls_as_one_over_t",
        ICL,
        "Near the optimum the loss above its floor falls at least as 1/t.",
        Source(f"first-order bound with the curvature below r/2; {PAPER} has such a regime", Mark.DERIVED),
        _one_over_t,
        ("exponent", "success"),
        rows=both(only(model="static"), _is_successful),
        where="model: static and a run that reaches the optimum",
    ),
    Claim(
        "finite_prompts_cost_one_over_n",
        ICL,
        "Prompts of n tokens add O(1/n) to the loss.",
        Source(f"closed form at the best W; appendix C.4 of {PAPER} bounds it by n^-1/2", Mark.DERIVED),
        _finite,
        ("loss_finite", "loss"),
        {"finite_tokens": 3},
    ),
    Claim(
        "finite_prompts_closed_form",
        ICL,
        "Random prompts of n tokens have the loss of the closed form.",
        Source("T = E[|f|^2 h h^T], Q = (1 - 1/n) A + T/n", Mark.DERIVED),
        _finite_drawn,
        ("loss_finite", "loss_finite_sampled"),
        pooled=ALL,
    ),
    Claim(
        "new_tasks_are_learned_in_context",
        ICL,
        "The error on a new task is at most a constant times the loss plus the task's distance from the true features.",
        Source(f"{PAPER}, its transfer bound", Mark.SECONDARY),
        _transfer,
        ("icl_error", "projection_error", "loss"),
        {"task_shift": 2},
        pooled=("steps",),
    ),
    Claim(
        "birth_death_bias_is_linear",
        ICL,
        "Far below r/2, birth and death raise the stationary loss in proportion to their rate.",
        Source(
            "shot noise of M neurons about an optimum, sum_j gamma v_j / (4 M (lambda_j + gamma)); without noise there "
            "is no bias, since E h = 0 under the initial law and L does not see the scale of h",
            Mark.UNVERIFIED,
        ),
        _bias,
        ("loss_stationary", "lowest_rung"),
        {"birth_death": 3},
        pooled=("steps",),
    ),
    Claim(
        "degenerate_starts_are_left",
        ICL,
        "From a degenerate start, birth-death or perturbation reach the optimum more often than the plain flow.",
        Source(f"{PAPER}, experiments on degenerate features", Mark.SECONDARY),
        _rates,
        ("success",),
        {"perturbation": 2},
        rows=only(model="modified", task=("rank_deficient", "symmetric")),
        where="model: modified on a degenerate task",
        pooled=("birth_death",),
    ),
)
