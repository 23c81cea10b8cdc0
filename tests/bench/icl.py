"""Ours beside PyTorch, for icl.sh: icl.py BENCH_ICL FOLDER."""

import json
import os
import subprocess
import sys
import time

import numpy

try:
    import torch
except ImportError:
    torch = None

PROGRAM, FOLDER = sys.argv[1:3]
STEPS = 20  # compared
TURNS = 5  # ours and PyTorch take turns, so that a noisy minute does not fall on one of them alone
SHAPES = [(1000, 500, 20, 5), (1000, 100, 8, 3)]  # tokens, neurons, dim, features


def ours(kind, shape, folder=None):
    words = [PROGRAM, kind, *map(str, shape), str(STEPS)] + ([folder] if folder else [])
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def read(name, shape, kind):
    x = numpy.fromfile(os.path.join(FOLDER, name)).reshape(shape)
    return torch.from_numpy(x).to(kind)


def loss_of(h, F):
    N = len(h)
    S, C = h.T @ h / N, F.T @ h / N
    B = torch.linalg.solve(S, C.T).T
    return S, B, F - h @ B.T


class Trainer:
    """Steps of size 1 in the velocity convention: M times the plain gradient."""

    def __init__(self, shape, kind):
        N, M, d, k = shape
        self.X, self.F = read("X", (N, d), kind), read("F", (N, k), kind)
        self.a, self.w = read("a", (M, k), kind), read("w", (M, d), kind)
        self.N, self.M = N, M


class Autograd(Trainer):
    name = "autograd"

    def step(self):
        a, w = self.a.requires_grad_(), self.w.requires_grad_()
        _, _, zeta = loss_of(torch.sigmoid(self.X @ w.T) @ a / self.M, self.F)
        loss = 0.5 * (zeta**2).sum() / self.N
        g_a, g_w = torch.autograd.grad(loss, (a, w))
        with torch.no_grad():
            self.a, self.w = a - self.M * g_a, w - self.M * g_w
        return loss.item()


class ByHand(Trainer):
    name = "by hand"

    @torch.no_grad()
    def step(self):
        s = torch.sigmoid(self.X @ self.w.T)
        _, B, zeta = loss_of(s @ self.a / self.M, self.F)
        q = zeta @ B / -self.N
        d = (q @ self.a.T).mul_(s).mul_(1 - s)
        g_a, g_w = s.T @ q, d.T @ self.X
        self.a.sub_(g_a)
        self.w.sub_(g_w)
        return 0.5 * (zeta**2).sum().item() / self.N


def best_ms(take, rounds=4, steps=10):
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(steps):
            take()
        best = min(best, (time.process_time() - start) / steps)
    return 1e3 * best


def compare(shape, name):
    kind = getattr(torch, name)
    mine = ours(name, shape, FOLDER)
    losses = numpy.fromfile(os.path.join(FOLDER, "losses"))
    peers = []
    for maker in (Autograd, ByHand):
        trainer = maker(shape, kind)
        theirs = [trainer.step() for _ in range(STEPS)]
        limit = 1e-8 if name == "float64" else 2e-2
        assert numpy.allclose(losses, theirs, rtol=limit, atol=0), (maker.name, losses - theirs)
        peers.append([maker.name, float("inf"), trainer])
    ms = mine["ms"]
    for _ in range(TURNS):
        ms = min(ms, ours(name, shape)["ms"])
        for peer in peers:
            peer[1] = min(peer[1], best_ms(peer[2].step))
    ratios = "  ".join(f"PyTorch {p} {t:6.2f} ms = {t / ms:4.1f} x ours" for p, t, _ in peers)
    print(f"{' '.join(map(str, shape)):>16}  {name}  ours {ms:5.2f} ms  {ratios}", flush=True)


def main():
    if torch is None:
        for shape in SHAPES:
            for name in ("float64", "float32"):
                print(shape, name, ours(name, shape))
        return
    torch.set_num_threads(1)
    print(f"CPU time of a step, one core, OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE')}, "
          f"PyTorch {torch.__version__}; N M d k:")
    for shape in SHAPES:
        for name in ("float64", "float32"):
            compare(shape, name)


if __name__ == "__main__":
    main()
