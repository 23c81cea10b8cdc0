"""mhasweep simulate: what it says, and what it says no to."""
import json
import unittest

import harness

SWEEP = """
experiment: probe
parameters:
  heads: [1, 2, 4, 8, 16]
  dim: [16, 32]
  context: 16
  context_type: shared
  samples: [100, 200, 400]
  solver: rrqr
replicates: 20
"""


class Simulate(harness.Folder):
    def setUp(self):
        super().setUp()
        self.write("sweep.yaml", SWEEP)

    def simulate(self, *words):
        return json.loads(self.run_program("simulate", "sweep.yaml", "--json", "--rate", "1e8", *words).stdout)

    def test_the_bound_holds_and_many_ranks_are_busy(self):
        alone = self.simulate("--ranks", 1)
        self.assertEqual((alone["ranks"], alone["workers"], alone["points"]), (1, 1, 600))
        self.assertGreater(alone["utilisation"], 0.99)
        before = alone["makespan"]
        for ranks in (2, 5, 17):
            answer = self.simulate("--ranks", ranks)
            self.assertAlmostEqual(answer["work"], alone["work"], delta=1e-9 * alone["work"])
            self.assertGreaterEqual(answer["makespan"], answer["bound"])
            self.assertLessEqual(answer["makespan"], before)
            self.assertGreater(answer["utilisation"], 0.9)
            self.assertAlmostEqual(answer["bound"], max(answer["work"] / (ranks - 1), answer["longest"]))
            before = answer["makespan"]

    def test_more_ranks_than_points_do_not_help(self):
        answer = self.simulate("--ranks", 20000)
        self.assertEqual(answer["bound"], answer["longest"])
        self.assertLess(answer["utilisation"], 0.2)

    def test_teams_are_those_of_a_run(self):
        limit = ("--set", "limits.memory_per_rank=3MiB")
        answer = self.simulate("--ranks", 5, *limit)
        self.assertGreater(answer["team_points"], 0)
        answer = self.simulate("--ranks", 2, *limit)
        self.assertEqual(answer["team_points"], 0)
        self.assertGreater(answer["left_points"], 0)
        self.assertGreater(answer["left_widest"], 1)
        self.assertEqual(answer["left_points"] + answer["points"], 600)
        self.assertEqual(self.simulate("--ranks", 5, *limit, "--teams", "static")["points"],
                         self.simulate("--ranks", 5, *limit)["points"])

    def test_noise_is_the_same_for_the_same_seed(self):
        def noisy(seed):
            return self.simulate("--ranks", 5, "--noise", "0.5", "--set", f"seed={seed}")

        self.assertEqual(noisy(1), noisy(1))
        self.assertNotEqual(noisy(1)["work"], noisy(2)["work"])

    def test_a_slow_master_shows(self):
        answer = self.simulate("--ranks", 100, "--message", "0.1")
        self.assertGreater(answer["master_busy"], 0.5)
        self.assertAlmostEqual(answer["messages_per_second"], answer["messages"] / answer["makespan"])

    def test_people_get_words(self):
        ended = self.run_program("simulate", "sweep.yaml", "--ranks", 5)
        for word in ("600 points on 5 ranks (4 at work)", "makespan", "bound", "utilisation", "messages per second"):
            self.assertIn(word, ended.stdout)
        self.assertIn("--noise SIGMA", self.run_program("simulate", "--help").stdout)

    def test_what_makes_no_sense_is_refused(self):
        for words, expected in [
            (("simulate", "sweep.yaml"), "needs --ranks N"),
            (("simulate", "sweep.yaml", "--ranks", "0"), "from 1 to"),
            (("simulate", "sweep.yaml", "--ranks", "many"), "not a whole number"),
            (("simulate", "sweep.yaml", "--ranks", "5", "--noise", "-1"), "not a number from 0 on"),
            (("simulate", "sweep.yaml", "--ranks", "5", "--rate", "0"), "not a number from 1 on"),
            (("simulate", "sweep.yaml", "--ranks", "5", "--rate", "nan"), "not a number from 1 on"),
            (("simulate", "sweep.yaml", "--ranks", "5", "--teams", "some"), "dynamic or static"),
            (("simulate", "sweep.yaml", "--ranks", "5", "--set", "replicates=100000000"), "keeps all of them in memory"),
            (("simulate", "sweep.yaml", "--ranks", "5", "--set", "haeds=3"), "did you mean heads?"),
            (("simulate", "missing.yaml", "--ranks", "5"), "missing.yaml"),
        ]:
            with self.subTest(words=words):
                ended = self.run_program(*words, expect=2)
                self.assertIn(expected, ended.stderr)
                self.assertEqual(ended.stdout, "")


if __name__ == "__main__":
    unittest.main()
