"""The result file as Python and the HDF5 tools see it."""
import os
import subprocess
import sys
import unittest

import h5py
import numpy
import xarray

import harness

MEMORIZE = """
experiment: memorize
parameters: {heads: [1, 2], dim: 6, context: [2, 3], samples: 30, classes: 5, batch: 8, steps: 20, eval_every: 10, context_type: [own, shared]}
replicates: 2
store: [curves, weights, data]
"""

PROBE = """
experiment: probe
parameters: {heads: [1, 2, 3], dim: 5, context: 4, samples: [3, 12]}
store: [curves, spectrum, weights, data, z, attention]
"""


class File(harness.Folder):
    def test_the_whole_file_keeps_to_its_conventions(self):
        for name, text in (("memorize", MEMORIZE), ("probe", PROBE)):
            with self.subTest(experiment=name):
                self.write(f"{name}.yaml", text)
                self.run_program("run", f"{name}.yaml", ranks=3)
                checked = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "check_file.py"),
                                          self.folder / f"{name}.h5"], capture_output=True, text=True)
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_the_grid_unstacks_by_the_names_of_the_axes(self):
        self.write("sweep.yaml", MEMORIZE)
        self.run_program("run", "sweep.yaml", ranks=2)
        with xarray.open_dataset(self.folder / "sweep.h5", engine="h5netcdf") as results:
            axes = ["heads", "context", "context_type", "replicate"]
            grid = results.set_index(point=axes).unstack()
            self.assertEqual({name: grid.sizes[name] for name in axes}, dict.fromkeys(axes, 2))
            one = grid.accuracy.sel(heads=2, context=3, context_type=1, replicate=0)
            row = (results.heads == 2) & (results.context == 3) & (results.context_type == 1) & (results.replicate == 0)
            self.assertEqual(float(one), float(results.accuracy[row].item()))

    def test_stored_features_have_the_stored_spectrum(self):
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml", ranks=2)
        with h5py.File(self.folder / "sweep.h5") as file:
            for point in range(file["point"].size):
                sigma = numpy.linalg.svd(file[f"stored/{point}/Z"][:], compute_uv=False)
                stored = file["spectrum"][point]
                numpy.testing.assert_allclose(stored[: sigma.size], sigma, rtol=1e-10, atol=1e-12 * sigma[0])
                self.assertTrue(numpy.isnan(stored[sigma.size:]).all())


if __name__ == "__main__":
    unittest.main()
