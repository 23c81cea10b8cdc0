"""Figures and claims on the optimization of multi-head attention, on rows for which the answer is known."""

import files
import numpy as np
import pytest
from judging import drawn, panel, verdict

import mhasweep_analysis as mhas
from mhasweep_analysis import figures
from mhasweep_analysis.claims import Outcome
from mhasweep_analysis.figures.optimization import fewest_heads

DEFAULTS = {"heads": 4, "samples": 32, "tokens": 10, "dim": 20, "key_dim": 0, "steps": 100, "relevant": 0.2,
            "signal": 2.0, "noise": 0.0, "prototypes": 4, "mixing": "even", "data": "dm1", "init": "one_step",
            "init_logit": 5.0, "step_rule": "constant", "step_size": 0.5, "random_signs": True, "collapse": True,
            "target_loss": 0.01, "replicate": 0}


def rows(results, curves=None, **axes):
    return files.rows("optimize", DEFAULTS, results, curves, **axes)


def noise(row, size=0.02):
    return 1 + size * (-1) ** (row["replicate"] + int(np.log2(row["heads"])))


# ---- claims ----


def curvature(exponent):
    return rows({"curvature_ratio": lambda row: row["heads"] ** exponent * noise(row)}, heads=[1, 4, 16, 64, 256],
                init=["gaussian"], steps=[0], replicate=[0, 1])


def test_the_weak_convexity_has_to_fall_as_the_root_of_the_heads():
    held = verdict("curvature_falls_with_heads", curvature(-0.5))
    assert held.outcome == Outcome.HOLDS and held.points == 8  # H = 1 is left out
    assert held.interval[0] < -0.5 < held.interval[1]
    assert verdict("curvature_falls_with_heads", curvature(-0.44)).outcome == Outcome.FAILS
    elsewhere = curvature(-0.5).assign_coords(steps=("point", [10] * 10))
    assert verdict("curvature_falls_with_heads", elsewhere).outcome == Outcome.ABSENT


BOUNDS = {"gradient_self_bounded": "self_bound", "curvature_weakly_convex": "weak_convexity",
          "smoothness_bounded": "smoothness", "training_bounded": "training_ratio", "weights_stay_local": "local_ratio"}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_fails_by_a_single_point_above_it(name):
    ratio = {BOUNDS[name]: lambda row: 0.9 + 0.05 * row["replicate"]}
    held = verdict(name, rows(ratio, heads=[1, 4], replicate=[0, 1]))
    assert (held.outcome, held.measured) == (Outcome.HOLDS, pytest.approx(0.95))
    assert verdict(name, rows(ratio, heads=[1, 4], replicate=[0, 1, 3])).outcome == Outcome.FAILS


def margins(off=0.0):
    closed = {"margin_linear": lambda row: 3 * row["relevant"],
              "margin_w_closed": lambda row: 0.0 if row["init"] == "zero" else 4 * row["relevant"],
              "margin_u": lambda row: 3 * row["relevant"],
              "margin_w": lambda row: 4 * row["relevant"],
              "margin": lambda row: (3 if row["init"] == "zero" else 5) * row["relevant"] * (1 + off * row["heads"])}
    return rows(closed, relevant=[0.2, 0.4], heads=[4, 64], init=["zero", "one_step"])


def test_margins_are_their_closed_forms_and_the_same_for_all_heads():
    for name in ("margin_u_exact", "margin_exact", "margin_ignores_heads"):
        assert verdict(name, margins()).outcome == Outcome.HOLDS
    for name in ("margin_exact", "margin_ignores_heads"):
        assert verdict(name, margins(1e-9)).outcome == Outcome.FAILS
    noisy = margins().assign_coords(noise=("point", [0.1] * 8))
    assert verdict("margin_exact", noisy).outcome == Outcome.ABSENT


def outputs(grows):
    generator = np.random.default_rng(5)

    def output(row):
        alike = 1.0 if row["random_signs"] is False else abs(generator.choice([-1, 1], row["heads"]).mean())
        return alike * np.sqrt(row["heads"]) * (row["heads"] ** 0.25 if grows else 1.0)

    return rows({"output_at_init": output, "output_deviation": 1.0}, heads=[1, 4, 16, 64], random_signs=[True, False],
                replicate=list(range(20)))


def test_the_output_at_the_first_step_grows_only_without_random_signs():
    for name in ("output_ignores_heads", "output_grows_without_signs"):
        assert verdict(name, outputs(False)).outcome == Outcome.HOLDS
        assert verdict(name, outputs(True)).outcome == Outcome.FAILS
    few = outputs(False)
    few = few.isel(point=few["replicate"].values < 5)
    assert verdict("output_ignores_heads", few).outcome == Outcome.ABSENT


