"""The worked example of include/README.md: it was compiled as it stands there, and does what it says."""
import json
import math
import pathlib
import re
import unittest

import harness

PROGRAM = pathlib.Path(harness.PROGRAM).resolve().parent / "tests" / "example_mhasweep"
TEXT = (harness.SOURCE / "include" / "README.md").read_text()
SWEEP = re.search(r"(?s)\n```yaml\n(.*?)```\n", TEXT).group(1)


class Example(harness.Folder):
    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, harness, "PROGRAM", harness.PROGRAM)
        harness.PROGRAM = PROGRAM
        self.write("entropy.yaml", SWEEP)

    def test_it_is_about_60_lines(self):
        self.assertLessEqual(len(re.search(r"(?s)\n```c\n(.*?)```\n", TEXT).group(1).splitlines()), 65)

    def test_its_tables_are_all_that_the_program_needs(self):
        one = json.loads(self.run_program("experiments", "entropy", "--json").stdout)
        self.assertEqual([entry["name"] for entry in one["parameters"]], ["context", "logit_scale", "samples"])
        self.assertEqual([entry["name"] for entry in one["results"]], ["entropy", "largest"])
        self.assertEqual(json.loads(self.run_program("plan", "entropy.yaml", "--json").stdout)["points"], 30)
        refused = self.run_program("plan", "entropy.yaml", "--set", "contxt=3", expect=2)
        self.assertIn("did you mean context?", refused.stderr)

    def test_its_numbers_are_those_of_theory(self):
        self.run_program("run", "entropy.yaml", "--quiet")
        points = json.loads(self.run_program("show", "entropy.h5", "--json").stdout)["points"]
        self.assertEqual(len(points), 30)
        for point in points:
            n, scale = point["context"], point["logit_scale"]
            if scale == 0:  # even weights
                self.assertAlmostEqual(point["entropy"], math.log(n), places=12)
                self.assertAlmostEqual(point["largest"], 1 / n, places=12)
            elif scale == 1.0e6:  # one row has all
                self.assertLess(point["entropy"], 0.01)
                self.assertGreater(point["largest"], 0.99)
            else:
                self.assertTrue(0 < point["entropy"] < math.log(n))
        by_scale = [point["entropy"] for point in points if point["context"] == 32 and point["replicate"] == 0]
        self.assertEqual(by_scale, sorted(by_scale, reverse=True))

    def test_its_numbers_do_not_depend_on_the_ranks(self):
        self.run_program("run", "entropy.yaml", "-o", "one.h5", "--quiet")
        self.run_program("run", "entropy.yaml", "-o", "three.h5", "--quiet", ranks=3)
        self.assert_same_results(self.folder / "three.h5", self.folder / "one.h5")


if __name__ == "__main__":
    unittest.main(verbosity=2)
