"""In-context learning: its figures have the lines of the theory, its claims are right on rows whose answer is known."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import mhasweep_analysis as mhas
from mhasweep_analysis import figures
from mhasweep_analysis.claims import CLAIMS, Outcome
from mhasweep_analysis.figures import icl

PARAMETERS = {
    "model": "static", "task": "standard", "teacher": "single_index", "sampling": "pool", "trigger": "gradient",
    "perturbation": "none", "birth_death": 0.0, "perturbation_size": 0.01, "perturb_first": 100, "step_size": 0.5,
    "init_scale": 5.0, "features": 3, "true_features": 3, "attention_step_ratio": 1.0, "attention_step_size": 1.0,
    "attention_start": "small", "finite_tokens": 100, "task_shift": 0.5, "steps": 1000, "replicate": 0,
}


def rows(results, curves=None, **axes):
    """A dataset of one row for each combination of the axes; results are functions of a row, or values."""
    table = [dict(PARAMETERS)]
    for name, values in axes.items():
        table = [{**row, name: value} for row in table for value in values]

    def column(value):
        return [value(row) if callable(value) else value for row in table]

    data = {name: ("point", np.array(column(value), float)) for name, value in results.items()}
    for name, value in (curves or {}).items():
        data[f"curve_{name}"] = (("point", "record"), np.array(column(value), float))
    data["status"] = ("point", np.array(["done"] * len(table), dtype=object))
    coords = {}
    for name in PARAMETERS:
        values = [row[name] for row in table]
        coords[name] = ("point", np.array(values, dtype=object if isinstance(values[0], str) else None))
    dataset = xr.Dataset(data, coords).assign_coords(point=np.arange(len(table))).assign_attrs(experiment="icl")
    for name in axes:
        dataset[name].attrs["is_axis"] = 1
    return dataset


def judged(name, dataset):
    return CLAIMS[name].judge(dataset)


def outcome(name, dataset):
    return judged(name, dataset).outcome


def labelled(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def theory(axes):
    return next(line for words, line in labelled(axes).items() if words.startswith("theory"))


def escapes(slope=10.0, seen=10.0):
    """Escapes after 20 + seen log10(1 / eta) steps from a saddle whose curvature says `slope`."""
    return rows(
        {"escape_step": lambda it: 20 - seen * np.log10(it["perturbation_size"]) + 3 * it["replicate"],
         "escape_slope": slope},
        perturbation=["isotropic", "hessian"], perturbation_size=[1e-2, 1e-3, 1e-4], trigger=["once"], replicate=[0, 1])


# ---- claims ----


def test_an_escape_has_the_slope_of_its_curvature_within_5_percent():
    right = judged("escape_is_logarithmic", escapes(seen=10.4))
    assert (right.outcome, len(right.parts)) == (Outcome.HOLDS, 2)
    assert right.parts[0].verdict.measured == pytest.approx(1.04)
    assert outcome("escape_is_logarithmic", escapes(seen=10.6)) == Outcome.FAILS
    never = escapes().assign(escape_step=("point", np.full(12, -1.0)))
    assert outcome("escape_is_logarithmic", never) == Outcome.ABSENT


@pytest.mark.parametrize("above, expected", [(0.005, Outcome.HOLDS), (0.011, Outcome.FAILS), (-1e-3, Outcome.FAILS)])
def test_a_misspecified_loss_is_within_1_percent_of_its_floor_and_not_below(above, expected):
    data = rows({"loss": lambda it: 0.2 * (1 + above * (it["replicate"] == 1)), "loss_floor": 0.2}, true_features=[4],
                replicate=[0, 1])
    assert outcome("misspecified_floor", data) == expected
    assert outcome("misspecified_floor", data.assign_coords(true_features=("point", [3, 3]))) == Outcome.ABSENT


def resting(away, speed):
    """Runs of 500 in time whose second record is the slowest one."""
    return rows({}, {"loss": [0.3, 0.1, 0.05], "gradient_norm": [1, (speed * 0.1 / 500) ** 0.5, 0.1],
                     "rung_distance": lambda it: [0.5, away * it["replicate"], 0.5]}, replicate=[0, 1])


@pytest.mark.parametrize("away, expected", [(0.009, Outcome.HOLDS), (0.02, Outcome.FAILS)])
def test_a_loss_rests_within_1_percent_of_a_rung(away, expected):
    it = judged("plateaus_are_rungs", resting(away, 0.0009))
    assert (it.outcome, it.measured, it.points) == (expected, pytest.approx(away), 2)


def test_a_loss_that_would_still_fall_by_a_thousandth_does_not_rest():
    assert outcome("plateaus_are_rungs", resting(0.02, 0.0011)) == Outcome.ABSENT


def test_below_the_lowest_rung_b_is_nonsingular_and_the_loss_falls():
    curves = {"sigma_min_b": [0.1, 0.5, 0.7], "sigma_bound": [0, 0.4, 0.7], "gradient_norm": [1, 1, 0.1],
              "loss": [0.3, 0.1, 0.05]}
    results = {"lowest_rung": 0.2, "stiff": 0}
    right = rows(results, curves, replicate=[0, 1])
    it = judged("no_critical_point_below_lowest_rung", right)
    assert (it.outcome, it.measured, it.points) == (Outcome.HOLDS, 1, 4)
    assert outcome("loss_falls_below_lowest_rung", right) == Outcome.HOLDS
    for wrong in ({"sigma_min_b": [0.1, 0.3, 0.7]}, {"gradient_norm": [1, 1, 0]}):
        assert outcome("no_critical_point_below_lowest_rung", rows(results, curves | wrong)) == Outcome.FAILS
    rises = curves | {"loss": [0.3, 0.1, 0.11]}
    assert outcome("loss_falls_below_lowest_rung", rows(results, rises)) == Outcome.FAILS
    assert outcome("loss_falls_below_lowest_rung", rows(results | {"stiff": 1}, rises)) == Outcome.ABSENT
    above = curves | {"sigma_bound": [0, 0, 0]}
    assert outcome("no_critical_point_below_lowest_rung", rows(results, above)) == Outcome.ABSENT


def test_saddles_are_strict_where_they_were_settled_on():
    results = {"curvature": -0.3, "curvature_bound": -0.1}
    it = judged("saddles_are_strict", rows(results, task=["symmetric"]))
    assert (it.outcome, it.measured) == (Outcome.HOLDS, pytest.approx(3))
    assert outcome("saddles_are_strict", rows(results | {"curvature": -0.05}, task=["symmetric"])) == Outcome.FAILS
    assert outcome("saddles_are_strict", rows(results, task=["symmetric"], perturb_first=[0])) == Outcome.ABSENT
    assert outcome("saddles_are_strict", rows(results, task=["standard"])) == Outcome.ABSENT


@pytest.mark.parametrize("exponent, expected", [(0.95, Outcome.HOLDS), (0.8, Outcome.FAILS)])
def test_the_loss_falls_as_one_over_t_in_runs_that_reach_the_optimum(exponent, expected):
    data = rows({"exponent": lambda it: exponent if it["replicate"] else 0.1, "success": lambda it: it["replicate"]},
                replicate=[0, 1])
    it = judged("loss_falls_as_one_over_t", data)
    assert (it.outcome, it.points) == (expected, 1)


@pytest.mark.parametrize("power, expected", [(1.0, Outcome.HOLDS), (0.5, Outcome.FAILS)])
def test_long_prompts_cost_one_over_n(power, expected):
    data = rows({"loss": 0.1, "loss_finite": lambda it: 0.1 + 2 * it["finite_tokens"] ** -power if
                 it["finite_tokens"] > 20 else 9.0}, finite_tokens=[10, 100, 1000, 10000])
    it = judged("finite_prompts_cost_one_over_n", data)
    assert (it.outcome, it.measured, it.points) == (expected, pytest.approx(-power), 3)


def test_random_prompts_have_the_closed_form_or_not():
    for ratio, expected in ((1.04, Outcome.HOLDS), (0.9, Outcome.FAILS)):
        data = rows({"loss_finite": 0.5, "loss_finite_sampled": 0.5 * ratio}, finite_tokens=[10])
        assert outcome("finite_prompts_closed_form", data) == expected


def bias(power):
    """Of rates that are each run for 10 lifetimes, on a loss of 1e-3 without; the last one is near r/2 and saturates."""
    data = rows({"loss_stationary": lambda it: 1e-3 + min(5 * it["birth_death"] ** power, 0.04), "lowest_rung": 0.05},
                birth_death=[0.0, 2e-5, 1e-4, 5e-4, 2e-3, 1e-1])
    rate = data["birth_death"].values
    steps = ("point", np.where(rate > 0, 20 / np.maximum(rate, 1e-9), 1e6), {"is_axis": 1})
    return data.assign_coords(steps=steps)


@pytest.mark.parametrize("power, expected", [(1.05, Outcome.HOLDS), (0.8, Outcome.FAILS)])
def test_the_bias_of_birth_and_death_is_linear_far_below_the_lowest_rung(power, expected):
    it = judged("birth_death_bias_is_linear", bias(power))
    assert (it.outcome, it.measured) == (expected, pytest.approx(power))
    assert it.note.endswith("x r/2: 0.1" if power > 1 else "x r/2: 0.002, 0.1")


def test_a_bias_that_is_not_stationary_yet_is_none():
    data = bias(1.0)
    assert judged("birth_death_bias_is_linear", data).points == 4
    early = data.assign_coords(steps=("point", data["steps"].values * 0.7, {"is_axis": 1}))
    assert outcome("birth_death_bias_is_linear", early) == Outcome.ABSENT
    with pytest.raises(mhas.ResultError, match="no run is stationary"):
        icl.birth_death_bias(early, Figure().subplots())


def test_a_modification_has_to_do_better_than_none_by_more_than_chance():
    def results(share):
        return {"success": lambda it: it["replicate"] < 20 * share if it["perturbation"] != "none" else 0}

    axes = {"model": ["modified"], "task": ["rank_deficient", "symmetric"], "perturbation": ["none", "isotropic"],
            "replicate": range(20)}
    it = judged("degenerate_starts_are_left", rows(results(1.0), **axes))
    assert (it.outcome, len(it.parts), it.parts[0].verdict.measured) == (Outcome.HOLDS, 2, 1)
    assert outcome("degenerate_starts_are_left", rows(results(0.1), **axes)) == Outcome.FAILS


def test_attention_has_the_rate_of_the_theory():
    def data(ratio):
        return rows({"attention_rate": 0.01 * ratio, "attention_rate_theory": 0.01}, model=["attention"])

    assert outcome("attention_limit_is_linear", data(1.04)) == Outcome.HOLDS
    assert outcome("attention_limit_is_linear", data(1.06)) == Outcome.FAILS
    short = data(1.0).assign_coords(steps=("point", [200]))
    assert outcome("attention_limit_is_linear", short) == Outcome.ABSENT


def test_timescales_stalls_and_transfer_are_only_measured():
    data = rows({"timescale_gap": lambda it: 1 / it["attention_step_ratio"],
                 "stalled": lambda it: it["attention_step_ratio"] == 1}, model=["attention"],
                attention_step_ratio=[1.0, 10.0], replicate=[0, 1])
    gap, stalled = (judged(it, data) for it in ("attention_follows_features", "attention_stalls_on_lowest_rung"))
    assert (gap.outcome, gap.measured) == (Outcome.MEASURED, pytest.approx(0.1))
    assert (stalled.outcome, stalled.measured) == (Outcome.MEASURED, 0.5)
    new = rows({"icl_error": 0.6, "loss": 0.1, "projection_error": lambda it: it["task_shift"]}, task_shift=[0.1, 0.2])
    assert judged("new_tasks_are_learned_in_context", new).measured == pytest.approx(3)


# ---- figures ----


def test_escapes_stand_beside_a_line_of_their_curvatures_slope():
    data = escapes()
    assert figures.choose(data) == "escape_steps"
    axes = figures.draw(data).axes[0]
    np.testing.assert_allclose(labelled(axes)["perturbation = hessian: 10.0 a decade, theory 10.0"].get_ydata(),
                               [61.5, 51.5, 41.5])
    np.testing.assert_allclose(theory(axes).get_ydata(), [61.5, 51.5, 41.5])
    with pytest.raises(mhas.ResultError, match="no run has left"):
        icl.escape_steps(data.assign(escape_step=("point", np.full(12, -1.0))), Figure().subplots())


def test_success_is_a_bar_for_every_way():
    data = rows({"success": lambda it: it["perturbation"] == "isotropic"}, model=["modified"],
                perturbation=["none", "isotropic"], replicate=[0, 1, 2])
    assert figures.choose(data) == "success_rates"
    bars = figures.draw(data).axes[0].patches
    assert [it.get_height() for it in bars] == [0, 1]


def test_the_final_loss_stands_on_the_floor():
    data = rows({"loss": lambda it: 0.1 * it["true_features"] - 0.29, "loss_floor": lambda it:
                 0.1 * (it["true_features"] - 3)}, true_features=[3, 4, 5])
    assert figures.choose(data) == "misspecified_loss"
    np.testing.assert_allclose(theory(figures.draw(data).axes[0]).get_ydata(), [0, 0.1, 0.2])


def test_the_bias_has_its_exponent_in_the_legend():
    axes = figures.draw(bias(1.0), "birth_death_bias").axes[0]
    assert any(r"\gamma^{1.00" in words for words in labelled(axes))
    np.testing.assert_allclose(theory(axes).get_ydata(), [1e-4, 5e-4, 2.5e-3, 1e-2, 0.5])
    np.testing.assert_allclose(labelled(axes)["theory: lowest rung $r/2$"].get_ydata(), 0.05)


def test_prompts_and_transfer_have_lines_of_theory():
    data = rows({"loss": 0.1, "loss_finite": lambda it: 0.1 + 1 / it["finite_tokens"]}, finite_tokens=[10, 100])
    np.testing.assert_allclose(theory(figures.draw(data).axes[0]).get_ydata(), [0.1, 0.01])
    new = rows({"icl_error": 0.6, "loss": 0.1, "projection_error": lambda it: it["task_shift"]}, task_shift=[0.1, 0.3])
    line = theory(figures.draw(new).axes[0])
    np.testing.assert_allclose(line.get_xdata(), [0.2, 0.4])
    np.testing.assert_allclose(line.get_ydata(), [0.2, 0.4])


def test_joint_training_is_drawn_against_its_ratio():
    data = rows({"timescale_gap": lambda it: 1 / it["attention_step_ratio"],
                 "stalled": lambda it: it["replicate"]}, model=["attention"], attention_step_ratio=[1.0, 10.0],
                replicate=[0, 1])
    gap = figures.draw(data).axes[0].get_lines()[0]
    np.testing.assert_allclose(gap.get_ydata(), [1, 0.1])
    np.testing.assert_allclose(figures.draw(data, "stalled_share").axes[0].get_lines()[0].get_ydata(), [0.5, 0.5])


def test_curves_stand_on_the_ladder_and_above_what_keeps_b_from_zero():
    curves = {"step": [0, 10, 100], "loss": [0.4, 0.2, 0.02], "loss_attention": [0.4, 0.2, 0.02],
              "nearest_rung": [0.4, 0.2, 0.0], "sigma_min_b": [0.1, 0.2, 0.9], "sigma_bound": [0, 0, 0.8]}
    data = rows({"loss": 0.02, "loss_floor": 0, "lowest_rung": 0.2, "exponent": 1, "sigma_min_b": 0.9}, curves,
                replicate=[0, 1])
    line = labelled(figures.draw(data, "loss_on_ladder").axes[0])
    np.testing.assert_allclose(line["theory: lowest rung $r/2$"].get_ydata(), 1)
    np.testing.assert_allclose(line["theory: nearest rung"].get_ydata(), [2, 1])
    np.testing.assert_allclose(line["model = static"].get_ydata(), [2, 1, 0.1])
    bound = theory(figures.draw(data, "sigma_bound").axes[0])
    np.testing.assert_allclose((bound.get_xdata(), bound.get_ydata()), [[100], [0.8]])
    excess = labelled(figures.draw(data, "excess_loss").axes[0])["model = static"]
    np.testing.assert_allclose((excess.get_xdata(), excess.get_ydata()), [[0, 5, 50], [0.4, 0.2, 0.02]])
    with pytest.raises(mhas.ResultError, match="holds no curves"):
        icl.sigma_bound(data.drop_vars("curve_step"), Figure().subplots())


def test_above_a_floor_the_ladder_begins_there():
    curves = {"step": [0, 10], "loss_attention": [0.5, 0.2], "nearest_rung": [0.3, 0.2]}
    data = rows({"loss": 0.2, "loss_floor": 0.1, "lowest_rung": 0.2}, curves, true_features=[4])
    line = labelled(figures.draw(data, "loss_on_ladder").axes[0])
    np.testing.assert_allclose(line["model = static"].get_ydata(), [4, 1])
    np.testing.assert_allclose(line["theory: nearest rung"].get_ydata(), [2, 1])
    assert "theory: lowest rung above the floor" in line


def test_saddles_and_rates_stand_beside_a_line_of_equality():
    data = rows({"curvature": -0.3, "curvature_bound": lambda it: -0.1 - 0.1 * it["replicate"]}, task=["symmetric"],
                replicate=[0, 1])
    line = theory(figures.draw(data, "strict_saddles").axes[0])
    np.testing.assert_allclose(line.get_xdata(), line.get_ydata())
    with pytest.raises(mhas.ResultError, match="no run settles"):
        icl.strict_saddles(data.assign_coords(perturb_first=("point", [0, 0])), Figure().subplots())
    rates = rows({"attention_rate": 0.01, "attention_rate_theory": lambda it: 0.01 * it["attention_step_size"]},
                 model=["attention"], attention_step_size=[0.5, 1.0])
    assert figures.choose(rates) == "attention_limit"
    np.testing.assert_allclose(theory(figures.draw(rates).axes[0]).get_xdata(), [0.005, 0.01])
