"""The numbers of a point do not depend on how many ranks there are, nor on the launcher."""
import unittest

import harness

MEMORIZE = """
experiment: memorize
seed: 11
parameters:
  heads: [1, 2, 3]
  dim: 8
  context: 4
  samples: [40, 60]
  classes: 10
  batch: 16
  steps: 60
  eval_every: 20
  lr: 5.0e-3
  context_type: [own, shared]
replicates: 2
store: [curves, weights, data]
"""

PROBE = """
experiment: probe
seed: 5
parameters:
  heads: [1, 2, 4]
  dim: [4, 8]
  context: 4
  samples: "= heads * dim + 3"
  context_type: [own, shared]
where: "heads * dim < 32"
replicates: 3
store: [curves, spectrum, weights, data, z, attention]
"""


class Ranks(harness.Folder):
    def check_all_worlds(self, text):
        self.write("sweep.yaml", text)
        self.run_program("run", "sweep.yaml", "-o", "alone.h5")
        self.assertTrue((harness.statuses(self.folder / "alone.h5") == harness.DONE).all())
        for ranks in (1, 2, 3, 5, 7):
            with self.subTest(ranks=ranks):
                self.run_program("run", "sweep.yaml", "-o", f"{ranks}.h5", ranks=ranks)
                self.assert_same_results(self.folder / f"{ranks}.h5", self.folder / "alone.h5")

    def test_memorize_is_bit_identical_on_any_number_of_ranks(self):
        self.check_all_worlds(MEMORIZE)

    def test_probe_is_bit_identical_on_any_number_of_ranks(self):
        self.check_all_worlds(PROBE)

    def test_both_mpi_io_layers_write_the_same_file(self):
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml", "-o", "ompio.h5", ranks=3, OMPI_MCA_io="ompio")
        self.run_program("run", "sweep.yaml", "-o", "romio.h5", ranks=3, OMPI_MCA_io="^ompio")
        self.assert_same_results(self.folder / "romio.h5", self.folder / "ompio.h5")

    def test_more_ranks_than_points(self):
        self.write("one.yaml", "experiment: probe\nparameters: {heads: 2, dim: 4, context: 3, samples: 9}\n")
        self.run_program("run", "one.yaml", "-o", "alone.h5")
        self.run_program("run", "one.yaml", "-o", "five.h5", ranks=5)
        self.assert_same_results(self.folder / "five.h5", self.folder / "alone.h5")

    def test_a_larger_sample_count_extends_the_same_data(self):
        common = "experiment: probe\nparameters: {heads: 2, dim: 4, context: 3, samples: %d}\nstore: [data]\n"
        for samples in (10, 20):
            self.write(f"{samples}.yaml", common % samples)
            self.run_program("run", f"{samples}.yaml")
        for name in ("E", "e", "y"):
            few = harness.column(self.folder / "10.h5", f"stored/0/{name}")
            many = harness.column(self.folder / "20.h5", f"stored/0/{name}")
            self.assertTrue(harness.same_bits(few, many[:10]), name)

    def test_silent_serial_copies_are_refused(self):
        self.write("one.yaml", "experiment: probe\nparameters: {heads: 2, dim: 4, context: 3, samples: 9}\n")
        ended = self.run_program("run", "one.yaml", expect=2, PMI_SIZE="4", PMI_RANK="0")
        self.assertIn("4", ended.stderr)
        self.assertFalse((self.folder / "one.h5").exists())


if __name__ == "__main__":
    unittest.main()
