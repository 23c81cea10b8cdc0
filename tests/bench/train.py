"""Ours beside PyTorch, for train.sh: train.py BENCH_TRAIN FOLDER."""

import json
import math
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
QUICK = os.environ.get("QUICK") == "1"
STEPS = 50  # compared
MODELS = 32  # at once
# contexts, heads, dim, key_dim, context, batch, classes
SHAPES = [
    ("own", 20, 64, 64, 32, 256, 100),
    ("shared", 20, 64, 64, 32, 256, 100),
    ("own", 60, 64, 64, 32, 256, 100),
    ("own", 20, 64, 10, 32, 256, 100),
    ("shared", 30, 64, 10, 32, 256, 100),
    ("own", 20, 64, 64, 60, 256, 100),
    ("own", 2, 16, 16, 8, 4, 10),
]
PARAMETERS = ["embedding", "embedding_bias", "W_Q", "W_K", "W_V", "W_O", "decoder", "decoder_bias"]


def ours(shape, suffix="", folder=None):
    words = [PROGRAM, shape[0] + suffix, *map(str, shape[1:]), str(STEPS)] + ([folder] if folder else [])
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


class Inputs:
    """What bench_train wrote: samples, initial parameters, our losses."""

    def __init__(self, shape):
        kind, H, d, d_h, n, self.batch, C = shape
        sizes = [(d, d), (d,), (H, d, d_h), (H, d, d_h), (H, d, 1), (H, d), (d, C), (C,)]
        contexts = self.read("contexts", numpy.float32).reshape(-1, n, d)
        self.queries = self.read("queries", numpy.float32).reshape(-1, d)
        self.contexts = contexts[0] if kind == "shared" else contexts
        self.labels = self.read("labels", numpy.int64)
        self.losses = self.read("losses", numpy.float64)
        self.parameters = [self.read(name, numpy.float32).reshape(s) for name, s in zip(PARAMETERS, sizes)]
        self.positions = self.position_rows(n + 1, d)

    @staticmethod
    def read(name, kind):
        return torch.from_numpy(numpy.fromfile(os.path.join(FOLDER, name), kind))

    @staticmethod
    def position_rows(rows, d):
        angle = numpy.arange(rows)[:, None] * numpy.exp(numpy.arange(0, d, 2) * (-math.log(10000.0) / d))
        out = numpy.zeros((rows, d))
        out[:, 0::2], out[:, 1::2] = numpy.sin(angle), numpy.cos(angle)
        return torch.from_numpy(out)

    def picked(self, step, kind):
        at = step % 8 * self.batch
        rows = slice(at, at + self.batch)
        E = self.contexts if self.contexts.dim() == 2 else self.contexts[rows]
        return E.to(kind), self.queries[rows].to(kind), self.labels[rows]


# ---- the model, in three orders; E (B, n, d) or (n, d) if shared, e (B, d), P (n + 1, d) ----


def paper(p, P, E, e):
    """All n + 1 queries; nobody attends to row 0, the query."""
    We, be, WQ, WK, WV, WO, D, b = p
    if E.dim() == 2:
        E = E.expand(len(e), *E.shape)
    x = (torch.cat([e[:, None], E], 1) @ We + be + P)[:, None]
    logits = (x @ WQ) @ (x @ WK).transpose(2, 3) / math.sqrt(We.shape[0])
    hidden = torch.zeros(logits.shape[-1], dtype=torch.bool)
    hidden[0] = True
    theta = logits.masked_fill(hidden, -math.inf).softmax(3)
    values = (theta @ (x @ WV)).transpose(1, 2).flatten(2)
    return ((values @ WO) @ D + b)[:, 0]


def single_query(p, P, E, e):
    We, be, WQ, WK, WV, WO, D, b = p
    H, d, _ = WQ.shape
    x = e @ We + be + P[0]
    K = E @ We + be + P[1:]
    q = x @ WQ  # (H, B, d_h)
    if E.dim() == 2:
        logits = torch.bmm(q, (K @ WK).transpose(1, 2)).transpose(0, 1)
        scores = (K @ WV[:, :, 0].T).T
    else:
        u = torch.bmm(q, WK.transpose(1, 2)).transpose(0, 1)  # (B, H, d)
        logits = torch.bmm(u, K.transpose(1, 2))
        scores = (K @ WV[:, :, 0].T).transpose(1, 2)
    theta = (logits / math.sqrt(d)).softmax(2)
    return (theta * scores).sum(2) @ WO @ D + b


def same_order(p, P, E, e):
    """As src/model/fold.h has it, W_K W_Q^T joined where that is cheaper."""
    We, be, WQ, WK, WV, WO, D, b = p
    H, d, k = WQ.shape
    shared = E.dim() == 2
    rows = E @ We + P[1:] if shared else torch.cat([We, P[1:]])
    E1 = torch.cat([e, torch.ones_like(e[:, :1])], 1)
    key = rows @ WK  # (H, r, d_h)
    query = torch.cat([We, (be + P[0])[None]]) @ WQ  # (H, d + 1, d_h)
    value = (rows @ WV[:, :, 0].T).T
    if k > d // 3:
        M = torch.bmm(key, query.transpose(1, 2)).reshape(H * len(rows), d + 1)
        logits = (E1 @ M.T).reshape(len(e), H, len(rows))
    else:
        logits = torch.bmm(E1 @ query, key.transpose(1, 2)).transpose(0, 1)
    scores = value
    if not shared:
        turned = E.transpose(1, 2)
        logits = torch.baddbmm(logits[:, :, d:], logits[:, :, :d], turned)
        scores = value[:, :d] @ turned + value[:, d:]
    theta = (logits / math.sqrt(d)).softmax(2)
    means = (theta * scores).sum(2) + be @ WV[:, :, 0].T
    return means @ WO @ D + b


