"""Figures and claims on token selection and noisy labels, on rows for which the answer is known."""

import files
import numpy as np
import pytest
from judging import drawn, panel, verdict

import mhasweep_analysis as mhas
from mhasweep_analysis import figures
from mhasweep_analysis.claims import Outcome

DEFAULTS = {
    "select": {"samples": 6, "tokens": 8, "dim": 10, "init": "uniform", "step_rule": "normalised", "step_size": 0.1,
               "steps": 1000, "replicate": 0},
    "overfit": {"samples": 20, "tokens": 8, "dim": 400, "signal": 10.0, "label_noise": 0.2, "trained": "token",
                "step_size": 0.02, "steps": 1000, "replicate": 0}}
STEPS = [0, 10, 100, 1000]


def rows(experiment, results, curves=None, **axes):
    named = {f"curve_{name}": it for name, it in (curves or {}).items()}
    steps = {"curve_step": lambda row: STEPS} if curves else {}
    return files.rows(experiment, DEFAULTS[experiment], results, {**steps, **named}, **axes)


# ---- select ----


def trained(misalignment, softmax, **axes):
    """Trainings of which `misalignment` and `softmax` are the four records."""
    axes = axes or {"replicate": [0, 1]}
    return rows("select", {"correlation": lambda row: 1 - misalignment(row)[-1], "optimal_share": 1.0,
                           "misalignment": lambda row: misalignment(row)[-1],
                           "softmax_least": lambda row: softmax(row)[-1]},
                {"misalignment": misalignment, "correlation": lambda row: 1 - np.array(misalignment(row)),
                 "softmax_least": softmax}, **axes)


SETTLED = lambda row: [0.1, 0.3, 0.995, 1.0]  # noqa: E731


def test_only_what_happens_once_attention_has_settled_counts_for_the_direction():
    held = verdict("direction_is_max_margin", trained(lambda row: [0.5, 0.001, 0.1, 0.01], SETTLED))
    assert (held.outcome, held.measured, held.points) == (Outcome.HOLDS, 1.0, 2)
    apart = verdict("direction_is_max_margin", trained(lambda row: [0.5, 0.2, 0.01, 0.01 + row["replicate"]], SETTLED))
    assert (apart.outcome, apart.measured) == (Outcome.FAILS, 0.0)
    never = trained(lambda row: [0.5, 0.2, 0.1, 0.01], lambda row: [0.1, 0.2, 0.3, 0.4])
    assert verdict("direction_is_max_margin", never).outcome == Outcome.ABSENT


def test_attention_that_is_on_its_way_saturates_and_one_that_spreads_does_not():
    away = lambda row: [0.5, 0.2, 0.1, 0.01]  # noqa: E731
    assert verdict("attention_saturates", trained(away, SETTLED)).outcome == Outcome.HOLDS
    assert verdict("attention_saturates", trained(away, lambda row: [0.1, 0.2, 0.3, 0.4])).outcome == Outcome.HOLDS
    assert verdict("attention_saturates", trained(away, lambda row: [0.1, 0.2, 0.5, 0.4])).outcome == Outcome.FAILS


def test_more_dimensions_have_to_select_better_tokens():
    def selected(sign):
        return rows("select", {"optimal_share": lambda row: 0.5 + sign * row["dim"] / 100 + row["replicate"] / 1000},
                    dim=[4, 10, 40], samples=[3, 6], replicate=[0, 1])

    assert verdict("dimension_selects_best_tokens", selected(1)).outcome == Outcome.HOLDS
    assert verdict("dimension_selects_best_tokens", selected(-1)).outcome == Outcome.FAILS


def test_curves_are_drawn_as_medians_without_the_start():
    dataset = trained(lambda row: [0.5, 0.2, 0.1, 0.01 * row["replicate"]], SETTLED, step_rule=["normalised", "polyak"],
                      replicate=[1, 2, 50])
    lines = drawn(panel("misalignment_along_training", dataset))
    np.testing.assert_allclose(lines["step_rule = polyak"], [0.2, 0.1, 0.02])
    lines = drawn(panel("correlation_along_training", dataset))
    np.testing.assert_allclose(lines["step_rule = normalised"], [0.8, 0.9, 0.98])
    np.testing.assert_allclose(drawn(panel("softmax_along_training", dataset))["step_rule = polyak"], [0.3, 0.995, 1.0])
    with pytest.raises(mhas.ResultError, match="holds no curves"):
        panel("softmax_along_training", dataset.drop_vars("curve_softmax_least"))
    assert figures.choose(dataset) == "correlation_along_training"


def test_against_the_dimension_runs_are_counted_that_select_all_best_tokens():
    dataset = rows("select", {"correlation": lambda row: 1 - 1 / row["dim"] - row["replicate"],
                              "optimal_share": lambda row: 1.0 if row["replicate"] * 10 < row["dim"] else 0.9},
                   dim=[4, 10, 40], samples=[3, 6], replicate=[0, 1, 2, 3])
    shares = drawn(panel("best_tokens_against_dim", dataset))["$n$ = 3"]
    np.testing.assert_allclose(shares, [0.25, 0.25, 1.0])
    np.testing.assert_allclose(drawn(panel("correlation_against_dim", dataset))["$n$ = 6"], [-0.75, -0.6, -0.525])
    assert figures.choose(dataset) == "correlation_against_dim"


