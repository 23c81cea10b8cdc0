#!/usr/bin/env python3
"""Writes margins.h: margins of tangent features of self-attention, by a method that shares nothing with the program's.

Features of sample i are the gradient of Phi(X_i) = H^{-1/2} sum_h <U_h, softmax(X W_h X^T) X>, by einsum; the margin
is the least norm in the hull of the y_i f_i, by away-step Frank-Wolfe until both sides of its certificate meet to 1e-10.

    /usr/bin/python3 generate_margins.py > margins.h
"""
import numpy as np

N, T, D, H = 10, 4, 3, 3


def features(X, U, W):
    n = len(X)
    S = np.einsum("itd,hde,ise->ihts", X, W, X)
    A = np.exp(S - S.max(-1, keepdims=True))
    A /= A.sum(-1, keepdims=True)
    G = np.einsum("htd,isd->ihts", U, X)
    M = A * (G - (A * G).sum(-1, keepdims=True))
    FU = np.einsum("ihts,isd->ihtd", A, X)
    FW = np.einsum("itd,ihts,ise->ihde", X, M, X)
    return np.concatenate([FU.reshape(n, -1), FW.reshape(n, -1)], 1) / np.sqrt(len(U))


def least_norm(K):
    q = np.ones(len(K)) / len(K)
    g = K @ q
    for _ in range(2_000_000):
        s = g.argmin()
        support = np.where(q > 0)[0]
        a = support[g[support].argmax()]
        gap = q @ g - g[s]
        if gap < 1e-11 * (q @ g):
            break
        if gap >= g[a] - q @ g:
            step, top = -q.copy(), 1.0
            step[s] += 1
        else:
            step, top = q.copy(), q[a] / (1 - q[a])
            step[a] -= 1
        q = q + min(top, max(0, -(g @ step) / (step @ K @ step))) * step
        q[q < 1e-15] = 0
        g = K @ q
    assert gap < 1e-10 * (q @ g), gap
    return np.sqrt(q @ g)


def main():
    rng = np.random.default_rng(20231019)
    print("/* Made by generate_margins.py beside this file: Gram matrices (N, N) of y_i f_i, and the margins of these "
          "points. Not to be edited. */")
    print("/* clang-format off */")
    print("#ifndef MHASWEEP_TESTS_DATA_OPTIMIZE_MARGINS_H\n#define MHASWEEP_TESTS_DATA_OPTIMIZE_MARGINS_H\n")
    print(f"enum {{ MARGIN_CASES = 4, MARGIN_N = {N} }};")
    grams, margins = [], []
    for case in range(4):
        X, y = rng.normal(size=(N, T, D)), rng.choice([-1.0, 1.0], N)
        U, W = rng.normal(size=(H, T, D)), rng.normal(size=(H, D, D)) * (0.0, 0.3, 1.0, 2.0)[case]
        F = features(X, U, W) * y[:, None]
        grams.append(F @ F.T)
        margins.append(least_norm(grams[-1]))
    print("static const double margin_gram[MARGIN_CASES][MARGIN_N * MARGIN_N] = {")
    for K in grams:
        print("{" + ", ".join(f"{v:.17g}" for v in K.ravel()) + "},")
    print("};")
    print("static const double margin_expected[MARGIN_CASES] = {" + ", ".join(f"{m:.17g}" for m in margins) + "};")
    print("\n#endif")


if __name__ == "__main__":
    main()
