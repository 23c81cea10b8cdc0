#!/usr/bin/env python3
"""Writes expected.h, the numbers that test_selfattention compares with: plain einsum in double precision, in the order
of the formulas, of Phi(X) = H^{-1/2} sum_h <U_h, softmax_rows(X W_h X^T) X> with the mean logistic loss, its gradient,
its Hessian times (VU, VW), which central differences of the gradient have to confirm, and the bounds b1 and kappa.

    python3 generate.py > expected.h

Inputs are made from whole numbers, the same here and in the test: entry k of array number a is
((7919 k + 104729 a + 31 k^2) mod 1000) / 500 - 1; labels are 1 where k is even, else -1.
"""
import numpy as np

CASES = [(5, 3, 4, 3), (2, 1, 2, 1), (7, 6, 2, 2), (13, 10, 20, 7)]  # n, T, d, H


def entries(a, *shape):
    k = np.arange(int(np.prod(shape)))
    return (((7919 * k + 104729 * a + 31 * k * k) % 1000) / 500 - 1).reshape(shape)


def softmax(a):
    p = np.exp(a - a.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def pieces(X, U, W):
    A = softmax(np.einsum("itd,hde,ise->ihts", X, W, X))
    Y = np.einsum("ihts,isd->ihtd", A, X)
    G = np.einsum("htd,isd->ihts", U, X)
    M = A * (G - (A * G).sum(-1, keepdims=True))
    return A, Y, G, M, np.einsum("itd,ihts,ise->ihde", X, M, X), np.einsum("ihtd,htd->i", Y, U) / np.sqrt(len(U))


def gradient(X, y, U, W):
    _, Y, _, _, GW, Phi = pieces(X, U, W)
    c = -y / (1 + np.exp(y * Phi)) / len(y) / np.sqrt(len(U))
    return np.einsum("i,ihtd->htd", c, Y), np.einsum("i,ihde->hde", c, GW), Phi


def hessian(X, y, U, W, VU, VW):
    A, Y, G, M, GW, Phi = pieces(X, U, W)
    root = np.sqrt(len(U))
    Sd = np.einsum("itd,hde,ise->ihts", X, VW, X)
    Ad = A * (Sd - (A * Sd).sum(-1, keepdims=True))
    Yd = np.einsum("ihts,isd->ihtd", Ad, X)
    Phid = (np.einsum("ihtd,htd->i", Y, VU) + np.einsum("ihtd,htd->i", Yd, U)) / root
    Gd = np.einsum("htd,isd->ihts", VU, X)
    g = (A * G).sum(-1, keepdims=True)
    gd = (Ad * G + A * Gd).sum(-1, keepdims=True)
    Md = Ad * (G - g) + A * (Gd - gd)
    GWd = np.einsum("itd,ihts,ise->ihde", X, Md, X)
    s = 1 / (1 + np.exp(-y * Phi))
    a, b = s * (1 - s) * Phid / len(y) / root, -(1 - s) * y / len(y) / root
    return (np.einsum("i,ihtd->htd", a, Y) + np.einsum("i,ihtd->htd", b, Yd),
            np.einsum("i,ihde->hde", a, GW) + np.einsum("i,ihde->hde", b, GWd))


def confirm(X, y, U, W, VU, VW, HU, HW):
    h = 1e-5
    up, down = gradient(X, y, U + h * VU, W + h * VW), gradient(X, y, U - h * VU, W - h * VW)
    assert np.abs((up[0] - down[0]) / (2 * h) - HU).max() < 1e-7
    assert np.abs((up[1] - down[1]) / (2 * h) - HW).max() < 1e-7


def array(name, values):
    print("static const double %s[] = {" % name)
    print("".join("    %.17g,\n" % v for v in values), end="")
    print("};")


print("/* Made by generate.py beside this file, which says how. */")
print("static const struct {\n  int64_t n, T, d, H;\n} expected_shapes[] = {%s};" %
      ", ".join("{%d, %d, %d, %d}" % case for case in CASES))
for number, (n, T, d, H) in enumerate(CASES):
    X, U, W = entries(1, n, T, d), entries(2, H, T, d), entries(3, H, d, d)
    VU, VW = entries(4, H, T, d), entries(5, H, d, d)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    gU, gW, Phi = gradient(X, y, U, W)
    HU, HW = hessian(X, y, U, W, VU, VW)
    confirm(X, y, U, W, VU, VW, HU, HW)
    g, Hv = np.concatenate([gU.ravel(), gW.ravel()]), np.concatenate([HU.ravel(), HW.ravel()])
    every = 1 if len(g) < 100 else 37
    array("expected_Phi_%d" % number, Phi)
    array("expected_gradient_%d" % number, g[::every])
    array("expected_hessian_%d" % number, Hv[::every])
    R = np.linalg.norm(X, axis=2).max()
    B = np.linalg.norm(U.reshape(H, -1), axis=1).max()
    array("expected_numbers_%d" % number,
          [np.logaddexp(0, -y * Phi).mean(), np.linalg.norm(g), np.linalg.norm(Hv), every,
           np.sqrt(T) * R * np.sqrt(1 + R**4 * B**2), np.sqrt(T) * R**3 * (1 + 2 * R**2 * B) / np.sqrt(H)])
