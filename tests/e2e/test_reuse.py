"""--reuse: a sweep grows without computing again what an older file has, bit for bit as if it had."""
import re
import unittest

import h5py
import numpy

import harness

MEMORIZE = """
experiment: memorize
seed: 5
parameters: {heads: [1, 2], dim: 6, context: [2, 3], samples: 30, classes: 5, batch: 8, steps: 20, eval_every: 10, context_type: [own, shared]}
replicates: 2
store: [curves, weights]
"""

PROBE = """
experiment: probe
seed: 5
parameters: {heads: [1, 2, 3], dim: 5, context: 4, samples: [3, 12]}
store: [curves, spectrum, weights, z]
"""

SEARCH = """
experiment: memorize
seed: 5
parameters: {heads: [1, 2], dim: 6, context: 2, classes: 3, batch: 8, steps: 60, eval_every: 20}
search: {parameter: samples, until: "accuracy >= 0.9", from: 4, to: 32}
"""

TEAMS = """
experiment: probe
seed: 8
parameters: {heads: [8, 16], dim: 16, context: 8, context_type: shared, distribution: gaussian, samples: [90, 400], solver: rrqr}
store: [spectrum]
limits: {memory_per_rank: 4MiB}
"""


class Reuse(harness.Folder):
    def run_sweep(self, name, text, *words, expect=0, ranks=None):
        self.write(f"{name}.yaml", text)
        return self.run_program("run", f"{name}.yaml", *words, expect=expect, ranks=ranks)

    def taken(self, ended):
        return [int(count) for count in re.findall(r"--reuse \S+: (\d+) of \d+ open points taken", ended.stderr)]

    def check_grown(self, small, large, common, *words, ranks=None):
        """The large sweep with the small one's file is the large sweep computed whole; returns what was said."""
        self.run_sweep("small", small)
        self.run_sweep("whole", large, *words, ranks=ranks)
        ended = self.run_sweep("grown", large, "--reuse", "small.h5", *words, ranks=ranks)
        self.assertEqual(self.taken(ended), [common])
        self.assert_same_results(self.folder / "grown.h5", self.folder / "whole.h5")
        grown, whole = self.folder / "grown.h5", self.folder / "whole.h5"
        points = harness.statuses(whole).size
        self.assertIn(f"{points - common} of {points} points to run" if points > common else "nothing is left to run", ended.stderr)
        seconds = set(harness.column(self.folder / "small.h5", "seconds"))
        from_small = [value in seconds for value in harness.column(grown, "seconds")]
        self.assertEqual(sum(from_small), common, "the time of the older run goes along")
        with h5py.File(grown) as file:
            self.assertEqual(file.attrs["reused_files"], "small.h5")
        return ended

    def test_an_axis_grows(self):
        for heads in ("[1, 2, 4]", "[3, 2, 1]", "[2]"):
            with self.subTest(heads=heads):
                common = sum(h in heads for h in "12") * 8
                self.check_grown(MEMORIZE, MEMORIZE.replace("heads: [1, 2]", f"heads: {heads}"), common)
                for name in ("small", "whole", "grown"):
                    (self.folder / f"{name}.h5").unlink()

    def test_replicates_are_added(self):
        self.check_grown(MEMORIZE, MEMORIZE.replace("replicates: 2", "replicates: 5"), 16, ranks=3)

    def test_a_fixed_parameter_becomes_an_axis_and_curves_become_longer(self):
        self.check_grown(MEMORIZE, MEMORIZE.replace("steps: 20", "steps: [20, 60]").replace("replicates: 2", "replicates: 1"), 8)

    def test_spectrum_and_arrays_go_along(self):
        self.check_grown(PROBE, PROBE.replace("samples: [3, 12]", "samples: [1, 3, 5, 12, 20]"), 6)

    def test_a_parameter_named_with_its_default_is_the_default(self):
        self.check_grown(MEMORIZE, MEMORIZE.replace("dim: 6", "dim: 6, key_dim: [6, 3]"), 16)

    def test_a_parameter_that_the_older_program_did_not_have_was_its_default(self):
        self.run_sweep("small", MEMORIZE)
        for name in ("key_dim", "lr", "labels"):  # = dim, a number, a word
            with h5py.File(self.folder / "small.h5", "r+") as file:
                del file[name]
        ended = self.run_sweep("grown", MEMORIZE.replace("dim: 6", "dim: 6, key_dim: [6, 3]"), "--reuse", "small.h5")
        self.assertEqual(self.taken(ended), [16])

    def test_a_parameter_that_is_not_known_any_more_forbids_all(self):
        self.run_sweep("small", MEMORIZE)
        with h5py.File(self.folder / "small.h5", "r+") as file:
            file["flavour"] = file["heads"][:]
            file["flavour"].attrs["role"] = "parameter"
        ended = self.run_sweep("grown", MEMORIZE, "--reuse", "small.h5")
        self.assertIn("nothing can be taken: it has a parameter flavour", ended.stderr)

    def test_another_seed_gives_nothing(self):
        self.run_sweep("small", MEMORIZE)
        ended = self.run_sweep("other", MEMORIZE, "--reuse", "small.h5", "--set", "seed=6")
        self.assertIn("--reuse small.h5: nothing can be taken: the seed is 5 in it, 6 here", ended.stderr)
        self.assertTrue((harness.column(self.folder / "other.h5", "attempts") == 1).all())

    def test_another_numerics_version_gives_nothing_and_says_so(self):
        self.run_sweep("small", MEMORIZE)
        with h5py.File(self.folder / "small.h5", "r+") as file:
            text = file.attrs["spec_canonical"]
            file.attrs["spec_canonical"] = re.sub(r"numerics = \d+", "numerics = 1000", text)
        ended = self.run_sweep("other", MEMORIZE, "--reuse", "small.h5", "--quiet")
        self.assertIn("nothing can be taken: the numerics version of the experiment is 1000 in it", ended.stderr)

    def test_several_files_and_the_first_counts(self):
        self.run_sweep("a", MEMORIZE, "--set", "heads=1")
        self.run_sweep("b", MEMORIZE)
        with h5py.File(self.folder / "b.h5", "r+") as file:
            file["seconds"][:] = 1000.0
        ended = self.run_sweep("grown", MEMORIZE.replace("[1, 2]", "[1, 2, 3]"), "--reuse", "a.h5", "--reuse", "b.h5")
        self.assertEqual(self.taken(ended), [8, 8])
        seconds = harness.column(self.folder / "grown.h5", "seconds")
        heads = harness.column(self.folder / "grown.h5", "heads")
        numpy.testing.assert_array_equal(seconds == 1000.0, heads == 2)

    def test_open_and_failed_points_are_not_taken(self):
        self.run_sweep("small", MEMORIZE, "--limit", "5", expect=75)
        with h5py.File(self.folder / "small.h5", "r+") as file:
            file["status"][0] = harness.FAILED
            file["status"][9] = harness.RUNNING
        ended = self.run_sweep("grown", MEMORIZE, "--reuse", "small.h5")
        self.assertEqual(self.taken(ended), [4])

    def test_what_is_not_stored_in_it_runs(self):
        self.run_sweep("small", MEMORIZE.replace("store: [curves, weights]", "store: [curves]"))
        ended = self.run_sweep("grown", MEMORIZE, "--reuse", "small.h5")
        self.assertEqual(self.taken(ended), [0])
        self.assertIn("16 equal points will run, as not all that `store` asks for is there", ended.stderr)
        self.run_sweep("bare", MEMORIZE.replace("store: [curves, weights]", "store: []"))
        ended = self.run_sweep("again", MEMORIZE, "--reuse", "bare.h5")
        self.assertIn("--reuse bare.h5: nothing can be taken: it has no curve_step", ended.stderr)
        self.assert_same_results(self.folder / "again.h5", self.folder / "grown.h5")
        ended = self.run_sweep("less", MEMORIZE.replace("store: [curves, weights]", "store: []"), "--reuse", "grown.h5")
        self.assertEqual(self.taken(ended), [16])
        self.assert_same_results(self.folder / "less.h5", self.folder / "bare.h5")

    def test_a_search_is_taken_by_the_same_search_only(self):
        self.run_sweep("small", SEARCH)
        larger = SEARCH.replace("heads: [1, 2]", "heads: [1, 2, 3]")
        self.run_sweep("whole", larger)
        ended = self.run_sweep("grown", larger, "--reuse", "small.h5")
        self.assertEqual(self.taken(ended), [2])
        self.assert_same_results(self.folder / "grown.h5", self.folder / "whole.h5")
        ended = self.run_sweep("other", larger.replace("to: 32", "to: 16"), "--reuse", "small.h5")
        self.assertIn("nothing can be taken: the search is {parameter: samples", ended.stderr)
        ended = self.run_sweep("plain", MEMORIZE, "--reuse", "small.h5")
        self.assertRegex(ended.stderr, "nothing can be taken: the search is {.*} in it, none here")
        ended = self.run_sweep("batch", larger.replace("batch: 8", 'batch: "= min(8, samples)"'), "--reuse", "small.h5")
        self.assertIn("it is a search in which batch is given by another expression", ended.stderr)

    def test_teams_of_the_same_size_are_taken(self):
        self.run_sweep("small", TEAMS, ranks=4)
        self.assertGreater(harness.column(self.folder / "small.h5", "ranks").max(), 1)
        larger = TEAMS.replace("heads: [8, 16]", "heads: [8, 12, 16]")
        self.run_sweep("whole", larger, ranks=4)
        ended = self.run_sweep("grown", larger, "--reuse", "small.h5", ranks=4)
        self.assertEqual(self.taken(ended), [4])
        self.assert_same_results(self.folder / "grown.h5", self.folder / "whole.h5")
        ended = self.run_sweep("roomy", larger, "--reuse", "small.h5", "--set", "limits.memory_per_rank=1GiB", ranks=2)
        self.assertIn("will run, as they were solved by another number of ranks", ended.stderr)
        self.assertEqual(harness.column(self.folder / "roomy.h5", "ranks").max(), 1)

    def test_resume_takes_too_and_runs_only_the_rest(self):
        self.run_sweep("small", MEMORIZE)
        larger = MEMORIZE.replace("heads: [1, 2]", "heads: [1, 2, 4]")
        self.run_sweep("grown", larger, "--limit", "3", expect=75)
        ended = self.run_sweep("grown", larger, "--resume", "--reuse", "small.h5")
        self.assertEqual(self.taken(ended), [13])
        ended = self.run_sweep("grown", larger, "--resume", "--reuse", "small.h5")
        self.assertEqual(self.taken(ended), [0])
        self.assertTrue((harness.column(self.folder / "grown.h5", "attempts") == 1).all())
        ended = self.run_sweep("grown", larger, "--resume", "--reuse", "./grown.h5", expect=2)
        self.assertIn("--reuse: ./grown.h5: is the result file itself", ended.stderr)

    def test_values_given_by_expressions_and_where(self):
        text = MEMORIZE.replace("samples: 30", 'samples: "= 10 * heads + context"').replace("replicates: 2", 'where: "context > 2 || heads < 2"\nreplicates: 2')
        self.check_grown(text, text.replace("heads: [1, 2]", "heads: [1, 2, 3]").replace(' || heads < 2"', '"'), 8)

    def test_a_file_that_is_of_no_use_is_an_error_before_anything_is_written(self):
        self.run_sweep("probe", PROBE)
        self.write("text.h5", "not HDF5")
        self.write("empty.h5", "")
        with h5py.File(self.folder / "foreign.h5", "w") as file:
            file["x"] = [1]
        whole = (self.folder / "probe.h5").read_bytes()
        (self.folder / "short.h5").write_bytes(whole[: len(whole) // 2])
        with h5py.File(self.folder / "bare.h5", "w") as file, h5py.File(self.folder / "probe.h5") as probe:
            for name, value in probe.attrs.items():
                file.attrs[name] = value
        self.run_sweep("newer", MEMORIZE)
        with h5py.File(self.folder / "newer.h5", "r+") as file:
            file.attrs["schema_version"] = 99
        for name, text, words in (
                ("missing", PROBE, "there is no such file"), ("text", PROBE, "is not an HDF5 file"),
                ("empty", PROBE, "is empty"), ("foreign", PROBE, "not a result file of mhasweep"),
                ("short", PROBE, "is cut short or damaged"), ("bare", PROBE, "status cannot be opened"),
                ("newer", MEMORIZE, "was written by a newer mhasweep"),
                ("probe", MEMORIZE, "holds the experiment probe, the sweep is of memorize")):
            with self.subTest(file=name):
                ended = self.run_sweep("new", text, "--reuse", f"{name}.h5", expect=2, ranks=2 if name == "short" else None)
                lines = [line for line in ended.stderr.splitlines() if line.startswith("mhasweep")]
                self.assertEqual(len(lines), 1, ended.stderr)
                self.assertIn(f"--reuse: {name}.h5: ", lines[0])
                self.assertIn(words, lines[0])
                self.assertFalse((self.folder / "new.h5").exists())

    def test_a_hundred_thousand_points_are_taken_in_no_time(self):
        text = "experiment: probe\nparameters: {heads: 1, dim: 1, context: 1, samples: 1}\nreplicates: %d\n"
        self.run_sweep("large", text % 100000, "--limit", "1", expect=75)
        with h5py.File(self.folder / "large.h5", "r+") as file:  # as if they had run
            file["status"][:] = harness.DONE
            file["ranks"][:] = 1
            file["seconds"][:] = 0.5
            file["rank"][:] = numpy.arange(100000)
        ended = self.run_sweep("grown", text % 100001, "--reuse", "large.h5")
        self.assertEqual(self.taken(ended), [100000])
        numpy.testing.assert_array_equal(harness.column(self.folder / "grown.h5", "rank")[:100000], numpy.arange(100000))


if __name__ == "__main__":
    unittest.main()
