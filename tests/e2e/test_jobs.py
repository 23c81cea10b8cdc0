"""The sweep files under jobs/ are what they say: each is a sweep, the paper's are all there, small ones are small."""
import json
import pathlib
import re
import unittest

import harness

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")
JOBS = harness.SOURCE / "jobs"
MEMORIZATION = JOBS / "memorization"
OPTIMIZATION = JOBS / "optimization"
BODIES = (MEMORIZATION, OPTIMIZATION, JOBS / "icl")

SIZES = [1, 5, 10, 20, 30, 40, 50, 60]
KEY_DIMS = [10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 64]

# What the paper on memorization (arXiv 2306.02010) ran for every seed: axes (samples in thousands) and the least number
# of steps.
PAPER = {
    "heads-own": ({"heads": SIZES, "samples": [30, 50, 70, 90, 110, 130]}, 50000),
    "heads-shared": ({"heads": SIZES, "samples": [10, 20, 30, 40]}, 50000),
    "context-own": ({"context": SIZES, "samples": [20, 30, 40, 50, 60]}, 50000),
    "context-shared": ({"context": SIZES, "samples": [6, 10, 14, 18]}, 50000),
    "key-dim": ({"key_dim": KEY_DIMS, "samples": [10, 15, 20]}, 300000),
    "regression-heads-own": ({"heads": SIZES, "samples": [10, 30, 50, 70, 90]}, 50000),
    "regression-heads-shared": ({"heads": SIZES, "samples": [10, 15, 20, 25, 30]}, 50000),
    "regression-context-own": ({"context": SIZES, "samples": [10, 30, 50, 70, 90]}, 50000),
    "regression-context-shared": ({"context": SIZES, "samples": [10, 15, 20, 25]}, 50000),
    "saturation": ({"heads": [4, 8], "samples": [0.55, 1.3]}, 300000),
}


def sweep_files(folder):
    """Those under `folder`, in order, but for the ones on images that are not installed (dataset-fashion-mnist)."""
    files = sorted(path for path in folder.rglob("*.yaml") if JOBS / "packaging" not in path.parents)
    return [path for path in files if FASHION.exists() or str(FASHION) not in path.read_text()]


def hours(plan):
    """Core-hours at the speed of a usual core; plan's own go by the core that it just measured, which may be busy."""
    return ((plan["flops"] - plan["flops_float32"]) / 35e9 + plan["flops_float32"] / 70e9) / 3600


