"""Claims are judged right on rows for which the answer is known, and say what a file lacks."""

import numpy as np
import pytest
import xarray as xr
from judging import verdict

from mhasweep_analysis import claims
from mhasweep_analysis.claims import CLAIMS, Claim, Mark, Outcome, Source, Verdict

DEFAULTS = {
    "heads": 4,
    "dim": 64,
    "key_dim": 8,
    "context": 8,
    "samples": 4000,
    "context_type": "shared",
    "weights": "random",
    "attention": "softmax",
    "labels": "regression",
    "match_parameters": False,
    "orders": 1000,
    "stage": "embedding",
    "replicate": 0,
}


def rows(experiment, results, curves=(), status="done", **axes):
    """A dataset of one row for each combination of the axes; results are functions of a row (a dict), or values."""
    names = list(axes)
    grid = np.array(np.meshgrid(*(np.arange(len(it)) for it in axes.values()), indexing="ij")).reshape(len(names), -1).T
    table = [{**DEFAULTS, **{name: axes[name][i] for name, i in zip(names, row)}} for row in grid]
    for row in table:
        h, n = row["heads"], row["context"]
        row.update(
            bound_lower=h * (min(n, row["key_dim"]) - 1) + 1, bound_shared=h * (n - 1) + 1, bound_width=h * row["dim"]
        )

    def column(name, value):
        return [value(row) if callable(value) else value for row in table]

    def coded(values):
        return np.array(values, dtype=object) if isinstance(values[0], str) else np.array(values)

    data = {name: ("point", np.array(column(name, value), float)) for name, value in results.items()}
    data.update(
        {
            name: ("point", np.array([row[name] for row in table], float))
            for name in ("bound_lower", "bound_shared", "bound_width")
        }
    )
    data["status"] = ("point", np.array(column("status", status), dtype=object))
    dataset = xr.Dataset(data, {name: ("point", coded([row[name] for row in table])) for name in DEFAULTS})
    for name in names:
        dataset[name].attrs["is_axis"] = 1
    return dataset.assign_coords(point=np.arange(len(table))).assign_attrs(experiment=experiment)


def capacity_of_theory(row):
    return row["heads"] * (row["context"] - 1) + 1


# ---- the registry ----


def test_every_claim_has_a_sentence_a_source_with_its_mark_and_an_experiment():
    for name, claim in CLAIMS.items():
        assert claim.name == name
        assert claim.statement.endswith(".") and len(claim.statement) < 200
        assert claim.source.text and isinstance(claim.source.mark, Mark)
        assert claim.experiments and (claim.rows is None) == (claim.where == "")
    assert len(CLAIMS) == sum(len(body.CLAIMS) for body in claims.BODIES)


def test_a_file_is_judged_by_the_claims_of_its_experiment():
    judged = claims.judge(rows("assumptions", {"assumption2": 1}, stage=["embedding"]))
    assert [claim.name for claim, _ in judged] == ["assumption_1", "assumption_2", "assumption_3", "general_position"]
    assert [it.outcome.value for _, it in judged] == [
        "not in this file",
        "holds",
        "not in this file",
        "not in this file",
    ]
    assert verdict("assumption_1", rows("probe", {"rank": 1}, heads=[1])).note == "the experiment is probe"
    with pytest.raises(KeyError):
        claims.judge(rows("probe", {"rank": 1}, heads=[1]), ["none"])


def test_what_is_missing_is_named():
    assert verdict("rank_shared_exact", rows("probe", {"residual": 0}, heads=[1])).note == "holds no rank"
    assert (
        "no point that is done"
        in verdict("rank_shared_exact", rows("probe", {"rank": 1}, heads=[1], status="failed")).note
    )
    wrong = rows("probe", {"rank": 1}, heads=[1], context_type=["own"])
    assert verdict("rank_shared_exact", wrong).note == (
        "no point that is done has softmax, a shared context and d_h >= n"
    )
    short = rows("probe", {"capacity": capacity_of_theory}, heads=[1, 2])
    assert verdict("capacity_slope_exact", short).note == "heads takes fewer than 3 values"


def test_rows_that_are_not_done_do_not_count():
    data = rows(
        "probe",
        {"rank": lambda it: capacity_of_theory(it) if it["heads"] < 3 else np.nan},
        heads=[1, 2, 3],
        status=lambda it: "done" if it["heads"] < 3 else "failed",
    )
    it = verdict("rank_shared_exact", data)
    assert (it.outcome, it.points) == (Outcome.HOLDS, 2)