def test_stability_and_gap_are_judged_by_their_bounds_and_measured_by_their_exponents():
    dataset = rows({"stability": lambda row: noise(row) / row["samples"],
                    "stability_bound": lambda row: 2 / row["samples"],
                    "gap": lambda row: noise(row) * row["samples"] ** -0.75, "gap_bound": 1.0,
                    "gap_bound_losses": 0.01, "test_loss": lambda row: noise(row) * row["samples"] ** -0.5},
                   samples=[16, 64, 256], replicate=[0, 1])
    assert verdict("stability_bounded", dataset).outcome == Outcome.HOLDS
    assert verdict("gap_below_stability", dataset).outcome == Outcome.HOLDS
    assert verdict("gap_below_losses", dataset).outcome == Outcome.FAILS
    law = verdict("stability_falls_with_samples", dataset)
    assert law.outcome == Outcome.MEASURED and law.measured == pytest.approx(-1)
    assert verdict("gap_times_samples", dataset).outcome == Outcome.ABSENT  # K is not n
    dataset = dataset.assign_coords(steps=("point", dataset["samples"].values))
    assert verdict("gap_times_samples", dataset).measured == pytest.approx(0.25)
    assert verdict("test_loss_falls_with_samples", dataset).measured == pytest.approx(-0.5)
    dataset["gap"][0] = -0.1
    assert "not positive at 1 points" in verdict("gap_times_samples", dataset).note


def test_heads_from_zero_are_one_head():
    def collapsed(off):
        return rows({"train_loss": lambda row: row["heads"] * (1.0 if row["collapse"] else 1.0 + off),
                     "head_spread": off}, heads=[1, 4], collapse=[True, False], init=["zero"], replicate=[0, 1])

    for name in ("heads_stay_equal", "heads_collapse_to_one"):
        assert verdict(name, collapsed(0.0)).outcome == Outcome.HOLDS
        assert verdict(name, collapsed(1e-9)).outcome == Outcome.FAILS


def losses(exponent, last=1e-3):
    steps = np.array([0, 1, 10, 100, 200, 400, 700, 1000])
    return rows({"train_loss": last, "monotone": 1.0, "mean_loss": 0.1, "distance": 1.0},
                {"curve_step": lambda row: steps,
                 "curve_train_loss": lambda row: noise(row) * np.maximum(steps, 1.0) ** exponent},
                heads=[1, 4], replicate=[0, 1], steps=[1000])


def test_the_rate_is_that_of_the_last_decade_of_runs_that_fit():
    assert verdict("training_rate", losses(-1.0)).outcome == Outcome.HOLDS
    assert verdict("training_rate", losses(-0.5)).outcome == Outcome.FAILS
    assert verdict("training_rate", losses(-1.0, last=0.3)).outcome == Outcome.ABSENT


def test_heads_that_are_realized_with_the_most_heads_alone_are_told():
    dataset = rows({"realized_loss": lambda row: row["target_loss"] * (2 if row["heads"] == 4 else 0.5)},
                   heads=[1, 4, 16], target_loss=[0.1, 0.01])
    held = verdict("loss_is_realizable", dataset)
    assert held.outcome == Outcome.HOLDS and held.note.endswith("not reached at H = 4")
    short = dataset.isel(point=dataset["heads"].values < 16)
    assert verdict("loss_is_realizable", short).outcome == Outcome.FAILS


def descents():
    """lambda_max is 1 at first and never larger; the loss rises where eta is 4 or more."""
    return rows({"monotone": lambda row: row["step_size"] < 4, "lambda_max": 0.1},
                {"curve_lambda_max": lambda row: [1.0, 0.5]}, step_size=[1.0, 2.0, 4.0], heads=[1, 4])


def test_the_edge_of_stability_is_that_of_the_sharpest_logged_step():
    told = verdict("descent_up_to_the_edge", descents())
    first = told.parts[0].verdict
    assert (first.outcome, first.measured) == (Outcome.MEASURED, 1.0) and "2 of 3 runs" in first.note


# ---- figures ----


def test_the_fewest_heads_are_those_from_which_on_no_replicate_fails():
    dataset = rows({"conclusions": lambda row: row["heads"] != 4 or row["samples"] == 16 or row["replicate"] == 0},
                   samples=[16, 32], heads=[1, 4, 16], replicate=[0, 1])
    assert fewest_heads(dataset) == {16: 1, 32: 16}
    assert fewest_heads(dataset.isel(point=dataset["heads"].values < 16)) == {16: 1, 32: None}
    lines = drawn(panel("heads_needed", dataset))
    np.testing.assert_array_equal(lines["measured"], [1, 16])
    assert verdict("few_heads_suffice", dataset).measured == 16