class Jobs(harness.Folder):
    @classmethod
    def setUpClass(cls):
        cls.plans = {}

    def plan(self, path):
        if path not in self.plans:
            self.plans[path] = json.loads(self.run_program("plan", path, "--json").stdout)
        return self.plans[path]

    def axes(self, path):
        return {axis["name"]: axis["values"] for axis in self.plan(path)["axes"]}

    def test_every_sweep_file_is_a_sweep(self):
        files = sweep_files(JOBS)
        self.assertGreater(len(files), 2 * len(PAPER))
        for path in files:
            with self.subTest(file=path.name):
                self.assertGreater(self.plan(path)["points"], 1)

    def test_the_papers_files_hold_its_342_runs_of_a_seed_for_six_seeds(self):
        points = 0
        for name, (axes, _) in PAPER.items():
            with self.subTest(name=name):
                path = MEMORIZATION / f"{name}.yaml"
                self.assertEqual((self.plan(path)["experiment"], self.plan(path)["replicates"]), ("memorize", 6))
                self.assertEqual(self.axes(path), {**axes, "samples": [round(1000 * it) for it in axes["samples"]]})
                points += self.plan(path)["points"]
        self.assertEqual(points, 342 * 6)

    def test_the_papers_files_have_its_data_and_its_least_number_of_steps(self):
        for name, (_, steps) in PAPER.items():
            kind = "own" if name.endswith("own") else "shared"
            labels = "regression" if name.startswith("regression") else "classes"
            with self.subTest(name=name):
                path = MEMORIZATION / f"{name}.yaml"
                same = self.run_program("plan", path, "--json", "--set", f"min_steps={steps}", "--set",
                                        f"context_type={kind}", "--set", f"labels={labels}").stdout
                self.assertEqual(json.loads(same)["flops"], self.plan(path)["flops"])

    def test_the_papers_models_have_its_numbers_of_parameters(self):
        # 4160 + H (128 d_h + 128) + 65 C, with C outputs
        def parameters(heads, outputs, key_dim=64):
            return 4160 + heads * (128 * key_dim + 128) + 65 * outputs

        for name in PAPER:
            plan, axes = (it(MEMORIZATION / f"{name}.yaml") for it in (self.plan, self.axes))
            heads = axes.get("heads", [30 if name == "key-dim" else 20])
            key_dims = axes.get("key_dim", [64])
            outputs = 1 if name.startswith("regression") else 100
            self.assertEqual((name, plan["parameters_least"]), (name, parameters(min(heads), outputs, min(key_dims))))
            self.assertEqual((name, plan["parameters_most"]), (name, parameters(max(heads), outputs, max(key_dims))))

    def test_a_long_sweep_has_a_small_twin_along_the_same_axes(self):
        small = []
        for path in [it for body in BODIES for it in sweep_files(body)]:
            with self.subTest(file=path.name):
                if path.stem.endswith("-small"):
                    small.append(path)
                    self.assertLess(hours(self.plan(path)), 0.25)
                elif hours(self.plan(path)) > 0.05:
                    twin = path.with_name(f"{path.stem}-small.yaml")
                    self.assertTrue(twin.exists())
                    self.assertEqual(self.plan(twin)["experiment"], self.plan(path)["experiment"])
                    self.assertLessEqual(set(self.axes(path)), set(self.axes(twin)))
        self.assertGreater(len(small), len(PAPER))

    def test_the_table_beside_the_files_names_each_with_its_points(self):
        for path in [it for body in BODIES for it in sweep_files(body)]:
            table = (path.parent / "README.md").read_text()
            row = re.search(rf"^\| \[?`{re.escape(path.stem)}`.*", table, re.MULTILINE)
            self.assertTrue(row, f"{path.name} is not in the table")
            self.assertIn(f"| {self.plan(path)['points']:,} |", row.group(), path.name)

    def test_every_claim_on_optimization_has_a_sweep_and_its_small_twin(self):
        table = (OPTIMIZATION / "README.md").read_text()
        rows = re.findall(r"^\| `([\w-]+)-small` .*\| ((?:C\d+(?:, )?)+):", table, re.MULTILINE)
        claims = {claim for _, some in rows for claim in some.split(", ")}
        self.assertEqual(claims, {f"C{number}" for number in range(1, 14)})
        for name, _ in rows:
            small, full = (OPTIMIZATION / f"{it}.yaml" for it in (f"{name}-small", name))
            with self.subTest(name=name):
                self.assertEqual(self.plan(full)["experiment"], "optimize")
                self.assertLess(self.plan(small)["flops"], self.plan(full)["flops"])
                self.assertIn("# Seen: ", small.read_text())

    def test_the_optimization_papers_experiments_have_its_known_sizes(self):
        known = {"heads-dm1": {"samples": 100, "test_samples": 300, "step_size": 1.0},
                 "heads-planted": {"samples": 1000, "test_samples": 3000, "data": "planted"}}
        for name, sizes in known.items():
            path = OPTIMIZATION / f"{name}.yaml"
            with self.subTest(name=name):
                self.assertEqual((self.plan(path)["experiment"], self.plan(path)["replicates"]), ("optimize", 5))
                self.assertIn("zero", self.axes(path)["init"])
                text = path.read_text()
                for key, value in sizes.items():
                    self.assertRegex(text, rf"(?m)^  {key}: +{re.escape(str(value))}$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
