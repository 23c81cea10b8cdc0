"""Points that one rank may not hold are shared by teams, whose size and numbers do not depend on the world."""
import json
import signal
import unittest

import h5py
import numpy

import harness

# Points for 1, 2, 3 and 4 ranks, beside many small ones. The largest of the grid would need more.
SWEEP = """
experiment: probe
seed: 8
parameters:
  heads: [1, 8, 16, 24]
  dim: 16
  context: 8
  context_type: shared
  distribution: gaussian
  samples: [50, 60, 70, 80, 90, 200, 300, 400, 600, 800]
  solver: rrqr
where: "heads * samples <= 12800"
replicates: 1
store: [spectrum, weights]
limits: {memory_per_rank: 4480KiB}
"""

# One point for one rank, and a large one.
WIDE = """
experiment: probe
parameters: {heads: [1, 48], dim: 16, context: 8, context_type: shared, samples: 800, distribution: gaussian, solver: rrqr}
"""

LONG = """
experiment: probe
parameters: {heads: 24, dim: 32, context: 8, context_type: shared, samples: 1200, distribution: gaussian, solver: qp3}
replicates: 30
"""


class Teams(harness.Folder):
    def limit(self, share, *words):
        """A --set that leaves a rank this share of what the largest point takes."""
        plan = json.loads(self.run_program("plan", "sweep.yaml", "--json", *words).stdout)
        return "--set", f"limits.memory_per_rank={int(share * plan['bytes_most'])}"

    def run_sweep(self, name, ranks, *words, expect=0):
        self.run_program("run", "sweep.yaml", "-o", name, "--quiet", *words, ranks=ranks, expect=expect)
        return self.folder / name

    def test_numbers_are_the_same_in_every_world_that_is_large_enough(self):
        self.write("sweep.yaml", SWEEP)
        five = self.run_sweep("five.h5", 5)
        self.assertTrue({1, 2, 3, 4} <= set(harness.column(five, "ranks")))
        self.assertTrue((harness.statuses(five) == harness.DONE).all())
        self.assert_same_results(self.run_sweep("seven.h5", 7), five)
        self.assert_same_results(self.run_sweep("static.h5", 6, "--teams", "static"), five)

    def test_a_point_alone_gives_the_same_bits_as_among_others(self):
        self.write("sweep.yaml", SWEEP)
        among = self.run_sweep("among.h5", 5)
        for row in [int(numpy.argmax(harness.column(among, "ranks") == ranks)) for ranks in (2, 3, 4)]:
            settings = [f"{name}={harness.column(among, name)[row]}" for name in ("heads", "samples")]
            alone = self.run_sweep(f"{row}.h5", 6, *(word for setting in settings for word in ("--set", setting)))
            with h5py.File(among) as ours, h5py.File(alone) as theirs:
                names = [name for name, data in theirs.items()
                         if isinstance(data, h5py.Dataset) and data.shape == (1,) and ours[name].shape[:1] != (1,)]
                self.assertTrue({"ranks", "rank", "condition", "residual", "flops"} <= set(names))
                for name in set(names) - harness.PROVENANCE - {"point"}:
                    self.assertTrue(harness.same_bits(ours[name][row:row + 1], theirs[name][:]), name)
                length = theirs["spectrum"].shape[1]
                self.assertTrue(harness.same_bits(ours["spectrum"][row, :length], theirs["spectrum"][0]))

    def test_ranks_and_fits_of_teams_are_those_of_one_rank(self):
        self.write("sweep.yaml", SWEEP)
        shared = self.run_sweep("shared.h5", 5)
        alone = self.run_sweep("alone.h5", None, "--set", "limits.memory_per_rank=1GiB", "--set", "solver=svd")
        self.assertEqual(set(harness.column(alone, "ranks")), {1})
        for name in ("rank", "rank_1e3", "rank_1e6", "memorized", "bound_shared", "parameters", "saturated"):
            numpy.testing.assert_array_equal(harness.column(shared, name), harness.column(alone, name), name)
        numpy.testing.assert_allclose(harness.column(shared, "residual"), harness.column(alone, "residual"),
                                      rtol=1e-6, atol=1e-9)
        ranks = harness.column(alone, "rank")
        ours, theirs = harness.column(shared, "spectrum"), harness.column(alone, "spectrum")
        for row, rank in enumerate(ranks):
            numpy.testing.assert_allclose(ours[row, :rank], theirs[row, :rank], rtol=1e-8)

    def test_small_worlds_do_what_they_can_and_larger_ones_the_rest(self):
        self.write("sweep.yaml", SWEEP)
        whole = self.run_sweep("whole.h5", 5)
        ranks = harness.column(whole, "ranks")
        ended = self.run_program("run", "sweep.yaml", "-o", "grown.h5", expect=75)
        self.assertIn(f"{(ranks > 1).sum()} points need a team of up to 4 ranks", ended.stderr)
        self.assertIn("-n 5 or more", ended.stderr)
        statuses = harness.statuses(self.folder / "grown.h5")
        numpy.testing.assert_array_equal(statuses == harness.DONE, ranks == 1)
        self.run_sweep("grown.h5", 3, "--resume", expect=75)
        statuses = harness.statuses(self.folder / "grown.h5")
        numpy.testing.assert_array_equal(statuses == harness.DONE, ranks <= 2)
        self.assert_same_results(self.run_sweep("grown.h5", 5, "--resume"), whole)

    def test_the_limit_that_is_named_lets_the_point_run(self):
        self.write("sweep.yaml", WIDE)
        ended = self.run_program("run", "sweep.yaml", *self.limit(0.42), ranks=3, expect=75)
        self.assertIn("1 point needs a team of ", ended.stderr)
        limit = ended.stderr.split("raise limits.memory_per_rank to ")[1].split(",")[0]
        self.run_program("run", "sweep.yaml", "--resume", "--set", f"limits.memory_per_rank={limit}", ranks=3)
        self.assertLessEqual(max(harness.column(self.folder / "sweep.h5", "ranks")), 2)

    def test_a_point_that_no_team_can_hold_fails_and_says_what_it_needs(self):
        self.write("sweep.yaml", WIDE)
        ended = self.run_program("run", "sweep.yaml", "--set", "limits.memory_per_rank=1MiB", "--set", "samples=20000",
                                 ranks=3, expect=3)
        self.assertRegex(ended.stderr, r"needs about [\d.]+ [KMG]iB of memory on one rank, and still [\d.]+ MiB on each "
                                       r"of \d+, more than the 1.0 MiB of limits.memory_per_rank")

    def test_an_experiment_without_teams_fails_as_before(self):
        self.write("sweep.yaml", "experiment: memorize\nparameters: {samples: 50}\n"
                                 "limits: {memory_per_rank: 64KiB}\n")
        ended = self.run_program("run", "sweep.yaml", ranks=3, expect=3)
        self.assertRegex(ended.stderr, r"needs about [\d.]+ \wiB of memory, more than the 64.0 KiB of limits")

    def test_z_that_no_rank_has_whole_is_not_stored(self):
        self.write("sweep.yaml", WIDE)
        ended = self.run_program("run", "sweep.yaml", "--set", "store=[z]", "--set", "heads=48", *self.limit(0.7),
                                 ranks=5, expect=3)
        self.assertIn("leave z out of `store`", ended.stderr)

    def check_signal(self, *words):
        self.write("sweep.yaml", LONG)
        path = self.folder / "sweep.h5"
        process = self.start_program("run", "sweep.yaml", *self.limit(0.7), *words, ranks=5)
        self.wait_for_done(path, 1, process)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=60), 75, self.words_of(process))
        statuses = harness.statuses(path)
        self.assertTrue(set(statuses) <= {harness.PENDING, harness.DONE}, statuses)
        self.assertIn(harness.PENDING, statuses)
        self.assertIn("stopped on request", self.words_of(process))
        with h5py.File(path) as file:
            self.assertGreater(file["ranks"][:].max(), 1)

    def test_a_signal_stops_teams(self):
        self.check_signal()

    def test_a_signal_stops_static_teams(self):
        self.check_signal("--teams", "static")

    def test_the_way_of_making_teams_is_one_of_two(self):
        self.write("sweep.yaml", WIDE)
        ended = self.run_program("run", "sweep.yaml", "--teams", "none", expect=2)
        self.assertIn("--teams none: it is dynamic or static", ended.stderr)


if __name__ == "__main__":
    unittest.main()