def test_curvature_is_drawn_with_its_exponent_beside_the_theorys():
    lines = drawn(panel("curvature_against_heads", curvature(-0.5)))
    words = next(it for it in lines if it.startswith("measured"))
    assert r"H^{-0.500 \pm" in words
    np.testing.assert_allclose(lines[words], np.array([1, 4, 16, 64, 256.0]) ** -0.5)
    np.testing.assert_allclose(lines[r"theory: $\propto H^{-1/2}$"], np.array([1, 4, 16, 64, 256.0]) ** -0.5)


def test_margins_are_drawn_on_their_closed_forms():
    dataset = margins()
    lines = drawn(panel("margin_against_relevant", dataset.isel(point=dataset["init"].values == "one_step")))
    np.testing.assert_allclose(lines[r"theory: $\gamma = \sqrt{\gamma_{lin}^2 + \gamma_W^2}$"], [1, 2])
    np.testing.assert_allclose(lines["$H$ = 4"], [1, 2])


def test_the_gap_is_drawn_times_n_and_samples_are_called_n():
    dataset = rows({"gap": lambda row: noise(row) / row["samples"], "test_loss": 0.5}, samples=[16, 64, 256],
                   replicate=[0, 1])
    axes = panel("gap_against_samples", dataset)
    assert axes.get_xlabel() == "samples $n$"
    measured = next(y for words, y in drawn(axes).items() if words.startswith("$H$ = 4"))
    np.testing.assert_allclose(measured, [1, 1, 1])
    assert figures.choose(dataset) == "test_loss_against_samples"
    title = figures.draw(dataset).texts[0].get_text()
    assert "$n$" not in title and "$T$ = 10" in title


def test_a_run_that_is_stable_in_all_replicates_has_a_full_marker():
    axes = panel("edge_of_stability", descents())
    full = [line for line in axes.get_lines() if line.get_marker() not in ("", "None")]
    assert [len(line.get_xdata()) for line in full] == [2, 1, 2, 1]
    assert [line.get_markerfacecolor() == "none" for line in full] == [False, True, False, True]
    np.testing.assert_allclose(drawn(axes)[r"theory: $2/\eta$"], [2, 1, 0.5])
    with pytest.raises(mhas.ResultError, match="holds no curves"):
        panel("edge_of_stability", descents().drop_vars("curve_lambda_max"))


def test_the_loss_is_drawn_without_the_start_and_asks_for_curves():
    lines = drawn(panel("loss_along_training", losses(-1.0)))
    assert lines["$H$ = 1"].size == 7 and lines["$H$ = 1"][-1] == pytest.approx(1e-3)
    with pytest.raises(mhas.ResultError, match="holds no curves"):
        panel("loss_along_training", losses(-1.0).drop_vars("curve_train_loss"))


ALONG = {"realizability": {"target_loss": [0.1, 0.01]}, "margin_attained": {"init_logit": [0.0, 4.0]},
         "margin_against_noise": {"noise": [0.0, 0.1]}, "output_against_heads": {"random_signs": [True, False]},
         "head_collapse": {"collapse": [True, False]}, "stability_against_samples": {"samples": [16, 32]},
         "heads_needed": {"samples": [16, 32]}, "gradient_bound": {"init": ["zero", "gaussian"]},
         "curvature_bound": {}, "smoothness_bound": {}, "loss_along_training": {}, "test_loss_along_training": {},
         "distance_along_training": {}, "attention_along_training": {}}
RESULTS = ("realized_loss", "margin", "margin_u", "margin_linear", "margin_w_closed", "output_at_init",
           "output_deviation", "stability", "stability_bound", "conclusions", "self_bound", "weak_convexity", "smoothness",
           "mean_loss", "train_loss", "test_loss")


@pytest.mark.parametrize("name", ALONG)
def test_every_figure_has_a_line_of_measurements_and_words_for_its_axes(name):
    curves = {f"curve_{it}": lambda row: [2.0, 1.0, 0.5]
              for it in ("train_loss", "test_loss", "distance", "attention_mass")}
    dataset = rows(dict.fromkeys(RESULTS, 0.5), {"curve_step": lambda row: [0, 1, 20], **curves},
                   heads=[1, 4], replicate=[0, 1], **ALONG[name])
    axes = figures.draw(dataset, name).axes[0]
    assert axes.get_xlabel() and axes.get_ylabel() and len(axes.get_legend().get_texts()) >= 2
    assert all(np.isfinite(y).all() for y in drawn(axes).values() if y.size)