def test_other_axes_are_judged_part_by_part_and_one_failure_fails_all():
    def capacity(row):
        return capacity_of_theory(row) + (row["heads"] if row["weights"] == "constructed" else 0)

    it = verdict(
        "capacity_slope_exact",
        rows("probe", {"capacity": capacity}, heads=[1, 2, 4], replicate=[0, 1], weights=["random", "constructed"]),
    )
    assert it.outcome == Outcome.FAILS
    assert [(part.words, part.verdict.outcome, part.verdict.theory) for part in it.parts] == [
        ("random weights", Outcome.HOLDS, 7),
        ("constructed weights", Outcome.FAILS, 7),
    ]
    assert [round(part.verdict.measured, 6) for part in it.parts] == [7, 8]
    assert it.note == "fails in 1 of 2 parts"


def test_an_axis_that_varies_only_along_another_is_said_to():
    data = rows("probe", {"capacity": capacity_of_theory}, heads=[1, 2, 4], key_dim=[8, 16, 32])
    zipped = data.isel(point=[0, 4, 8])
    assert verdict("capacity_slope_exact", zipped).note == "heads vary only together with key_dim"


def test_a_claim_of_another_body_is_judged_alike():
    claim = Claim(
        "loss_is_small",
        ("optimize",),
        "The loss is below one half.",
        Source("a test", Mark.QUESTION),
        lambda it: Verdict.of(
            bool((it["loss"] < 0.5).all()), "largest loss", it["loss"].max(), "< 0.5", it.sizes["point"]
        ),
        ("loss",),
    )
    data = rows("optimize", {"loss": lambda row: row["heads"] / 10}, heads=[1, 2], context=[2, 4])
    it = claim.judge(data)
    assert (it.outcome, len(it.parts)) == (Outcome.HOLDS, 4)


# ---- rank ----


def test_the_rank_of_a_shared_context_is_exact_or_fails_by_its_difference():
    right = verdict("rank_shared_exact", rows("probe", {"rank": capacity_of_theory}, heads=[1, 2, 4], context=[4, 8]))
    assert (right.outcome, right.measured, right.theory, right.points) == (Outcome.HOLDS, 0, 0, 6)
    wrong = rows("probe", {"rank": lambda row: capacity_of_theory(row) - 2 * (row["heads"] == 4)}, heads=[1, 2, 4])
    it = verdict("rank_shared_exact", wrong)
    assert (it.outcome, it.measured, it.note) == (Outcome.FAILS, 2, "equal at 2 of 3 points")


def test_samples_and_width_cut_the_rank():
    cut = rows(
        "probe",
        {"rank": lambda row: min(row["samples"], capacity_of_theory(row), row["heads"] * 4)},
        heads=[1, 2, 4],
        samples=[5, 100],
        dim=[4],
    )
    assert verdict("rank_shared_exact", cut).outcome == Outcome.HOLDS
    own = rows(
        "probe",
        {"rank": lambda row: min(row["samples"], 64 * row["heads"])},
        heads=[1, 8],
        samples=[100],
        context_type=["own"],
    )
    assert verdict("rank_own_exact", own).outcome == Outcome.HOLDS


def test_a_rank_below_what_is_promised_fails():
    it = verdict(
        "rank_reaches_bound", rows("probe", {"rank": lambda row: 3 * row["heads"] + 1}, heads=[1, 2], key_dim=[8])
    )
    assert (it.outcome, it.measured) == (Outcome.FAILS, pytest.approx(7 / 15))
    assert verdict("rank_reaches_bound", rows("probe", {"rank": capacity_of_theory}, heads=[1, 2])).measured == 1


def test_the_construction_fits_all_within_the_theorem_only():
    data = rows(
        "probe",
        {"memorized": lambda row: row["samples"] <= 29, "rank_per_head_min": 7},
        samples=[10, 29, 30],
        weights=["constructed"],
    )
    it = verdict("theorem_fits", data)
    assert (it.outcome, it.points) == (Outcome.HOLDS, 2)
    added = verdict("rank_per_head", data)
    assert (added.outcome, added.points) == (Outcome.HOLDS, 2)
    less = rows("probe", {"rank_per_head_min": 6}, samples=[29], weights=["constructed"])
    assert verdict("rank_per_head", less).outcome == Outcome.FAILS


# ---- capacity ----