# ---- overfit ----


def overfitted(delay=-100.0):
    """Benign at the middle signal alone; the weak one does not generalize, the strong one does not fit."""
    def at(weak, middle, strong):
        return lambda row: {1.0: weak, 10.0: middle, 100.0: strong}[row["signal"]]

    late = 500.0
    return rows("overfit", {"snr": lambda row: row["signal"] / 20, "test_error": at(0.4, 0.0, 0.0),
                            "train_error": at(0.0, 0.0, 0.2), "error_flipped": at(0.0, 0.0, 1.0),
                            "benign": at(0, 1, 0), "fit_step": at(100, late, np.nan),
                            "generalize_step": at(np.nan, late + delay, 0), "delay": at(np.nan, delay, np.nan),
                            "attention_clean": at(0.2, 0.9, 1.0), "attention_flipped": at(0.0, 0.1, 1.0)},
                {"test_error": lambda row: [0.5, 0.4, 0.3, 0.2], "train_error": lambda row: [0.4, 0.2, 0.1, 0.0]},
                signal=[1.0, 10.0, 100.0], replicate=[0, 1, 2, 3])


def test_overfitting_is_benign_where_all_replicates_are():
    held = verdict("overfitting_is_benign", overfitted())
    assert (held.outcome, held.measured) == (Outcome.HOLDS, 1.0) and r"all runs at $\|\mu\|$ = 10" in held.note
    dataset = overfitted()
    dataset["benign"][4] = 0  # one replicate of the middle signal
    assert verdict("overfitting_is_benign", dataset).outcome == Outcome.FAILS


def test_a_strong_signal_is_told_from_a_weak_one():
    for name in ("strong_signal_ignores_flipped_labels", "signal_lowers_test_error"):
        assert verdict(name, overfitted()).outcome == Outcome.HOLDS
        turned = overfitted().assign_coords(signal=("point", overfitted()["signal"].values[::-1]))
        turned["signal"].attrs["is_axis"] = 1
        assert verdict(name, turned).outcome == Outcome.FAILS


def test_generalization_is_late_only_behind_the_fit():
    late = verdict("generalization_comes_late", overfitted(delay=100.0))
    assert (late.outcome, late.measured, late.points) == (Outcome.HOLDS, 1.0, 4)
    early = verdict("generalization_comes_late", overfitted())
    assert (early.outcome, early.measured) == (Outcome.FAILS, 0.0) and "from -100 to -100" in early.note


def test_errors_are_drawn_against_the_ratio_with_the_benign_ground():
    axes = panel("errors_against_snr", overfitted())
    np.testing.assert_allclose(drawn(axes)["flipped labels"], [0, 0, 1])
    ground, = axes.patches
    edges = ground.get_extents().transformed(axes.transData.inverted())
    np.testing.assert_allclose([edges.x0, edges.x1], np.sqrt([0.05 * 0.5, 0.5 * 5]), rtol=1e-6)
    assert figures.choose(overfitted()) == "errors_against_snr"


def test_steps_are_drawn_only_where_all_replicates_get_there():
    dataset = overfitted()
    lines = {line.get_label(): line.get_xdata() for line in panel("steps_against_snr", dataset).get_lines()}
    np.testing.assert_allclose(lines["fits all labels"], [0.05, 0.5])
    np.testing.assert_allclose(lines["generalizes"], [0.5, 5])
    dataset["fit_step"][0] = np.nan
    lines = {line.get_label(): line.get_xdata() for line in panel("steps_against_snr", dataset).get_lines()}
    np.testing.assert_allclose(lines["fits all labels"], [0.5])


def test_of_many_signals_five_are_drawn_along_training():
    dataset = rows("overfit", {"train_error": 0.0}, {"test_error": lambda row: [0.5, 0.4, 0.3, row["signal"]],
                                                      "train_error": lambda row: [0.4, 0.2, 0.1, 0.0]},
                   signal=[float(it) for it in range(1, 10)], replicate=[0, 1])
    lines = drawn(panel("errors_along_training", dataset))
    assert [it for it in lines if "mu" in it] == [rf"$\|\mu\|$ = {it}" for it in (1, 3, 5, 7, 9)]
    np.testing.assert_allclose(lines[r"$\|\mu\|$ = 3"], [0.4, 0.3, 3])


@pytest.mark.parametrize("name", [it for it, kind in figures.FIGURES.items() if kind.experiments == ("overfit",)])
def test_every_figure_of_a_whole_file_has_words_for_its_axes(name):
    axes = figures.draw(overfitted(), name).axes[0]
    assert axes.get_xlabel() and axes.get_ylabel() and len(axes.get_legend().get_texts()) >= 2
    assert all(np.isfinite(y).all() for y in drawn(axes).values() if y.size)
