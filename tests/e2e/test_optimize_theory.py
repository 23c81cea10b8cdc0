"""Tangent kernels of optimize that are made in several blocks, and by teams."""
import json
import math
import unittest

import numpy

import harness

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


if __name__ == "__main__":
    unittest.main()
