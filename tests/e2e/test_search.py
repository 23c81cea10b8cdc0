"""Searching for capacity, through the whole program."""
import signal
import time
import unittest

import h5py
import numpy

import harness

PROBE = """
experiment: probe
seed: 3
parameters:
  weights: [random, constructed]
  context_type: [own, shared]
  heads: [1, 2, 6]
  context: 8
  dim: 12
  key_dim: 8
search: {parameter: samples, until: "memorized == true", to: 1000}
"""

MEMORIZE = """
experiment: memorize
seed: 1
parameters:
  heads: [2, 3, 4]
  value_dim: 4
  dim: 16
  context: 8
  classes: 10
  context_type: shared
  lr: 0.01
  steps: 400
  eval_every: 50
replicates: 2
search: {parameter: samples, until: "accuracy >= 0.9", from: 2, to: 400, tolerance: 3}
"""


class Search(harness.Folder):
    def test_capacity_of_given_weights_is_what_the_theory_says(self):
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml", ranks=3)
        with h5py.File(self.folder / "sweep.h5") as file:
            self.assertTrue((file["status"][:] == harness.DONE).all())
            shared = file["context_type"][:] == 1
            expected = numpy.where(shared, file["bound_shared"][:], file["bound_width"][:])
            numpy.testing.assert_array_equal(file["capacity"][:], expected)
            numpy.testing.assert_array_equal(file["rank"][:], expected)
            numpy.testing.assert_array_equal(file["samples"][:], 1000)
            # One look by a factorization, then a trial there and one beyond.
            trials = file["curve_trial_samples"][:]
            numpy.testing.assert_array_equal(trials[:, :2], numpy.stack([expected, expected + 1], 1))
            self.assertTrue(numpy.isnan(trials[:, 2:]).all())
            numpy.testing.assert_array_equal(file["curve_trial_value"][:, :2], [[1, 0]] * len(expected))

    def test_trained_capacity_is_that_of_its_trials_and_the_same_on_any_ranks(self):
        self.write("sweep.yaml", MEMORIZE)
        self.run_program("run", "sweep.yaml", "-o", "one.h5")
        self.run_program("run", "sweep.yaml", "-o", "three.h5", ranks=3)
        self.assertEqual(harness.compare(self.folder / "three.h5", self.folder / "one.h5"), [])
        with h5py.File(self.folder / "one.h5") as file:
            for i, found in enumerate(file["capacity"][:]):
                sizes, values = file["curve_trial_samples"][i], file["curve_trial_value"][i]
                sizes, values = sizes[~numpy.isnan(sizes)], values[~numpy.isnan(values)]
                good = sizes[values >= 0.9]
                self.assertEqual(found, good.max())
                self.assertGreaterEqual(file["accuracy"][i], 0.9)
                self.assertLessEqual(sizes[values < 0.9].min() - found, 3)
                self.assertGreater(found, 2)
            # The row of a search is that of a run at the capacity.
            found = int(file["capacity"][0])
            self.run_program("run", "sweep.yaml", "-o", "at.h5", "--set", "heads=2", "--set", "replicates=1",
                             "--set", f"search={{parameter: samples, until: loss > 0, from: {found}, to: {found}}}")
            with h5py.File(self.folder / "at.h5") as at:
                for name in ("loss", "best_step", "steps_run", "accuracy"):
                    self.assertEqual(at[name][0], file[name][0])

    def test_a_search_goes_on_where_it_was_stopped(self):
        self.write("sweep.yaml", MEMORIZE.replace("steps: 400", "steps: 1500"))
        self.run_program("run", "sweep.yaml", "-o", "whole.h5")
        started = self.start_program("run", "sweep.yaml", "-o", "parts.h5")
        while started.poll() is None and not (self.folder / "parts.h5").exists():
            time.sleep(0.05)
        time.sleep(1.0)
        started.send_signal(signal.SIGTERM)
        self.assertIn(started.wait(60), (0, 75))
        self.run_program("run", "sweep.yaml", "-o", "parts.h5", "--resume")
        self.assertEqual(harness.compare(self.folder / "parts.h5", self.folder / "whole.h5"), [])

    def test_another_search_is_another_sweep(self):
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml")
        ended = self.run_program("run", "sweep.yaml", "--resume", "--set", "search.to=999", expect=2)
        self.assertIn("search", ended.stderr)

    def test_what_the_other_commands_say(self):
        self.write("sweep.yaml", PROBE)
        self.assertIn("with memorized == 1", self.run_program("plan", "sweep.yaml").stdout)
        self.assertIn("capacity", self.run_program("experiments", "probe").stdout)
        self.run_program("run", "sweep.yaml")
        header = self.run_program("export", "sweep.h5").stdout.splitlines()[0]
        self.assertIn("capacity", header.split(","))


if __name__ == "__main__":
    unittest.main()
