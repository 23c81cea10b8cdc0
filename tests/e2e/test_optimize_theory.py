"""Tangent kernels of optimize: in several blocks, by teams, and from stored weights by numpy alone."""
import json
import math
import sys
import unittest

import h5py
import numpy

import harness

sys.path.insert(0, str(harness.SOURCE / "tests/data/optimize"))
import generate_margins  # noqa: E402

WIDE = """
experiment: optimize
parameters:
  heads: 4096
  dim: 8
  samples: 20
  relevant: 0.2
  noise: 0.0
  mixing: even
  steps: 0
  test_samples: 0
"""

SHARED = """
experiment: optimize
seed: 5
parameters:
  heads: [8, 9]
  dim: 40
  samples: 30
  relevant: 0.3
  init: [one_step, gaussian]
  steps: 12
  theory: ends
  test_samples: 10
  target_loss: 0.05
"""

STORED = """
experiment: optimize
store: [weights, data]
seed: 6
parameters:
  heads: [1, 3, 6]
  tokens: 5
  dim: 7
  samples: 15
  relevant: 0.4
  prototypes: 3
  signal: 1.2
  noise: 0.4
  data: [dm1, planted]
  init: [zero, one_step, gaussian]
  init_scale: 1.0
  steps: 15
  step_size: 0.5
  theory: ends
  test_samples: 0
"""

THEORY = ("margin", "margin_upper", "margin_u", "margin_w", "direction_u", "direction_w", "ntk_least", "realized_loss",
          "realized_distance", "condition_ratio", "step_ratio", "margin_end", "margin_end_upper", "ntk_least_end",
          "training_ratio", "local_ratio", "locality", "gap_bound_losses", "output_deviation")


class Theory(harness.Folder):
    def test_a_kernel_of_several_blocks_has_the_closed_margin(self):
        self.write("sweep.yaml", WIDE)
        self.run_program("run", "sweep.yaml")
        (row,) = harness.axes(self.folder / "sweep.h5", "parameters", "margin", "margin_upper", "direction_w",
                              "margin_attention", "margin_linear", "margin_w_closed")
        numbers, lower, upper, direction, attention, linear, w = row
        self.assertGreater(20 * 8 * numbers, 1 << 26)  # more than a block holds
        closed = math.hypot(linear, w)
        self.assertAlmostEqual(lower / closed, 1, delta=1e-9)
        self.assertAlmostEqual(upper / closed, 1, delta=1e-9)
        self.assertAlmostEqual(direction / attention, 1, delta=1e-9)

    def test_teams_find_what_one_rank_finds(self):
        self.write("sweep.yaml", SHARED)
        plan = json.loads(self.run_program("plan", "sweep.yaml", "--json").stdout)
        limit = f"limits.memory_per_rank={int(0.75 * plan['bytes_most'])}"
        self.run_program("run", "sweep.yaml", "-o", "alone.h5")
        self.run_program("run", "sweep.yaml", "-o", "team.h5", "--set", limit, ranks=4)
        self.run_program("run", "sweep.yaml", "-o", "again.h5", "--set", limit, ranks=5)
        alone, team = self.folder / "alone.h5", self.folder / "team.h5"
        self.assertGreater(harness.column(team, "ranks").min(), 1)
        for name in THEORY:
            ours, theirs = harness.column(team, name), harness.column(alone, name)
            numpy.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10, err_msg=name)
            self.assertTrue(numpy.isfinite(theirs).any(), name)
        self.assert_same_results(self.folder / "again.h5", team)

    def test_numpy_finds_the_same_from_stored_weights(self):
        self.write("sweep.yaml", STORED)
        self.run_program("run", "sweep.yaml")
        with h5py.File(self.folder / "sweep.h5", "r") as file:
            for point in range(len(file["point"])):
                stored = file[f"stored/{point}"]
                for at, margin, least in (("_0", "margin", "ntk_least"), ("", "margin_end", "ntk_least_end")):
                    X, y, U, W = (stored[name][:] for name in ("X", "y", "U" + at, "W" + at))
                    F = generate_margins.features(X, U, W) * y[:, None]
                    K = F @ F.T
                    expected = generate_margins.least_norm(K)
                    with self.subTest(point=point, margin=margin):
                        self.assertAlmostEqual(file[margin][point] / expected, 1, delta=1e-6)
                        self.assertAlmostEqual(file[least][point], numpy.linalg.eigvalsh(K)[0],
                                               delta=1e-12 * numpy.trace(K))


if __name__ == "__main__":
    unittest.main()