def test_the_capacity_has_the_slope_of_the_theory_or_another():
    it = verdict("capacity_slope_exact", rows("probe", {"capacity": capacity_of_theory}, heads=[1, 2, 4, 8]))
    assert (it.outcome, it.theory, it.details["intercept"]) == (Outcome.HOLDS, 7, pytest.approx(1))
    wrong = rows("probe", {"capacity": lambda row: 6 * row["heads"] + 1}, heads=[1, 2, 4, 8])
    assert verdict("capacity_slope_exact", wrong).outcome == Outcome.FAILS


def test_a_capacity_is_linear_from_r2_098_on():
    def of(power):
        return verdict(
            "capacity_linear_in_heads",
            rows(
                "memorize",
                {"capacity": lambda row: 10 * row["heads"] ** power},
                heads=[1, 2, 4, 8, 16],
                replicate=[0, 1],
            ),
        )

    straight, bent = of(1.0), of(2.0)
    assert (straight.outcome, straight.measured) == (Outcome.HOLDS, pytest.approx(10))
    assert straight.interval == (pytest.approx(10), pytest.approx(10))
    assert (bent.outcome, bent.details["R2"] < 0.98) == (Outcome.FAILS, True)


def test_a_search_that_its_range_cut_off_tells_no_capacity():
    data = rows("probe", {"capacity": lambda row: min(20, capacity_of_theory(row))}, heads=[1, 2, 4, 8], samples=[20])
    it = verdict("capacity_reaches_bound", data)
    assert (it.outcome, it.points) == (Outcome.HOLDS, 2)


def test_a_search_that_began_above_the_bound_and_found_nothing_tells_nothing_of_it():
    # The bounds are 8, 15 and 29.
    data = rows("memorize", {"capacity": lambda row: -1 if row["heads"] < 4 else 100}, heads=[1, 2, 4])
    began = {"spec_canonical": 'seed = 1\nsearch = {parameter: samples, until: "x >= 1", from: 10, to: 4000}\n'}
    it = verdict("capacity_reaches_bound", data.assign_attrs(began))
    assert (it.outcome, it.points) == (Outcome.FAILS, 2)  # 2 heads: not even 10 of the 15
    assert verdict("capacity_reaches_bound", data.isel(point=[0, 2]).assign_attrs(began)).outcome == Outcome.HOLDS
    assert verdict("capacity_reaches_bound", data.isel(point=[0, 2])).outcome == Outcome.FAILS  # from 1 on


def test_results_at_the_capacity_of_a_search_are_not_judged_as_trends():
    data = rows("memorize", {"accuracy": 0.95, "capacity": 100, "loss": 0.1}, heads=[1, 2, 4], labels=["classes"])
    assert verdict("accuracy_linear_in_heads", data).outcome == Outcome.ABSENT


def test_the_capacity_stands_between_its_bounds():
    def of(name, capacity, **axes):
        return verdict(
            name, rows("probe", {"capacity": capacity}, **{"heads": [1, 2, 4], "key_dim": [4], **axes})
        ).outcome

    assert of("capacity_reaches_bound", lambda row: row["bound_lower"]) == Outcome.HOLDS
    assert of("capacity_reaches_bound", lambda row: row["bound_lower"] - 1) == Outcome.FAILS
    assert of("capacity_reaches_bound", -1) == Outcome.FAILS
    assert of("capacity_below_bound", lambda row: row["bound_shared"]) == Outcome.HOLDS
    assert of("capacity_below_bound", lambda row: row["bound_shared"] + 1) == Outcome.FAILS
    assert of("capacity_below_bound", lambda row: row["bound_width"], context_type=["own"]) == Outcome.HOLDS
    # Attention that was trained on the labels may pass the rank.
    assert of("capacity_below_bound", 10**6, weights=["trained"]) == Outcome.ABSENT


def test_parameters_bound_the_capacity():
    data = {"parameters": 100, "capacity": lambda row: 30 * row["heads"]}
    assert verdict("capacity_below_parameters", rows("memorize", data, heads=[1, 3])).outcome == Outcome.HOLDS
    assert verdict("capacity_below_parameters", rows("memorize", data, heads=[1, 4])).measured == pytest.approx(1.2)


# ---- training ----


