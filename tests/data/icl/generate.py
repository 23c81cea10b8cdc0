"""Makes expected.h: what the C code of mean-field features must reproduce.

    /usr/bin/python3 tests/data/icl/generate.py > tests/data/icl/expected.h

Everything is computed a second time here, from the definitions in meanfield.h: a few lines of numpy, with S inverted by
a linear solver. No code is shared with the C program. Its inputs are waves, which both sides make for themselves:
entry i of array number s is sin(0.7 i + 0.3 s + 0.011 i^2).
"""
import numpy as np

N, M, D, K, K0 = 40, 11, 3, 3, 4


def wave(number, *shape):
    i = np.arange(int(np.prod(shape)))
    return np.sin(0.7 * i + 0.3 * number + 0.011 * i**2).reshape(shape)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def solve(B, S):
    """B S^-1"""
    return np.linalg.solve(S, B.T).T


def moments(h, F):
    S, C = h.T @ h / N, F.T @ h / N
    B = solve(C, S)
    return S, C, B, F - h @ B.T


def pull(values, q, a, X):
    """What q means for the particles."""
    return values.T @ q / N, (values * (1 - values) * (q @ a.T)).T @ X / N


def finite(h, F, n):
    S, C, _, _ = moments(h, F)
    A, T = C.T @ C, (h * (F**2).sum(1)[:, None]).T @ h / N
    W = np.linalg.solve((1 - 1 / n) * A + T / n, solve(A, S))
    return 0.5 * np.trace(F.T @ F) / N - 0.5 * np.trace(A @ W)


def emit(name, values):
    values = np.atleast_1d(values).ravel()
    print(f"static const double expected_{name}[{len(values)}] = {{")
    for i in range(0, len(values), 4):
        print("    " + " ".join(f"{v!r}," for v in map(float, values[i:i + 4])))
    print("};")


def main():
    X, w, a = 2 * wave(0, N, D), 1.5 * wave(1, M, D), 3 * wave(2, M, K)
    F, va, vw, W = wave(3, N, K0), wave(4, M, K), wave(5, M, D), wave(6, K, K)
    values = sigmoid(X @ w.T)
    h = values @ a / M
    S, C, B, zeta = moments(h, F)
    print("/* Made by tests/data/icl/generate.py. */")
    print(f"enum {{ EXPECTED_N = {N}, EXPECTED_M = {M}, EXPECTED_D = {D}, EXPECTED_K = {K}, EXPECTED_K0 = {K0} }};")
    emit("loss", 0.5 * (zeta**2).sum() / N)
    emit("condition", np.linalg.cond(S))
    g_a, g_w = pull(values, -zeta @ B, a, X)
    emit("g_a", g_a)
    emit("g_w", g_w)
    slope = values * (1 - values)
    u = (values @ va + (slope * (X @ vw.T)) @ a) / M
    Cm = solve(zeta.T @ u / N - B @ (u.T @ h / N), S)
    H_a, H_w = pull(values, u @ B.T @ B - zeta @ Cm + h @ Cm.T @ B, a, X)
    emit("H_a", H_a)
    emit("H_w", H_w)
    E = F - h @ W.T @ C.T
    A = C.T @ C
    emit("joint_loss", 0.5 * (E**2).sum() / N)
    emit("joint_g_W", A @ (W @ S - np.eye(K)))
    j_a, j_w = pull(values, -E @ C @ W - F @ (W @ (h.T @ E / N)).T, a, X)
    emit("joint_g_a", j_a)
    emit("joint_g_w", j_w)
    emit("finite", [finite(h, F, n) for n in (1, 5, 1000)])


if __name__ == "__main__":
    main()
