"""The assumptions of the theory on data of every kind, against numpy's rank of one subset at a time."""
import gzip
import pathlib
import shutil
import unittest

import h5py
import numpy

import harness

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")


def share_by_subsets(vectors, k, subsets, generator):
    """Share of random k-subsets that have rank k, by the singular values of each in float32."""
    picked = (generator.permutation(len(vectors))[:k] for _ in range(subsets))
    return numpy.mean([numpy.linalg.matrix_rank(vectors[rows].astype(numpy.float32)) == k for rows in picked])


class Assumptions(harness.Folder):
    def tokens(self, name, array):
        numpy.save(self.folder / name, array)

    def compare_with_subsets(self, path, point, ks, subsets=200):
        with h5py.File(path) as file:
            orders = int(file["orders"][point])
            ours = file["curve_share"][point]
            vectors = file[f"stored/{point}/e"][:]
        generator = numpy.random.default_rng(1)
        for k in ks:
            theirs = share_by_subsets(vectors, k, subsets, generator)
            both = (theirs * subsets + ours[k - 1] * orders) / (subsets + orders)
            deviation = max(numpy.sqrt(both * (1 - both) * (1 / subsets + 1 / orders)), 1 / subsets)
            self.assertLess(abs(ours[k - 1] - theirs), 5 * deviation, f"k = {k}: {ours[k - 1]} and {theirs}")
        return ours

    def test_curve_agrees_with_subset_by_subset(self):
        generator = numpy.random.default_rng(0)
        falling = generator.standard_normal((400, 3, 32)) * 10.0 ** -(numpy.arange(32) / 3.5)
        some_in_plane = generator.standard_normal((60, 3, 32))
        some_in_plane[:12, 0] = generator.standard_normal((12, 2)) @ generator.standard_normal((2, 32))
        for name, array in (("falling.npy", falling), ("plane.npy", some_in_plane.astype(numpy.float32))):
            self.tokens(name, array)
            samples = len(array)
            self.write("sweep.yaml", f"""
experiment: assumptions
parameters: {{source: tokens, path: {name}, samples: {samples}, context: 2, dim: 32, orders: 2000}}
store: [curves, data]
""")
            path = self.folder / (name + ".h5")
            self.run_program("run", "sweep.yaml", "-o", path)
            ours = self.compare_with_subsets(path, 0, (1, 2, 3, 5, 8, 12, 14, 16, 17, 18, 19, 20, 24, 32))
            self.assertTrue((numpy.diff(ours) <= 0).all())
            self.assertTrue(((0.01 < ours) & (ours < 0.99)).any(), "nothing was compared where it is in doubt")

    def test_certificate_is_dependent(self):
        generator = numpy.random.default_rng(2)
        array = generator.standard_normal((10000, 2, 24))
        array[8765, 0] = 0.3 * array[12, 0] - 2.0 * array[4321, 0]
        with h5py.File(self.folder / "tokens.h5", "w") as file:
            file["tokens"] = array
        self.write("sweep.yaml", """
experiment: assumptions
parameters: {source: tokens, path: tokens.h5, samples: 10000, context: 1, dim: 24, orders: 100, tolerance: float64}
store: [data]
""")
        self.run_program("run", "sweep.yaml", "-o", "out.h5")
        with h5py.File(self.folder / "out.h5") as file:
            self.assertEqual(file["kruskal_upper"][0], 2)
            certificate = file["stored/0/certificate"][:]
            self.assertEqual(certificate[:3].tolist(), [12, 4321, 8765])
            self.assertTrue(numpy.isnan(certificate[3:]).all())
            self.assertEqual(file["path"][0], b"tokens.h5")
            self.assertGreater(file["source_hash"][0], 0)

    @unittest.skipUnless(FASHION.exists(), f"{FASHION} is not there (Debian: dataset-fashion-mnist)")
    def test_fashion_mnist_behaves_as_in_the_paper(self):
        self.write("sweep.yaml", f"""
experiment: assumptions
parameters:
  source: patches
  path: {FASHION}
  patch: 7
  stage: [embedding, attention]
  context: 17
  dim: 64
  samples: 1000
  orders: 500
store: [curves, data]
""")
        self.run_program("run", "sweep.yaml", "-o", "out.h5", ranks=3)
        path = self.folder / "out.h5"
        embedding, attention = 0, 1
        share = harness.column(path, "curve_share")
        self.assertEqual(share[embedding][:2].tolist(), [1.0, 0.0])  # every query is the same [CLS]
        self.assertEqual(harness.column(path, "kruskal_upper")[embedding], 1)
        self.assertEqual(harness.column(path, "assumption3")[embedding], 1.0)
        self.assertEqual(harness.column(path, "assumption1").tolist(), [0.0, 1.0])
        self.assertEqual(harness.column(path, "assumption2").tolist(), [1.0, 1.0])
        self.assertEqual(harness.column(path, "general_position").tolist(), [0.0, 0.0])
        ours = self.compare_with_subsets(path, attention, (17, 30, 40, 46, 50, 54, 64), subsets=100)
        self.assertTrue(((0.01 < ours) & (ours < 0.99)).any(), "the curve never falls")

    def test_probe_and_memorize_read_the_same_files(self):
        generator = numpy.random.default_rng(3)
        array = generator.standard_normal((40, 5, 8)).astype(numpy.float32)
        self.tokens("tokens.npy", array)
        for experiment, more in (("probe", "heads: 4, dim: 8"), ("memorize", "heads: 4, dim: 8, steps: 20, classes: 3")):
            for kind in ("own", "shared"):
                self.write("sweep.yaml", f"""
experiment: {experiment}
parameters: {{source: tokens, path: tokens.npy, samples: 40, context: 4, context_type: {kind}, {more}}}
store: [data]
""")
                path = self.folder / f"{experiment}-{kind}.h5"
                self.run_program("run", "sweep.yaml", "-o", path)
                with h5py.File(path) as file:
                    numpy.testing.assert_array_equal(file["stored/0/e"][:], array[:, 0])
                    numpy.testing.assert_array_equal(file["stored/0/E"][:], array[0, 1:] if kind == "shared" else array[:, 1:])
        self.assertEqual(harness.column(self.folder / "probe-own.h5", "rank")[0], 32)
        self.assertEqual(harness.column(self.folder / "probe-shared.h5", "rank")[0], 4 * 3 + 1)

    def test_bad_file_is_one_clear_error_and_no_output(self):
        generator = numpy.random.default_rng(4)
        good = generator.standard_normal((20, 4, 6)).astype(numpy.float32)
        self.tokens("good.npy", good)
        bad = good.copy()
        bad[3, 2, 1] = numpy.nan
        self.tokens("nan.npy", bad)
        self.tokens("type.npy", good.astype(int))
        self.tokens("shape.npy", good[0])
        (self.folder / "cut.npy").write_bytes((self.folder / "good.npy").read_bytes()[:-5])
        with gzip.open(self.folder / "cut.gz", "wb") as file:
            file.write(bytes([0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 4, 0, 0, 0, 4]) + bytes(100))
        cases = [("tokens", "nan.npy", "not finite: nan in sample 3, row 2, column 1"), ("tokens", "type.npy", "'<i8'"),
                 ("tokens", "shape.npy", "has the shape (4, 6)"), ("tokens", "cut.npy", "cut short"),
                 ("tokens", "none.npy", "No such file"), ("tokens", "good.npy", "samples = 21, and it holds 20"),
                 ("patches", "cut.gz", "cut short or damaged")]
        for experiment in ("assumptions", "probe"):
            for source, name, words in cases:
                with self.subTest(experiment=experiment, name=name):
                    samples = 21 if name == "good.npy" else 20
                    self.write("sweep.yaml", f"""
experiment: {experiment}
parameters: {{source: {source}, path: {name}, samples: {samples}, context: 3, dim: 6, patch: 1}}
""")
                    ended = self.run_program("run", "sweep.yaml", "-o", "out.h5", expect=2,
                                             ranks=2 if name == "nan.npy" else None)
                    self.assertIn(words, ended.stderr)
                    self.assertEqual(sum(name in line for line in ended.stderr.splitlines()), 1, ended.stderr)
                    self.assertFalse((self.folder / "out.h5").exists())

    def test_path_is_an_axis_like_others(self):
        generator = numpy.random.default_rng(5)
        for name in ("one layer.npy", "two.npy"):
            self.tokens(name, generator.standard_normal((20, 4, 6)))
        self.write("sweep.yaml", """
experiment: assumptions
parameters: {source: tokens, path: [one layer.npy, two.npy], samples: 20, context: 3, dim: 6, orders: [10, 20]}
""")
        self.run_program("run", "sweep.yaml", "-o", "out.h5", ranks=2)
        self.assertEqual(harness.column(self.folder / "out.h5", "path").tolist(),
                         [b"one layer.npy", b"two.npy"] * 2)
        hashes = harness.column(self.folder / "out.h5", "source_hash")
        self.assertEqual(hashes[0], hashes[2])
        self.assertNotEqual(hashes[0], hashes[1])
        for words in (("show", "out.h5"), ("export", "out.h5"), ("plan", "sweep.yaml"), ("show", "out.h5", "--json")):
            self.assertIn("one layer.npy", self.run_program(*words).stdout)
        shutil.copy(self.folder / "out.h5", self.folder / "again.h5")
        self.run_program("run", "sweep.yaml", "-o", "again.h5", "--resume")
        self.run_program("run", "sweep.yaml", "-o", "again.h5", "--resume", "--set", "path=two.npy", expect=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
