"""Makes variants.h: what the C code of linear, hard, talking-heads and composed attention must reproduce.

    /usr/bin/python3 tests/data/model/generate_variants.py > tests/data/model/variants.h

As generate.py beside it, from which random numbers, data and losses come: the formulas once more, in numpy, on an
(n, H) block of logits of one query at a time; gradients by complex steps.
"""
import sys

import numpy as np

from generate import (Random, array, check_philox, data, gradient, initial, mean_loss, positions, W_K, W_Q)

COMPOSE = 96  # the first of 14 streams
BASE, QUERY, KEY = 1, 2, 4
STAGES = ("pre", "post")


def compose_arrays(r, c):
    """The 14 arrays (those that are in use), with the initial values of the authors' code times c["compose_scale"]."""
    d, H, R, scale = c["d"], c["H"], c["R"], c["compose_scale"]
    width = 2 * R * H
    out = {}
    for s, stage in enumerate(STAGES):
        at, branches = COMPOSE + 7 * s, c[stage]
        if branches & BASE:
            out[stage + "_base"] = 0.1 * scale / H**0.5 * r.normal(at, H, H)
        for k, (name, branch) in enumerate((("query", QUERY), ("key", KEY))):
            if branches & branch:
                first = at + 1 + 3 * k
                out["%s_%s_in" % (stage, name)] = (2 / (d + width)) ** 0.5 * r.normal(first, d, width)
                out["%s_%s_out" % (stage, name)] = (
                    0.02 * scale / (width**0.5 * (H + R)) * r.normal(first + 1, width, 2 * R, H))
                out["%s_%s_gate" % (stage, name)] = 0.005 * scale * (2 / (d + H)) ** 0.5 * r.normal(first + 2, d, H)
    return out


def gelu(z):
    return 0.5 * z * (1 + np.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3)))


def generated(p, prefix, x):
    """H x H matrix of one branch for one input: low rank plus diagonal."""
    w = np.einsum("i,irh->rh", gelu(x @ p[prefix + "_in"]), p[prefix + "_out"])
    first, second = np.split(w, 2)
    first = first / np.sqrt((first**2).mean(1, keepdims=True) + 1e-6)
    return first.T @ second + np.diag(np.tanh(x @ p[prefix + "_gate"]))


def compose(p, stage, branches, A, query, rows):
    """A (n, H): row j times I + B + (what the query says) + (what context row j says)."""
    H = A.shape[1]
    out = []
    for j in range(len(A)):
        M = np.eye(H, dtype=A.dtype)
        if branches & BASE:
            M = M + p[stage + "_base"]
        if branches & QUERY:
            M = M + generated(p, stage + "_query", query)
        if branches & KEY:
            M = M + generated(p, stage + "_key", rows[j])
        out.append(A[j] @ M)
    return np.array(out)


def weigh(kind, S):
    n = len(S)
    if kind == "linear":
        return S / n
    if kind == "hard":
        return np.eye(n)[S.real.argmax(0)].T
    E = np.exp(S - S.real.max(0))
    return E / E.sum(0)


def attention(p, c, query, rows, scale):
    """theta (n, H) for one query and its context rows, as the attention sees both."""
    S = np.stack([rows @ (k @ (q.T @ query)) for q, k in zip(p["W_Q"], p["W_K"])], 1) / len(query) ** 0.5 * scale
    S = compose(p, "pre", c["pre"], S, query, rows) if c["pre"] else S
    A = weigh(c["kind"], S)
    return compose(p, "post", c["post"], A, query, rows) if c["post"] else A


def forward(p, c, E, e):
    out = []
    for Et, et in zip(E, e):
        X = np.concatenate([et[None], Et]) @ p["embedding"] + p["embedding_bias"] + positions(len(Et) + 1, len(et))
        A = attention(p, c, X[0], X[1:], c["scale"])
        heads = [A[:, h] @ X[1:] @ p["W_V"][h] for h in range(c["H"])]
        out.append(np.concatenate(heads) @ p["W_O"] @ p["decoder"] + p["decoder_bias"])
    return np.array(out)


def loss(p, c, E, e, y):
    return mean_loss(forward(p, c, E, e), y, c["C"])


def features(r, c):
    """Z of the probe: e and E themselves are what composing sees."""
    E, e, _ = data(r, c)
    d, H, k = c["d"], c["H"], c["d_h"]
    bound = (6 / (d + k)) ** 0.5
    p = {name: (2 * r.uniform(s, H, d, k) - 1) * bound for name, s in (("W_Q", W_Q), ("W_K", W_K))}
    p.update(compose_arrays(r, c))
    return np.array([(Et.T @ attention(p, c, et, Et, c["scale"])).T.ravel() for Et, et in zip(E, e)])


SIZE = dict(T=4, n=3, d=5, H=3, d_h=2, d_v=2, d_o=4, R=2, scale=2.0, compose_scale=100.0)
CASES = dict(
    linear=dict(SIZE, C=3, shared=False, kind="linear", pre=0, post=0),
    hard=dict(SIZE, C=0, shared=True, kind="hard", pre=0, post=0, gaussian=True),
    talking=dict(SIZE, C=3, shared=True, kind="softmax", pre=BASE, post=BASE, compose_scale=3.0),
    all_own=dict(SIZE, C=3, shared=False, kind="softmax", pre=7, post=7, gaussian=True),
    mixed_shared=dict(SIZE, C=0, shared=True, kind="softmax", pre=QUERY, post=KEY, R=1),
    mixed_own=dict(SIZE, C=0, shared=False, kind="softmax", pre=BASE | KEY, post=QUERY, R=3),
)


def main():
    check_philox()
    print("/* Made by generate_variants.py beside this file, which says how. Not to be edited. */")
    print("/* clang-format off */")
    print("#ifndef MHASWEEP_TESTS_DATA_MODEL_VARIANTS_H\n#define MHASWEEP_TESTS_DATA_MODEL_VARIANTS_H\n")
    print("#include <math.h>")
    for name, c in CASES.items():
        r = Random(42, 1)
        p = {**initial(r, c), **compose_arrays(r, c)}
        E, e, y = data(r, c)
        g = gradient(loss, p, c, E, e, y)
        print("\n/* %s, seed 42, replicate 1: %s */" % (name, c))
        array("variant_%s_outputs" % name, forward(p, c, E, e))
        array("variant_%s_loss" % name, [loss(p, c, E, e, y)])
        print("/* of each array of the gradient that is not empty: its norm, and the sum of its entries times 1, 2, ... */")
        array("variant_%s_gradient_norm" % name, [np.linalg.norm(v) for v in g.values()])
        array("variant_%s_gradient_moment" % name,
              [(v.reshape(-1) * np.arange(1, v.size + 1)).sum() for v in g.values()])
        array("variant_%s_features" % name, features(r, c))
    print("\n#endif")


if __name__ == "__main__":
    sys.exit(main())
