"""Exact values of the theory, through the whole program."""
import unittest

import harness

SWEEP = """
experiment: probe
parameters:
  heads: [1, 2, 4, 8]
  context: [2, 8, 16]
  key_dim: [4, 32]
  dim: 32
  samples: "= heads * dim + 8"
  context_type: [own, shared]
"""


class Theory(harness.Folder):
    def test_rank_is_what_the_theory_says(self):
        self.write("sweep.yaml", SWEEP)
        self.run_program("run", "sweep.yaml", ranks=3)
        path = self.folder / "sweep.h5"
        names = ("heads", "context", "key_dim", "samples", "context_type", "rank", "bound_lower", "bound_shared", "bound_width")
        rows = harness.axes(path, *names)
        self.assertEqual(len(rows), 48)
        for heads, context, key_dim, samples, shared, rank, lower, bound_shared, width in rows:
            with self.subTest(heads=heads, context=context, key_dim=key_dim, shared=shared):
                self.assertEqual(lower, heads * (min(context, key_dim) - 1) + 1)
                self.assertEqual(bound_shared, heads * (context - 1) + 1)
                self.assertEqual(width, heads * 32)
                self.assertEqual(rank, heads * (context - 1) + 1 if shared else min(samples, heads * 32))


if __name__ == "__main__":
    unittest.main()
