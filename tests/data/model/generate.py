"""Makes expected.h: what the C code of the model, the data and the experiments must reproduce.

    /usr/bin/python3 tests/data/model/generate.py > tests/data/model/expected.h

Everything is computed a second time here, from the definitions: Philox in integers, the model in numpy with einsum,
gradients by complex steps (exact to rounding, no backward pass), Adam and the schedule as torch documents them. Only
numpy is needed. No code is shared with the C program.
"""
import sys

import numpy as np

CONTEXT, QUERY, LABEL, W_Q, W_K, W_V, W_O, EMB, EMB_B, DEC, DEC_B, SHUFFLE = range(1, 13)
TARGET, SATURATE = 60, 61
MASK = 0xFFFFFFFF


# ---- random numbers ----

def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def check_philox():
    """Known answers: tests/kat_vectors of Random123."""
    full = [MASK] * 4
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(full, full[:2]) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox(pi, [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


class Random:
    def __init__(self, seed, replicate=0):
        self.seed, self.replicate = seed, replicate

    def word(self, stream, index):
        block = index // 2
        v = philox([block & MASK, block >> 32, stream, self.replicate], [self.seed & MASK, self.seed >> 32])
        return v[2 * (index % 2)] | v[2 * (index % 2) + 1] << 32

    def uniform(self, stream, *shape):
        count = int(np.prod(shape))
        return np.array([(self.word(stream, i) >> 11) / 2.0**53 for i in range(count)]).reshape(shape)

    def normal(self, stream, *shape):
        count = int(np.prod(shape))
        u = self.uniform(stream, count + count % 2).reshape(-1, 2)
        radius = np.sqrt(-2 * np.log(1 - u[:, 0]))
        both = np.stack([radius * np.cos(2 * np.pi * u[:, 1]), radius * np.sin(2 * np.pi * u[:, 1])], 1)
        return both.reshape(-1)[:count].reshape(shape)

    def below(self, stream, index, bound):
        return self.word(stream, index) * bound >> 64

    def permutation(self, stream, turn, count):
        out = list(range(count))
        for i in range(count, 1, -1):
            j = self.below(stream, turn * count + (count - i), i)
            out[i - 1], out[j] = out[j], out[i - 1]
        return out


# ---- the model ----

def softmax(a):
    p = np.exp(a - a.real.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def positions(rows, d):
    pe = np.zeros((rows, d))
    for i in range(rows):
        for j in range(d):
            angle = i / 10000.0 ** ((j - j % 2) / d)
            pe[i, j] = np.cos(angle) if j % 2 else np.sin(angle)
    return pe


def forward(p, E, e, scale):
    T, n, d = E.shape
    X = np.concatenate([e[:, None], E], 1) @ p["embedding"] + p["embedding_bias"] + positions(n + 1, d)
    q, K = X[:, 0], X[:, 1:]
    heads = []
    for h in range(len(p["W_Q"])):
        s = np.einsum("tnk,tk->tn", K @ p["W_K"][h], q @ p["W_Q"][h]) / np.sqrt(d) * scale
        heads.append(np.einsum("tn,tnv->tv", softmax(s), K @ p["W_V"][h]))
    return np.concatenate(heads, 1) @ p["W_O"] @ p["decoder"] + p["decoder_bias"]


def mean_loss(out, y, classes):
    """Cross-entropy of classes, the square of what one number is off by otherwise."""
    if not classes:
        return ((out[:, 0] - y) ** 2).mean()
    a = out - out.real.max(1, keepdims=True)
    return (np.log(np.exp(a).sum(1)) - a[np.arange(len(y)), y.astype(int)]).mean()


def loss(p, E, e, y, scale, classes):
    return mean_loss(forward(p, E, e, scale), y, classes)


def gradient(loss, p, *rest):
    """Of loss(p, *rest) by every array of p."""
    out = {}
    for name, value in p.items():
        g = np.zeros(value.size)
        for i in range(value.size):
            moved = value.astype(complex).reshape(-1)
            moved[i] += 1e-30j
            g[i] = loss({**p, name: moved.reshape(value.shape)}, *rest).imag / 1e-30
        out[name] = g.reshape(value.shape)
    return out


def initial(r, c):
    def spread(stream, bound, *shape):
        return (2 * r.uniform(stream, *shape) - 1) * bound
    d, H, k, v, o, C = c["d"], c["H"], c["d_h"], c["d_v"], c["d_o"], c["C"] or 1
    return {
        "embedding": spread(EMB, d**-0.5, d, d),
        "embedding_bias": spread(EMB_B, d**-0.5, d),
        "W_Q": spread(W_Q, (6 / (d + k)) ** 0.5, H, d, k),
        "W_K": spread(W_K, (6 / (d + k)) ** 0.5, H, d, k),
        "W_V": spread(W_V, (6 / (d + v)) ** 0.5, H, d, v),
        "W_O": spread(W_O, (6 / (H * v + o)) ** 0.5, H * v, o),
        "decoder": spread(DEC, o**-0.5, o, C),
        "decoder_bias": spread(DEC_B, o**-0.5, C),
    }


def data(r, c):
    draw = r.normal if c.get("gaussian") else r.uniform
    T, n, d, C = c["T"], c["n"], c["d"], c["C"]
    E = np.repeat(draw(CONTEXT, 1, n, d), T, 0) if c["shared"] else draw(CONTEXT, T, n, d)
    y = np.array([float(r.below(LABEL, t, C)) for t in range(T)]) if C else r.uniform(LABEL, T)
    return E, draw(QUERY, T, d), y


def schedule(lr, steps, warmup, start, end):
    """Learning rates of torch's SequentialLR([LinearLR, CosineAnnealingLR]), by its own recursions."""
    warm = int(steps * warmup)
    rates, now = [], lr * start if warm else lr
    for k in range(steps):
        if 0 < k < warm:
            now *= 1 + (1 - start) / (warm * start + (k - 1) * (1 - start))
        elif k == warm:
            now = lr
        elif k > warm:
            low, total, j = lr * end, steps - warm, k - warm
            now = low + (now - low) * (1 + np.cos(np.pi * j / total)) / (1 + np.cos(np.pi * (j - 1) / total))
        rates.append(now)
    return rates


def train(r, c, batch, steps, lr, warmup):
    """Losses and accuracies over all samples after each step."""
    p, (E, e, y) = initial(r, c), data(r, c)
    m = {k: np.zeros_like(v) for k, v in p.items()}
    s = {k: np.zeros_like(v) for k, v in p.items()}
    T, b1, b2, eps = c["T"], 0.9, 0.999, 1e-8
    per_epoch = -(-T // batch)
    losses, accuracies = [], []
    for k, rate in enumerate(schedule(lr, steps, warmup, 0.01, 0.0)):
        order = r.permutation(SHUFFLE, k // per_epoch, T)
        picks = order[k % per_epoch * batch:][:batch]
        g = gradient(loss, p, E[picks], e[picks], y[picks], c["scale"], c["C"])
        for name in p:
            m[name] = b1 * m[name] + (1 - b1) * g[name]
            s[name] = b2 * s[name] + (1 - b2) * g[name] ** 2
            top, bottom = m[name] / (1 - b1 ** (k + 1)), np.sqrt(s[name] / (1 - b2 ** (k + 1))) + eps
            p[name] = p[name] - rate * top / bottom
        losses.append(loss(p, E, e, y, c["scale"], c["C"]))
        accuracies.append((forward(p, E, e, c["scale"]).argmax(1) == y).mean() if c["C"] else np.nan)
    return losses, accuracies


# ---- the probe ----

def probe(r, c):
    E, e, y = data(r, c)
    d, H, k = c["d"], c["H"], c["d_h"]
    bound = (6 / (d + k)) ** 0.5
    WQ, WK = [(2 * r.uniform(s, H, d, k) - 1) * bound for s in (W_Q, W_K)]
    A = [softmax(np.einsum("tnd,td->tn", E, e @ WQ[h] @ WK[h].T) / np.sqrt(d) * c["scale"]) for h in range(H)]
    Z = np.concatenate([np.einsum("tn,tnd->td", a, E) for a in A], 1)
    Y = np.eye(c["C"])[y.astype(int)] if c["C"] else y[:, None]
    s = np.linalg.svd(Z, compute_uv=False)
    tol = max(Z.shape) * np.finfo(float).eps
    B = np.linalg.pinv(Z, rcond=tol) @ Y
    rank = int((s > tol * s[0]).sum())
    return dict(sigma=s, rank=rank, condition=s[0] / s[rank - 1],
                residual=np.linalg.norm(Z @ B - Y) / np.linalg.norm(Y), readout=np.linalg.norm(B),
                saturated=np.mean([(a.max(1) > 0.99).mean() for a in A]), z=Z[-1])


def construct(r, c, gain, peak):
    """W_h = W_K W_Q^T of every head, without the logits' scale, by the proof; numpy's solvers instead of LAPACK calls."""
    n, d, H = c["n"], c["d"], c["H"]
    own = min(n, c["d_h"], d)
    T = H * (own - 1) + 1
    E, e, _ = data(r, {**c, "T": T})
    noise, directions = r.normal(TARGET, T, n), r.normal(SATURATE, H, 2, d)
    W, low = [], 0
    for h in range(H):
        k = own - (h > 0)
        target = 0.1 * noise[low:low + k]
        target[np.arange(k), np.arange(k) % n] += peak
        V = np.stack([np.linalg.lstsq(E[low + i], target[i], rcond=None)[0] for i in range(k)], 1)
        G = e[low:low + k].T
        head = V @ np.linalg.pinv(G)
        if h:
            u, w = directions[h]
            w = w - G @ np.linalg.lstsq(G, w, rcond=None)[0]
            head = head + gain * np.outer(u / np.linalg.norm(u), w / np.linalg.norm(w))
        W.append(head)
        low += k
    return np.stack(W)


# ---- output ----

def array(name, values, kind="double", form="%.17g"):
    values = np.asarray(values, dtype=float if kind == "double" else object).reshape(-1)
    print("static const %s %s[%d] = {" % (kind, name, len(values)))
    print("    " + ", ".join("NAN" if v != v else form % v for v in values) + "};")


OWN = dict(T=5, n=3, d=5, H=2, d_h=3, d_v=2, d_o=4, C=3, shared=False, scale=1.5)
SHARED = dict(T=6, n=4, d=6, H=3, d_h=2, d_v=1, d_o=5, C=0, shared=True, scale=2.0, gaussian=True)
PROBE_OWN = dict(T=30, n=3, d=4, H=2, d_h=3, C=0, shared=False, scale=40.0, gaussian=True)
PROBE_SHARED = dict(T=30, n=3, d=5, H=3, d_h=2, C=4, shared=True, scale=1.0)


def main():
    check_philox()
    print("/* Made by generate.py beside this file, which says how. Not to be edited. */")
    print("/* clang-format off */")
    print("#ifndef MHASWEEP_TESTS_DATA_MODEL_EXPECTED_H\n#define MHASWEEP_TESTS_DATA_MODEL_EXPECTED_H\n")
    print("#include <math.h>\n#include <stdint.h>")
    r = Random(0x0123456789ABCDEF, 7)
    print("\n/* seed 0x0123456789abcdef, replicate 7 */")
    far = 2**40 + 3
    array("expected_words", [r.word(QUERY, i) for i in (0, 1, 2, 3, far, far + 1, far + 2)], "uint64_t", "0x%016xu")
    array("expected_uniform", r.uniform(CONTEXT, 5))
    array("expected_normal", r.normal(CONTEXT, 5))
    array("expected_below_10", [r.below(LABEL, i, 10) for i in range(12)], "int64_t", "%d")
    array("expected_permutation_3_of_9", r.permutation(SHUFFLE, 3, 9), "int64_t", "%d")
    for name, c in (("own", OWN), ("shared", SHARED)):
        r = Random(42, 1)
        p, (E, e, y) = initial(r, c), data(r, c)
        g = gradient(loss, p, E, e, y, c["scale"], c["C"])
        print("\n/* %s, seed 42, replicate 1: %s */" % (name, c))
        array("expected_%s_outputs" % name, forward(p, E, e, c["scale"]))
        array("expected_%s_loss" % name, [loss(p, E, e, y, c["scale"], c["C"])])
        print("/* of each array of the gradient: its norm, and the sum of its entries times 1, 2, 3 ... */")
        array("expected_%s_gradient_norm" % name, [np.linalg.norm(v) for v in g.values()])
        array("expected_%s_gradient_moment" % name, [(v.reshape(-1) * np.arange(1, v.size + 1)).sum() for v in g.values()])
        losses, accuracies = train(r, c, 2 if c["shared"] else 3, 12, 0.02, 0.25)
        print("/* after each of 12 steps, batch %d, lr 0.02, warmup 0.25 */" % (2 if c["shared"] else 3))
        array("expected_%s_curve_loss" % name, losses)
        array("expected_%s_curve_accuracy" % name, accuracies)
    print("\n/* lr 0.5, 40 steps, warmup 0.2, warmup_start 0.01, lr_end 0.1; then without warm-up, lr_end 0 */")
    array("expected_schedule", schedule(0.5, 40, 0.2, 0.01, 0.1))
    array("expected_schedule_cold", schedule(0.5, 8, 0.0, 0.01, 0.0))
    for name, c in (("own", PROBE_OWN), ("shared", PROBE_SHARED)):
        result = probe(Random(42, 1), c)
        print("\n/* probe, %s, seed 42, replicate 1: %s */" % (name, c))
        array("expected_probe_%s_sigma" % name, result["sigma"][:result["rank"]])
        array("expected_probe_%s_last_row" % name, result["z"])
        array("expected_probe_%s_facts" % name, [result[k] for k in ("condition", "residual", "readout", "saturated")])
    for name, c in (("own", PROBE_OWN), ("shared", PROBE_SHARED)):
        print("\n/* constructed, saturation gain 100, peak 3, seed 42, replicate 1: %s */" % c)
        array("expected_construct_%s" % name, construct(Random(42, 1), c, 100.0, 3.0))
    print("\n#endif")


if __name__ == "__main__":
    sys.exit(main())
