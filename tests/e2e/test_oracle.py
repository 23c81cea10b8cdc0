"""The attention of a result file, computed once more from its stored weights and data with numpy alone."""
import unittest

import h5py
import numpy as np

import harness

VARIANTS = """
  attention: [softmax, linear, hard, talking_heads, dcmha, dcmha, dcmha]
  compose_pre: [none, none, none, none, all, query, key]
  compose_post: [none, none, none, none, all, key, base_query]
zip: [[attention, compose_pre, compose_post]]
"""

MEMORIZE = """
experiment: memorize
store: [weights, data, attention]
parameters:
  dim: 12
  heads: 5
  key_dim: 7
  value_dim: 2
  context: 6
  samples: 60
  classes: 9
  batch: 16
  steps: 80
  eval_every: 40
  lr: 0.01
  logit_scale: 2.0
  compose_scale: 30
  attention_samples: 60
  context_type: [own, shared]
  labels: [classes, regression]
""" + VARIANTS

PROBE = """
experiment: probe
store: [weights, data, z, attention]
parameters:
  dim: 9
  heads: 4
  key_dim: 3
  context: 5
  samples: 40
  logit_scale: 3.0
  compose_scale: 30
  compose_rank: 3
  attention_samples: 40
  context_type: [own, shared]
""" + VARIANTS


def softmax(a, axis):
    p = np.exp(a - a.max(axis, keepdims=True))
    return p / p.sum(axis, keepdims=True)


def gelu(z):
    return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def mixing(w, prefix, x):
    """(..., H, H): low rank and diagonal, for inputs x (..., d); nothing if the file has no such branch."""
    if prefix + "_in" not in w:
        return 0.0
    first, second = np.split(np.einsum("...i,irh->...rh", gelu(x @ w[prefix + "_in"]), w[prefix + "_out"]), 2, axis=-2)
    first = first / np.sqrt((first**2).mean(-1, keepdims=True) + 1e-6)
    gate = np.tanh(x @ w[prefix + "_gate"])
    return np.einsum("...rh,...rg->...hg", first, second) + gate[..., None] * np.eye(gate.shape[-1])


def compose(w, stage, a, query, rows):
    """a (T, n, H) of queries (T, d) on rows (T, n, d)."""
    base = np.eye(a.shape[-1]) + w.get(stage + "_base", 0.0)
    by_query = np.asarray(mixing(w, stage + "_query", query))
    by_query = by_query[:, None] if by_query.ndim else by_query
    return np.einsum("tnh,tnhg->tng", a, np.broadcast_to(base + by_query + mixing(w, stage + "_key", rows),
                                                         a.shape + a.shape[-1:]))


def attention(w, kind, query, rows, scale):
    """Weights (T, H, n) on the context rows."""
    T, n, d = rows.shape
    s = np.einsum("tnd,hdk,hek,te->tnh", rows, w["W_K"], w["W_Q"], query, optimize=True) * scale / np.sqrt(d)
    s = compose(w, "pre", s, query, rows)
    if kind == "linear":
        p = s / n
    elif kind == "hard":
        p = (np.arange(n)[:, None] == s.argmax(1)[:, None, :]).astype(float)
    else:
        p = softmax(s, 1)
    return compose(w, "post", p, query, rows).transpose(0, 2, 1)


def positions(count, d):
    angle = np.arange(count)[:, None] / 10000.0 ** ((np.arange(d) // 2 * 2) / d)
    return np.where(np.arange(d) % 2, np.cos(angle), np.sin(angle))


def model(w, kind, E, e, scale):
    """Weights on the context rows and outputs of the trained model."""
    d = e.shape[1]
    place = positions(E.shape[1] + 1, d)
    embed = lambda x: x @ w["embedding"] + w["embedding_bias"]
    query, rows = embed(e) + place[0], embed(E) + place[1:]
    theta = attention(w, kind, query, rows, scale)
    values = np.einsum("thn,tnd,hdv->thv", theta, rows, w["W_V"])
    return theta, values.reshape(len(e), -1) @ w["W_O"] @ w["decoder"] + w["decoder_bias"]


def points(path):
    """Of each point: its columns, the word of its attention, and its stored arrays, contexts one per sample."""
    with h5py.File(path) as file:
        words = file["attention"].attrs["flag_meanings"].split()
        for i in range(file["point"].size):
            arrays = {name: item[:] for name, item in file[f"stored/{i}"].items()}
            T = len(arrays["e"])
            E = arrays["E"] if arrays["E"].ndim == 3 else np.broadcast_to(arrays["E"], (T,) + arrays["E"].shape)
            columns = [name for name in file if name != "stored" and file[name].shape == file["point"].shape]
            row = {name: file[name][i] for name in columns}
            yield row, words[row["attention"]], E, arrays


class Oracle(harness.Folder):
    def run_sweep(self, text):
        self.write("sweep.yaml", text)
        self.run_program("run", "sweep.yaml", ranks=3)
        return self.folder / "sweep.h5"

    def test_the_trained_model_is_that_of_the_formulas(self):
        seen = 0
        for row, kind, E, w in points(self.run_sweep(MEMORIZE)):
            with self.subTest(attention=kind, labels=row["labels"], shared=row["context_type"], point=row["point"]):
                theta, out = model(w, kind, E, w["e"], row["logit_scale"])
                np.testing.assert_allclose(w["attention"], theta, rtol=0, atol=3e-5 * abs(theta).max())
                if row["labels"] == 0:
                    y = w["y"].astype(int)
                    a = out - out.max(1, keepdims=True)
                    loss = (np.log(np.exp(a).sum(1)) - a[np.arange(len(y)), y]).mean()
                    self.assertEqual(row["accuracy"], (out.argmax(1) == y).mean())
                else:
                    loss = ((out[:, 0] - w["y"]) ** 2).mean()
                np.testing.assert_allclose(row["loss"], loss, rtol=1e-4)
                self.assertEqual(row["parameters"], sum(
                    w[name].size for name in w if name not in ("E", "e", "y", "attention")))
                seen += 1
        self.assertEqual(seen, 28)

    def test_the_probe_is_that_of_the_formulas(self):
        seen = 0
        for row, kind, E, w in points(self.run_sweep(PROBE)):
            with self.subTest(attention=kind, shared=row["context_type"], point=row["point"]):
                theta = attention(w, kind, w["e"], E, row["logit_scale"])
                Z = np.einsum("thn,tnd->thd", theta, E).reshape(len(E), -1)
                np.testing.assert_allclose(w["attention"], theta, rtol=1e-11, atol=1e-11)
                np.testing.assert_allclose(w["Z"], Z, rtol=1e-11, atol=1e-11)
                seen += 1
        self.assertEqual(seen, 14)

    def test_composing_at_scale_zero_is_softmax_to_the_bit(self):
        text = PROBE.replace(VARIANTS, "\n  attention: [softmax, dcmha]\n  compose_pre: all\n  compose_post: all\n")
        found = list(points(self.run_sweep(text.replace("compose_scale: 30", "compose_scale: 0"))))
        self.assertEqual(len(found), 4)
        for shared in (0, 1):
            plain, composed = [w["Z"] for row, _, _, w in found if row["context_type"] == shared]
            self.assertEqual(plain.tobytes(), composed.tobytes())


if __name__ == "__main__":
    unittest.main()
