"""Trainings of optimize, computed once more from stored weights and data with numpy alone; teams; resuming."""
import json
import signal
import unittest

import h5py
import numpy as np

import harness

SWEEP = """
experiment: optimize
seed: 12
store: [curves, weights, data, attention]
parameters:
  heads: [1, 3]
  tokens: 6
  dim: 7
  key_dim: [0, 4]
  samples: 14
  test_samples: 11
  relevant: 0.3
  label_noise: 0.1
  data: [dm1, planted]
  init: [zero, one_step, gaussian]
  step_rule: [constant, sqrt_heads, normalised, polyak]
  step_size: 0.4
  steps: 30
  log_every: 10
  eigenvalues: end
  theory: ends
sample: {method: random, count: 24}
"""

# A point for one rank, and one that needs several.
WIDE = """
experiment: optimize
parameters:
  heads: [2, 24]
  dim: 24
  samples: 12
  test_samples: 5
  init: gaussian
  steps: 10
  eigenvalues: end
  stability_samples: 2
"""

LONG = """
experiment: optimize
parameters: {heads: 16, samples: [100, 110, 120, 130, 140, 150, 160, 170], init: gaussian, steps: 1000, dim: 12}
"""


def softmax(a):
    p = np.exp(a - a.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


class Model:
    def __init__(self, group, suffix):
        self.U = group["U" + suffix][:]
        self.keys = "W_Q" + suffix in group
        names = ("W_Q", "W_K") if self.keys else ("W",)
        self.Ws = [group[name + suffix][:] for name in names]

    def W(self):
        if not self.keys:
            return self.Ws[0]
        return self.Ws[0] @ self.Ws[1].transpose(0, 2, 1) / np.sqrt(self.Ws[0].shape[2])

    def attention(self, X):
        P = np.einsum("itd,hde->ihte", X, self.W())
        return softmax(np.einsum("ihte,ise->ihts", P, X))

    def outputs(self, X):
        Y = np.einsum("ihts,isd->ihtd", self.attention(X), X)
        return np.einsum("ihtd,htd->i", Y, self.U) / np.sqrt(len(self.U))

    def gradient(self, X, y):
        A = self.attention(X)
        G = np.einsum("htd,isd->ihts", self.U, X)
        M = A * (G - (A * G).sum(-1, keepdims=True))
        c = -y / (1 + np.exp(y * self.outputs(X))) / len(y) / np.sqrt(len(self.U))
        N = np.einsum("ihts,ise->ihte", M, X)
        dW = np.einsum("itd,ihte->hde", c[:, None, None] * X, N)
        if self.keys:
            root = np.sqrt(self.Ws[0].shape[2])
            dW = [dW @ self.Ws[1] / root, dW.transpose(0, 2, 1) @ self.Ws[0] / root]
        else:
            dW = [dW]
        return [np.einsum("ihts,isd->htd", c[:, None, None, None] * A, X)] + dW

    def step(self, X, y, rule, eta):
        gradient = self.gradient(X, y)
        norm = np.sqrt(sum((g**2).sum() for g in gradient))
        length = {"constant": eta, "sqrt_heads": eta * np.sqrt(len(self.U)), "normalised": eta / norm,
                  "polyak": eta * loss(self.outputs(X), y) / norm**2}[rule]
        self.U = self.U - length * gradient[0]
        self.Ws = [w - length * g for w, g in zip(self.Ws, gradient[1:])]

    def flat(self):
        return np.concatenate([self.U.ravel()] + [w.ravel() for w in self.Ws])

    def hessian(self, X, y):
        """By central differences of the gradient, column by column."""
        h, columns = 1e-5, []
        for arrays in [[self.U]] + [[w] for w in self.Ws]:
            array = arrays[0]
            for place in np.ndindex(array.shape):
                at, sides = array[place], []
                for shift in (h, -h):
                    array[place] = at + shift
                    sides.append(np.concatenate([g.ravel() for g in self.gradient(X, y)]))
                array[place] = at
                columns.append((sides[0] - sides[1]) / (2 * h))
        return np.array(columns)


def loss(Phi, y):
    return np.logaddexp(0, -y * Phi).mean()


class Optimize(harness.Folder):
    def test_trainings_agree_with_numpy(self):
        self.write("sweep.yaml", SWEEP)
        self.run_program("run", "sweep.yaml", ranks=3)
        with h5py.File(self.folder / "sweep.h5", "r") as file:
            self.assertTrue((file["status"][:] == harness.DONE).all())
            rules = file["step_rule"].attrs["flag_meanings"]
            rules = (rules.decode() if isinstance(rules, bytes) else rules).split()
            for i in range(len(file["status"])):
                with self.subTest(point=i):
                    self.check_point(file, i, rules[file["step_rule"][i]])

    def check_point(self, file, i, rule):
        def close(name, value, tolerance=1e-10):
            self.assertLess(abs(file[name][i] - value), tolerance * max(1, abs(value)), name)

        stored = file[f"stored/{i}"]
        X, y = stored["X"][:], stored["y"][:]
        start, end = Model(stored, "_0"), Model(stored, "")
        close("output_at_init", np.abs(start.outputs(X)).max())
        close("distance", np.linalg.norm(end.flat() - start.flat()))
        close("train_loss", loss(end.outputs(X), y))
        close("test_loss", loss(end.outputs(stored["X_test"][:]), stored["y_test"][:]))
        close("train_error", (y * end.outputs(X) <= 0).mean())
        close("gradient_norm", np.sqrt(sum((g**2).sum() for g in end.gradient(X, y))))
        self.assertLess(np.abs(end.attention(X) - stored["attention"][:]).max(), 1e-12)
        if "relevant" in stored:
            mass = np.einsum("ihts,is->iht", end.attention(X), stored["relevant"][:]).mean()
            close("attention_mass", mass)
        if i % 6 == 0:
            values = np.linalg.eigvalsh((lambda H: (H + H.T) / 2)(end.hessian(X, y)))
            close("lambda_min", values[0], 1e-6)
            close("lambda_max", values[-1], 1e-6)
        for _ in range(file["steps"][i]):
            start.step(X, y, rule, file["step_size"][i])
        strayed = np.linalg.norm(start.flat() - end.flat()) / np.linalg.norm(end.flat())
        self.assertLess(strayed, 1e-7)

    def test_teams_split_heads_and_give_the_same_bits_in_every_world(self):
        self.write("wide.yaml", WIDE)
        self.run_program("run", "wide.yaml", "-o", "alone.h5", ranks=2)
        bytes_most = json.loads(self.run_program("plan", "wide.yaml", "--json").stdout)["bytes_most"]
        most = ("--set", f"limits.memory_per_rank={int(0.6 * bytes_most)}")
        self.run_program("run", "wide.yaml", "-o", "three.h5", *most, ranks=3)
        self.run_program("run", "wide.yaml", "-o", "four.h5", *most, ranks=4)
        self.assert_same_results(self.folder / "three.h5", self.folder / "four.h5")
        with h5py.File(self.folder / "four.h5", "r") as team, h5py.File(self.folder / "alone.h5", "r") as alone:
            self.assertEqual(team["ranks"][0], 1)
            self.assertGreater(team["ranks"][1], 1)
            for name in ("train_loss", "test_loss", "lambda_min", "lambda_max", "stability", "margin", "distance"):
                np.testing.assert_allclose(team[name][:], alone[name][:], rtol=1e-7, err_msg=name)

    def test_a_stopped_sweep_goes_on_to_the_same_bits(self):
        self.write("long.yaml", LONG)
        self.run_program("run", "long.yaml", "-o", "whole.h5", ranks=3)
        process = self.start_program("run", "long.yaml", "-o", "parts.h5", ranks=3)
        self.wait_for_done(self.folder / "parts.h5", 1, process)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=60), 75, self.words_of(process))
        self.run_program("run", "long.yaml", "-o", "parts.h5", "--resume", ranks=2)
        self.assert_same_results(self.folder / "parts.h5", self.folder / "whole.h5")

    def test_steps_that_are_too_long_fail_and_leave_no_number(self):
        self.write("sweep.yaml", "experiment: optimize\nparameters: {step_size: [1.0, 1.0e+12], steps: 20}\n")
        self.run_program("run", "sweep.yaml", expect=3)
        with h5py.File(self.folder / "sweep.h5", "r") as file:
            self.assertEqual(list(file["status"][:]), [harness.DONE, harness.FAILED])
            self.assertIn(b"diverged at step 1:", bytes(file["error"][1]))
            self.assertTrue(np.isnan(file["train_loss"][1]))
            self.assertTrue(np.isfinite(file["curve_train_loss"][0]).any())
            self.assertFalse(np.isfinite(file["curve_train_loss"][1]).any())


if __name__ == "__main__":
    unittest.main()
