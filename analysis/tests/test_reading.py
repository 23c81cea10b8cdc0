"""Reading, beyond what tests/e2e/test_analysis.py asks of it: tables, arrays, and a file that a program is writing."""

import h5py
import numpy as np
import pytest
from files import DONE, FAILED, PENDING, RUNNING, ResultFile, write_memorize

import mhasweep_analysis as mhas


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.h5"


def test_a_frame_has_the_finished_rows_parameters_first(path):
    status = [DONE] * 24
    status[2], status[5] = FAILED, PENDING
    accuracy = write_memorize(path, status)
    results = mhas.open(path)
    frame = mhas.to_frame(results)
    assert frame.index.name == "point" and list(frame.index) == [i for i in range(24) if status[i] == DONE]
    assert list(frame.columns[:4]) == ["heads", "samples", "context_type", "replicate"]
    assert "accuracy" in frame and "curve_loss" not in frame
    np.testing.assert_array_equal(frame["accuracy"], np.delete(accuracy, [2, 5]))
    whole = mhas.to_frame(results, finished=False)
    assert len(whole) == 24 and np.isnan(whole["accuracy"][2]) and whole["error"][2] == "diverged at step 7"


def test_an_integer_result_that_a_point_does_not_measure_is_missing_and_a_capacity_of_none_is_not(path):
    out = ResultFile(path, "probe", {"heads": [1, 2]}, {"dim": 4})
    out.column("rank_per_head_min", [3, -1], "result")
    out.column("memorized", [1, -1], "result", words=["false", "true"])
    out.column("capacity", [9, -1], "result")
    out.close([DONE, DONE])
    results = mhas.open(path)
    np.testing.assert_array_equal(results["rank_per_head_min"], [3, np.nan])
    np.testing.assert_array_equal(results["memorized"], [1, np.nan])
    np.testing.assert_array_equal(results["capacity"], [9, -1])


def test_stored_arrays_are_told_from_those_that_are_not(path):
    write_memorize(path)
    with h5py.File(path, "a") as file:
        file["stored/3/attention"] = np.zeros((2, 2, 2))
    results = mhas.open(path)
    assert mhas.stores(results, 3, "attention")
    assert not mhas.stores(results, 4, "attention") and not mhas.stores(results, 3, "Z")
    results.attrs.pop("path")
    assert not mhas.stores(results, 3, "attention")


def test_a_file_that_another_process_writes_is_read_as_far_as_it_is_done(path):
    status = [DONE] * 24
    status[10:] = [RUNNING] * 14
    write_memorize(path, status)
    with h5py.File(path, "r+") as file:  # held open, and locked where locks work
        assert int((mhas.open(path)["status"] == "done").sum()) == 10
        file["accuracy"][10] = 0.77
        file["status"][10] = DONE
        file.flush()
        results = mhas.open(path)
        assert int((results["status"] == "done").sum()) == 11 and float(results["accuracy"][10]) == 0.77
