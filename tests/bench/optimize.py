"""Ours beside PyTorch, for optimize.sh: optimize.py BENCH_OPTIMIZE FOLDER."""

import json
import math
import os
import subprocess
import sys
import time

import numpy
import torch

PROGRAM, FOLDER = sys.argv[1:3]
TURNS = 4
# heads, tokens, dim, samples
SHAPES = [(32, 10, 20, 1000), (1, 10, 20, 1000), (8, 10, 20, 100), (64, 10, 50, 100), (8, 32, 64, 200)]


def ours(shape):
    words = [PROGRAM, *map(str, shape), FOLDER]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def read(name, *shape):
    return torch.from_numpy(numpy.fromfile(os.path.join(FOLDER, name)).reshape(shape))


def einsum(X, U, W):
    A = torch.einsum("itd,hde,ise->ihts", X, W, X).softmax(-1)
    return torch.einsum("htd,ihts,isd->i", U, A, X) / math.sqrt(len(U))


def matmul(X, U, W):
    A = (X[:, None] @ W @ X[:, None].transpose(2, 3)).softmax(-1)
    return ((A @ X[:, None]) * U).sum((1, 2, 3)) / math.sqrt(len(U))


def loss_of(model, X, y, U, W):
    return torch.nn.functional.softplus(-y * model(X, U, W)).mean()


class Peer:
    def __init__(self, model, shape):
        H, T, d, n = shape
        self.model = model
        self.X, self.y = read("X", n, T, d), read("y", n)
        self.weights = [read("U", H, T, d).requires_grad_(), read("W", H, d, d).requires_grad_()]
        self.directions = [read("VU", H, T, d), read("VW", H, d, d)]

    def gradient(self):
        return torch.autograd.grad(loss_of(self.model, self.X, self.y, *self.weights), self.weights)

    def iterate(self):
        gradient = self.gradient()
        with torch.no_grad():
            for weight, slope in zip(self.weights, gradient):
                weight -= 1e-300 * slope

    def product(self):
        gradient = torch.autograd.grad(
            loss_of(self.model, self.X, self.y, *self.weights), self.weights, create_graph=True
        )
        slope = sum((g * v).sum() for g, v in zip(gradient, self.directions))
        return torch.autograd.grad(slope, self.weights)


def flat(arrays):
    return torch.cat([a.detach().flatten() for a in arrays])


def strayed(mine, theirs):
    return float((mine - theirs).norm() / theirs.norm())


def timed(call):
    start, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - start < 0.2:
        call()
        calls += 1
    return (time.process_time() - start) / calls


def compare(peers, numbers):
    gradient, product = read("gradient", numbers), read("product", numbers)
    for name, peer in peers.items():
        worst = strayed(gradient, flat(peer.gradient())), strayed(product, flat(peer.product()))
        if not (worst[0] < 1e-12 and worst[1] < 1e-10):
            sys.exit(f"PyTorch's {name} has another gradient or product: off by {worst[0]:.1e} and {worst[1]:.1e}")
    return worst


def row(shape):
    best = ours(shape)
    H, T, d, n = shape
    peers = {"einsum": Peer(einsum, shape), "matmul": Peer(matmul, shape)}
    worst = compare(peers, H * (T * d + d * d))
    times = {}
    for _ in range(TURNS):
        again = ours(shape)
        for key in ("iteration", "product"):
            best[key] = min(best[key], again[key])
        best["peak"] = max(best["peak"], again["peak"])
        for name, peer in peers.items():
            for what, call in (("iteration", peer.iterate), ("product", peer.product)):
                times[name, what] = min(times.get((name, what), math.inf), timed(call))
    print(f"\nheads {H}, tokens {T}, dim {d}, samples {n} (gradients within {worst[0]:.0e}, products {worst[1]:.0e})")
    for what, flops in (("iteration", best["flops"]), ("product", best["product_flops"])):
        rate = flops / best[what]
        print(
            f"  {what:<10} ours {1e3 * best[what]:9.3f} ms: {1e-6 * flops:.1f} Mflop, {1e-9 * rate:.1f} GF/s, "
            f"{100 * rate / best['peak']:.0f} % of dgemm's {1e-9 * best['peak']:.0f} GF/s ({best['blas']})"
        )
        for name in peers:
            took = times[name, what]
            print(f"             PyTorch, {name} {1e3 * took:9.3f} ms {took / best[what]:8.1f} times ours", flush=True)
    peak = best["flops"] / best["peak"]
    print(f"  at dgemm's peak, all operations of an iteration would take {1e3 * peak:.3f} ms", flush=True)


torch.set_num_threads(1)
print(f"PyTorch {torch.__version__}, numpy {numpy.__version__}, OPENBLAS_CORETYPE {os.environ.get('OPENBLAS_CORETYPE')}")
for shape in SHAPES:
    row(shape)
