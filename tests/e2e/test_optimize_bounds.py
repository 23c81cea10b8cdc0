"""Derived bounds of optimize hold at every logged step of a random sweep; a counterexample is printed."""
import unittest

import h5py
import numpy

import harness

SWEEP = """
experiment: optimize
seed: 2310
parameters:
  heads: {from: 1, to: 6}
  tokens: {from: 1, to: 6}
  dim: {from: 3, to: 7}
  samples: {from: 1, to: 12}
  test_samples: 0
  data: [dm1, planted]
  relevant: {from: 0.05, to: 1.0}
  signal: {from: 0.2, to: 3.0, scale: log}
  prototypes: 1
  noise: {from: 0.0, to: 1.0}
  label_noise: {from: 0.0, to: 0.5}
  init: [zero, one_step, gaussian]
  init_scale: {from: 0.05, to: 5.0, scale: log}
  step_size: {from: 0.01, to: 3.0, scale: log}
  step_rule: [constant, sqrt_heads, normalised, polyak]
  steps: {from: 0, to: 40}
  log_points: 5
  eigenvalues: logged
sample: {method: random, count: 500}
"""
PARAMETERS = ("heads", "tokens", "dim", "samples", "data", "relevant", "signal", "noise", "label_noise", "init",
              "init_scale", "step_size", "step_rule", "steps")
ROUNDING = 1e-9  # of results
FLOAT32 = 1e-6  # of curves


class Bounds(harness.Folder):
    def setUp(self):
        super().setUp()
        self.write("sweep.yaml", SWEEP)
        self.run_program("run", "sweep.yaml", ranks=3)
        with h5py.File(self.folder / "sweep.h5", "r") as file:
            self.rows = {name: file[name][:] for name in file if isinstance(file[name], h5py.Dataset)}
        self.assertEqual(len(self.rows["status"]), 500)
        self.assertTrue((self.rows["status"] == harness.DONE).all())

    def assert_at_most(self, name, values, limit):
        """values (500,) or (500, records), NaN where there is nothing."""
        wrong = numpy.argwhere(values > limit)
        if len(wrong) > 0:
            point = wrong[0][0]
            at = ", ".join(f"{key}: {self.rows[key][point]}" for key in PARAMETERS)
            self.fail(f"{name} is {values[tuple(wrong[0])]} at point {point}, record {wrong[0][1:]}: {at}")
        self.assertGreater(numpy.isfinite(values).sum(), 400, name)

    def test_no_step_breaks_a_bound(self):
        rows = self.rows
        self.assert_at_most("||gradient|| / (b1 loss)", rows["self_bound"], 1 + ROUNDING)
        self.assert_at_most("-lambda_min / (kappa loss)", rows["weak_convexity"], 1 + ROUNDING)
        self.assert_at_most("lambda_max / (b1^2 / 4 + kappa min(1, loss))", rows["smoothness"], 1 + ROUNDING)
        self.assert_at_most("||gradient|| / (b1 loss) of a step", rows["curve_gradient_ratio"], 1 + FLOAT32)
        self.assert_at_most("-lambda_min / (kappa loss) of a step", rows["curve_curvature_ratio"], 1 + FLOAT32)
        scale = numpy.abs(rows["curve_lambda_max"]) + numpy.abs(rows["curve_lambda_min"])
        below = rows["curve_lambda_blocks"] - rows["curve_lambda_min"]
        self.assert_at_most("lambda_blocks - lambda_min", below - FLOAT32 * scale, 0)
        self.assert_at_most("margin - margin_upper", rows["margin"] - rows["margin_upper"], 0)
        # What the bounds are worth: the tightest of them is met to some per cent somewhere.
        self.assertGreater(numpy.nanmax(rows["self_bound"]), 0.3)


if __name__ == "__main__":
    unittest.main()
