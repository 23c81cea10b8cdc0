"""In-context learning through the whole program: its numbers from stored weights with numpy alone, on any number of
ranks, and on a team."""
import itertools
import unittest

import h5py
import numpy as np

import harness

SWEEP = """
experiment: icl
seed: 5
store: [curves, weights, data]
parameters:
  model: [attention, static, modified]
  true_features: [2, 4]
  sampling: [fresh, pool]
  task: [standard, symmetric]
  activation: [sigmoid, tanh]
  teacher: random_network
  features: 3
  dim: 5
  neurons: 30
  tokens: 80
  test_tokens: 120
  finite_tokens: 7
  steps: 40
  step_size: 0.1
  perturb_every: 10
  perturb_gradient: 100
zip: [[sampling, task, activation]]
"""

DENSE = """
experiment: icl
parameters:
  features: 2
  dim: 4
  neurons: 120
  tokens: 60
  test_tokens: 60
  steps: 3
  step_size: 0.05
  dense_spectrum: true
store: [spectrum]
limits: {memory_per_rank: 5MiB}
"""


def close(test, got, expected, tolerance):
    test.assertTrue(np.allclose(got, expected, rtol=tolerance, atol=1e-14), (got, expected))


class FromStoredWeights(harness.Folder):
    def test_losses_spectra_and_rungs_are_those_of_numpy(self):
        self.write("icl.yaml", SWEEP)
        self.run_program("run", "icl.yaml")
        with h5py.File(self.folder / "icl.h5") as file:
            self.assertEqual(len(file["point"]), 12)
            for point in range(len(file["point"])):
                self.check_point(file, point)

    def check_point(self, file, point):
        result = {name: file[name][point] for name in file if isinstance(file[name], h5py.Dataset)}
        stored = {name: data[...] for name, data in file[f"stored/{point}"].items()}
        a, w, W, X, F = (stored[name] for name in ("a", "w", "W", "X", "F"))
        (N, k0), k = F.shape, a.shape[1]
        self.assertEqual(result["status"], harness.DONE)
        z = X @ w.T
        values = 1 / (1 + np.exp(-z)) if result["activation"] == 0 else np.tanh(z)
        h = values @ a / len(a)
        S, C, S0 = h.T @ h / N, F.T @ h / N, F.T @ F / N
        B = np.linalg.solve(S, C.T).T
        loss = 0.5 * ((F - h @ B.T)**2).sum() / N
        close(self, result["loss"], loss, 1e-9)
        close(self, result["loss_attention"], 0.5 * ((F - h @ W.T @ C.T)**2).sum() / N, 1e-8)
        close(self, result["condition"], np.linalg.cond(S), 1e-8)
        close(self, result["sigma_min_b"], np.linalg.svd(B)[1][-1], 1e-8)
        close(self, stored["S_eigenvalues"][-1], np.linalg.eigvalsh(S), 1e-8)
        close(self, stored["cross_singular_values"][-1], np.linalg.svd(C)[1], 1e-8)
        close(self, result["barron_norm"], (np.linalg.norm(a, axis=1) * np.linalg.norm(w, axis=1)).mean(), 1e-12)
        self.check_ladder(result, stored["eigenvalues"], S0, k, loss)
        n = 7
        A, T = C.T @ C, (h * (F**2).sum(1)[:, None]).T @ h / N
        Wn = np.linalg.solve((1 - 1 / n) * A + T / n, np.linalg.solve(S, A).T)
        close(self, result["loss_finite"], 0.5 * np.trace(S0) - 0.5 * np.trace(A @ Wn), 1e-8)

    def check_ladder(self, result, eigenvalues, S0, k, loss):
        k0 = len(S0)
        lam = np.linalg.eigvalsh(S0)
        close(self, eigenvalues, lam, 1e-10)
        rungs = sorted(0.5 * sum(lam[list(left_out)]) for size in range(max(k0 - k, 0), k0 + 1)
                       for left_out in itertools.combinations(range(k0), size))
        close(self, result["loss_floor"], rungs[0], 1e-10)
        close(self, result["lowest_rung"], rungs[1], 1e-10)
        close(self, result["nearest_rung"], min(rungs, key=lambda rung: abs(rung - loss)), 1e-10)
        self.assertGreaterEqual(result["loss"], result["loss_floor"])


class Everywhere(harness.Folder):
    def test_the_bits_do_not_depend_on_the_number_of_ranks(self):
        self.write("icl.yaml", SWEEP)
        self.run_program("run", "icl.yaml", "-o", "one.h5")
        self.run_program("run", "icl.yaml", "-o", "three.h5", ranks=3)
        self.assert_same_results(self.folder / "three.h5", self.folder / "one.h5")

    def test_a_team_finds_all_eigenvalues_where_one_rank_has_no_room(self):
        self.write("dense.yaml", DENSE)
        self.run_program("run", "dense.yaml", ranks=3)
        with h5py.File(self.folder / "dense.h5") as file:
            self.assertGreater(file["ranks"][0], 1)
            spectrum = file["spectrum"][0]
            self.assertEqual(len(spectrum), 120 * 6)
            self.assertTrue((np.diff(spectrum) <= 0).all())
            close(self, file["lambda_min"][0], spectrum[-1], 1e-3)
            close(self, file["lambda_min_dense"][0], spectrum[-1], 1e-15)


if __name__ == "__main__":
    unittest.main()