def test_accuracy_is_fitted_below_where_all_is_memorized():
    data = rows(
        "memorize",
        {"accuracy": lambda row: min(1, row["heads"] / 10)},
        heads=[1, 2, 4, 8, 16, 32],
        labels=["classes"],
        replicate=[0, 1],
    )
    it = verdict("accuracy_linear_in_heads", data)
    assert (it.outcome, it.measured, it.points) == (Outcome.HOLDS, pytest.approx(0.1), 8)
    assert "without H = 16, 32" in it.note
    full = rows("memorize", {"accuracy": 1.0}, heads=[1, 2, 4], labels=["classes"])
    assert verdict("accuracy_linear_in_heads", full).outcome == Outcome.ABSENT


@pytest.mark.parametrize(
    "values, outcome",
    [([0.1, 0.2, 0.4], "holds"), ([0.4, 0.2, 0.1], "fails"), ([0.1, 0.4, 0.3], "fails"), ([0.2, 0.2, 0.2], "fails")],
)
def test_a_rise_has_no_step_down_beyond_chance(values, outcome):
    def accuracy(row):
        return values[[1, 2, 4].index(row["context"])] + 0.001 * row["replicate"]

    data = rows("memorize", {"accuracy": accuracy}, context=[1, 2, 4], replicate=[0, 1, 2], labels=["classes"])
    assert verdict("accuracy_rises_with_context", data).outcome.value == outcome
    falling = rows("memorize", {"loss": lambda row: 1 - accuracy(row)}, context=[1, 2, 4], replicate=[0, 1, 2])
    assert verdict("loss_falls_with_context", falling).outcome.value == outcome


def test_a_step_down_within_chance_does_not_fail_a_rise():
    def accuracy(row):
        return [0.1, 0.5, 0.49][[1, 2, 4].index(row["context"])] + 0.02 * row["replicate"]

    data = rows("memorize", {"accuracy": accuracy}, context=[1, 2, 4], replicate=[0, 1, 2], labels=["classes"])
    assert verdict("accuracy_rises_with_context", data).outcome == Outcome.HOLDS


@pytest.mark.parametrize("beyond, outcome", [(0.0, "holds"), (0.02, "holds"), (0.1, "fails")])
def test_a_plateau_beyond_n_is_level(beyond, outcome):
    def accuracy(row):
        doublings = np.log2(row["key_dim"])
        return 0.1 + 0.1 * min(doublings, 3) + beyond * max(doublings - 3, 0) + 0.001 * row["replicate"]

    data = rows("memorize", {"accuracy": accuracy}, key_dim=[1, 2, 4, 8, 16, 32], replicate=[0, 1], labels=["classes"])
    it = verdict("accuracy_saturates_at_key_dim_n", data)
    assert (it.outcome.value, it.measured) == (outcome, pytest.approx(beyond / 0.1, abs=0.01))
    one_side = data.isel(point=np.flatnonzero(data["key_dim"].values <= 8))
    assert "both sides of n" in verdict("accuracy_saturates_at_key_dim_n", one_side).note


def test_a_change_that_chance_may_have_made_is_only_measured():
    def accuracy(row):
        return 0.3 + 0.01 * row["context"] + 0.2 * row["replicate"]

    data = rows("memorize", {"accuracy": accuracy}, context=[1, 2, 4], replicate=[0, 1], labels=["classes"])
    it = verdict("accuracy_rises_with_context", data)
    assert (it.outcome, it.measured) == (Outcome.MEASURED, pytest.approx(0.03))
    assert it.interval[0] < 0 < it.interval[1] and "chance" in it.note


def test_variants_are_measured_against_softmax_and_never_judged():
    data = rows(
        "memorize",
        {"accuracy": lambda row: 0.8 if row["attention"] == "dcmha" else 0.3, "parameters": 100},
        attention=["softmax", "dcmha"],
        match_parameters=[True],
        heads=[2],
    )
    it = verdict("variants_memorize_more", data)
    assert (it.outcome, it.measured) == (Outcome.MEASURED, pytest.approx(0.5))


# ---- assumptions ----


def test_an_assumption_needs_99_of_100_subsets_and_has_an_interval():
    data = rows("assumptions", {"assumption1": lambda row: 1.0 if row["replicate"] else 0.99}, replicate=[0, 1])
    it = verdict("assumption_1", data)
    assert (it.outcome, it.measured) == (Outcome.HOLDS, pytest.approx(0.995))
    assert it.interval[0] < 0.995 < it.interval[1] < 1
    less = rows("assumptions", {"assumption1": 0.98, "assumption2": 0.999}, replicate=[0, 1])
    assert verdict("assumption_1", less).outcome == Outcome.FAILS
    assert verdict("assumption_2", less).outcome == Outcome.FAILS