def trainer(model, inputs, kind):
    """A function that takes one step and returns the loss."""
    parameters = [p.to(kind).clone().requires_grad_() for p in inputs.parameters]
    P = inputs.positions.to(kind)
    adam = torch.optim.Adam(parameters, lr=1e-3)
    batches = [inputs.picked(i, kind) for i in range(8)]
    step = 0

    def take():
        nonlocal step
        E, e, y = batches[step % 8]
        step += 1
        adam.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(parameters, P, E, e), y)
        loss.backward()
        adam.step()
        return loss.item()

    return take


# ---- many models at once: everything has a first axis of models ----


def many_by_hand(p, P, E, e):
    We, be, WQ, WK, WV, WO, D, b = p
    M, H, d, _ = WQ.shape
    B, n = e.shape[1], E.shape[2]
    x = torch.baddbmm(be[:, None] + P[0], e, We)
    K = torch.baddbmm(be[:, None], E.flatten(1, 2), We).view(M, B, n, d) + P[1:]
    q = x[:, None] @ WQ  # (M, H, B, d_h)
    u = (q @ WK.transpose(2, 3)).transpose(1, 2)  # (M, B, H, d)
    theta = (u @ K.transpose(2, 3) / math.sqrt(d)).softmax(3)
    scores = (K.flatten(1, 2) @ WV[..., 0].transpose(1, 2)).view(M, B, n, H).transpose(2, 3)
    return torch.baddbmm(b[:, None], (theta * scores).sum(3) @ WO, D)


def many(inputs, vmapped):
    kind = torch.float32
    parameters = [p.to(kind).expand(MODELS, *p.shape).clone().requires_grad_() for p in inputs.parameters]
    P = inputs.positions.to(kind)
    adam = torch.optim.Adam(parameters, lr=1e-3, foreach=True)
    E, e, y = (a.expand(MODELS, *a.shape).clone() for a in inputs.picked(0, kind))
    if vmapped:
        import functorch

        def loss_of(p, E, e, y):
            return torch.nn.functional.cross_entropy(single_query(p, P, E, e), y)

        gradients = functorch.vmap(functorch.grad(loss_of))

    def take():
        if vmapped:
            for p, g in zip(parameters, gradients(tuple(p.detach() for p in parameters), E, e, y)):
                p.grad = g
        else:
            adam.zero_grad(set_to_none=True)
            out = many_by_hand(parameters, P, E, e)
            (torch.nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()) * MODELS).backward()
        adam.step()

    return take


# ---- measuring ----


def best_time(take, budget):
    """CPU seconds of one call: the best of rounds within the budget, after one to warm up."""
    take()
    best, spent = math.inf, 0.0
    while spent < budget:
        start, calls = time.process_time(), 0
        while calls == 0 or time.process_time() - start < 0.05:
            take()
            calls += 1
        took = time.process_time() - start
        spent += took
        best = min(best, took / calls)
    return best


def compare_losses(inputs):
    """Ours and PyTorch's in float32 both stray from float64 by rounding; ours may not stray much further."""
    exact, single = ([], [])
    for losses, kind in ((exact, torch.float64), (single, torch.float32)):
        take = trainer(single_query, inputs, kind)
        losses.extend(take() for _ in range(STEPS))
    exact, single = numpy.array(exact), numpy.array(single)
    stray = numpy.abs(inputs.losses.numpy() / exact - 1).max()
    usual = numpy.abs(single / exact - 1).max()
    if not stray < 5 * usual + 2e-6:
        sys.exit(f"losses differ: ours by {stray:.1e} from double precision, PyTorch's by {usual:.1e}")
    return stray, usual


def row(shape):
    best = ours(shape, folder=FOLDER)
    layered = ours(shape, "-layered")
    order = "-".join(w for w in ("folded", "joined", "value_first") if best[w]) or "layered"
    print(
        "\n{} contexts, heads {}, dim {}, key_dim {}, context {}, batch {}, classes {}".format(*shape)
        + f"\n  ours ({order}): {1e3 * best['step']:.4f} ms a step, evaluation {1e3 * best['forward']:.4f} ms a batch; "
        f"{1e-6 * best['flops']:.3f} Mflop, {1e-9 * best['flops'] / best['step']:.1f} GF/s, "
        f"{100 * best['flops'] / best['step'] / best['peak']:.0f} % of sgemm's {1e-9 * best['peak']:.0f} GF/s ({best['blas']})"
    )

    def line(name, seconds):
        print(f"  {name:<28} {1e3 * seconds:10.4f} ms  {seconds / best['step']:8.2f} times ours", flush=True)

    line("ours, layer by layer", layered["step"])
    if torch is None:
        return
    inputs = Inputs(shape)
    stray, usual = compare_losses(inputs)
    small = shape[5] < 64
    for name, model in (("single query", single_query), ("same order", same_order)):
        line("PyTorch, " + name, best_time(trainer(model, inputs, torch.float32), 1.0))
    if not QUICK:
        line("PyTorch, paper", best_time(trainer(paper, inputs, torch.float32), 1.0))
    if small:
        for name, vmapped in (("by hand", False), ("by vmap", True)):
            line(f"PyTorch, {MODELS} models {name}", best_time(many(inputs, vmapped), 1.0) / MODELS)
    print(f"  losses of {STEPS} steps stray from double precision by {stray:.1e}, PyTorch's by {usual:.1e}", flush=True)


if torch is None:
    print("PyTorch is not installed (Debian: python3-torch), so ours stand alone.")
else:
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, numpy {numpy.__version__}, OPENBLAS_CORETYPE {os.environ.get('OPENBLAS_CORETYPE')}")
for shape in SHAPES:
    row(shape)
