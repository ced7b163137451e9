"""Draws every instance from fixed seeds and writes them to a folder, with solutions and gradients in 40 digits.

instances.json: the layer (scalar, d = 8 and M = 3, and wide ones), the episodes with strict budgets, the sizes of the training sets.
training.f64:   contexts (episodes x steps), then budgets (episodes), little-endian doubles.
grid-N.f64:     the same for the sizes of the grid, of N steps.
"""
import json
import os
import sys

import mpmath as mp
import numpy as np

D, M, BATCH = 8, 3, 10
mp.mp.dps = 40


def solve(c, lam, b, A, lower, upper):
    """A primal-dual interior point in doubles; gives the solution and the active constraints."""
    d = len(c)
    G = np.vstack([A, np.eye(d), -np.eye(d)])
    h = np.concatenate([b, np.full(d, upper), np.full(d, -lower)])
    x = np.full(d, lower * 1.5)
    s = h - G @ x
    z = 1.0 / s
    for _ in range(200):
        mu = s @ z / len(s)
        residual = -c / x + A.T @ lam + G.T @ z
        if mu < 1e-14 and np.abs(residual).max() < 1e-11:
            break
        W = z / s
        dx = np.linalg.solve(np.diag(c / x**2) + (G.T * W) @ G, -residual + G.T @ (z - 0.1 * mu / s))
        ds = -G @ dx
        dz = 0.1 * mu / s - z - W * ds
        step = 1.0
        for v, dv in ((s, ds), (z, dz), (x, dx)):
            if (dv < 0).any():
                step = min(step, 0.995 * (v[dv < 0] / -dv[dv < 0]).min())
        x, z = x + step * dx, z + step * dz
        s = h - G @ x
    active = z > s
    return x, z[active], G[active], h[active], np.flatnonzero(active)


def refine(c, lam, b, w, A, lower, upper):
    """Newton on the active set in 40 digits, then the adjoint of its KKT system."""
    x, z, G, h, active = solve(c, lam, b, A, lower, upper)
    d, m, k = len(c), len(b), len(active)
    exact = lambda values: [mp.mpf(float(v)) for v in values]
    x, z, c, lam, h = exact(x), exact(z), exact(c), exact(lam), exact(h)
    A, G = [exact(row) for row in A], [exact(row) for row in G]

    def matrix():
        K = mp.zeros(d + k)
        for i in range(d):
            K[i, i] = c[i] / x[i] ** 2
            for j in range(k):
                K[i, d + j] = K[d + j, i] = G[j][i]
        return K

    for _ in range(8):
        r = mp.zeros(d + k, 1)
        for i in range(d):
            r[i] = -c[i] / x[i] + sum(A[j][i] * lam[j] for j in range(m)) + sum(G[j][i] * z[j] for j in range(k))
        for j in range(k):
            r[d + j] = sum(G[j][i] * x[i] for i in range(d)) - h[j]
        step = mp.lu_solve(matrix(), -r)
        x = [x[i] + step[i] for i in range(d)]
        z = [z[j] + step[d + j] for j in range(k)]
    assert max(abs(v) for v in r) < mp.mpf(10) ** -30 and all(v > 0 for v in z)
    v = mp.lu_solve(matrix(), mp.matrix(exact(w) + [0] * k))
    by_b = [0.0] * m
    for j, index in enumerate(active):
        if index < m:
            by_b[index] = float(v[d + j])
    return dict(
        x=[float(value) for value in x],
        by_multiplier=[float(-sum(A[j][i] * v[i] for i in range(d))) for j in range(m)],
        by_remaining=by_b,
        by_context=[float(v[i] / x[i]) for i in range(d)],
    )


def layer(rng, A, lower, upper, lam, b, refine=refine):
    m, d = A.shape
    rows = dict(
        contexts=rng.uniform(0.5, 2.0, (BATCH, d)),
        multipliers=rng.uniform(*lam, (BATCH, m)),
        remaining=rng.uniform(*b, (BATCH, m)),
        upstream=rng.normal(size=(BATCH, d)),
    )
    answers = [refine(c, l, r, w, A, lower, upper) for c, l, r, w in zip(*rows.values())]
    return dict(
        usage=A.tolist(), lower=lower, upper=upper,
        **{key: value.tolist() for key, value in rows.items()},
        **{key: [answer[key] for answer in answers] for key in answers[0]},
    )


def solve_wide(c, lam, b, A, lower, upper):
    """The same interior point, reduced to a system of one row per budget; gives duals, active budgets and free actions."""
    m, d = A.shape
    x = np.full(d, lower * 1.5)
    z = 1.0 / np.concatenate([b - A @ x, upper - x, x - lower])
    for _ in range(100):
        s = np.concatenate([b - A @ x, upper - x, x - lower])
        mu = s @ z / len(s)
        residual = -c / x + A.T @ (lam + z[:m]) + z[m:m + d] - z[m + d:]
        # Near enough to tell what is active; further on, the reduced system loses its digits.
        if mu < 1e-9:
            break
        W = z / s
        t = z - 0.1 * mu / s
        right = -residual + A.T @ t[:m] + t[m:m + d] - t[m + d:]
        D = c / x**2 + W[m:m + d] + W[m + d:]
        y = np.linalg.solve(np.diag(1 / W[:m]) + (A / D) @ A.T, A @ (right / D))
        dx = (right - A.T @ y) / D
        ds = np.concatenate([-A @ dx, -dx, dx])
        dz = 0.1 * mu / s - z - W * ds
        step = 1.0
        for v, dv in ((s, ds), (z, dz), (x, dx)):
            if (dv < 0).any():
                step = min(step, 0.995 * (v[dv < 0] / -dv[dv < 0]).min())
        x, z = x + step * dx, z + step * dz
    s = np.concatenate([b - A @ x, upper - x, x - lower])
    active = z > s
    bound = np.where(active[m:m + d], upper, np.where(active[m + d:], lower, np.nan))
    return z[:m], np.flatnonzero(active[:m]), bound


def refine_wide(c, lam, b, w, A, lower, upper):
    """Newton on the duals of the active budgets in 40 digits, every action a function of them; then the adjoint."""
    m, d = A.shape
    duals, active, bound = solve_wide(c, lam, b, A, lower, upper)
    free = np.flatnonzero(np.isnan(bound))
    exact = lambda values: [mp.mpf(float(v)) for v in values]
    c, lam, b, w, mu = exact(c), exact(lam), exact(b), exact(w), exact(duals[active])
    columns = [exact(column) for column in A.T]
    x = [mp.mpf(0) if np.isnan(v) else mp.mpf(float(v)) for v in bound]
    k = len(active)

    def weigh(values):
        """Sums over free actions of the active rows' products."""
        found = mp.zeros(k)
        for i, value in zip(free, values):
            rows = [columns[i][j] for j in active]
            for p in range(k):
                for q in range(p + 1):
                    found[p, q] += rows[p] * rows[q] * value
        for p in range(k):
            for q in range(p):
                found[q, p] = found[p, q]
        return found

    for _ in range(9):
        for i in free:
            price = sum(a * l for a, l in zip(columns[i], lam)) + sum(columns[i][j] * v for j, v in zip(active, mu))
            x[i] = c[i] / price
        r = [sum(columns[i][j] * x[i] for i in range(d)) - b[j] for j in active]
        if k:
            step = mp.lu_solve(weigh([x[i] ** 2 / c[i] for i in free]), mp.matrix(r))
            mu = [v + step[j] for j, v in enumerate(mu)]
    assert all(abs(v) < mp.mpf(10) ** -30 for v in r) and all(v > 0 for v in mu)
    assert all(sum(columns[i][j] * x[i] for i in range(d)) <= b[j] + mp.mpf(10) ** -30 for j in range(m))
    assert all(lower <= v <= upper for v in x)
    inverse = {i: x[i] ** 2 / c[i] for i in free}
    y = [mp.mpf(0)] * k
    if k:
        right = [sum(columns[i][j] * inverse[i] * w[i] for i in free) for j in active]
        y = list(mp.lu_solve(weigh([inverse[i] for i in free]), mp.matrix(right)))
    v = [mp.mpf(0)] * d
    for i in free:
        v[i] = inverse[i] * (w[i] - sum(columns[i][j] * u for j, u in zip(active, y)))
    by_b = [0.0] * m
    for j, u in zip(active, y):
        by_b[j] = float(u)
    return dict(
        x=[float(value) for value in x],
        by_multiplier=[float(-sum(columns[i][j] * v[i] for i in range(d))) for j in range(m)],
        by_remaining=by_b,
        by_context=[float(v[i] / x[i]) for i in range(d)],
    )


def wide(d, m=4):
    """Many actions on few budgets: what an action costs and uses does not change with their number."""
    rng = np.random.default_rng(d)
    A = rng.uniform(0.0, 1.0, (m, d))
    return layer(rng, A, 0.1, 10.0, (0.05, 0.3), (0.7 * d, 1.8 * d), refine_wide)


def strict(rng, A, episodes=30, steps=20, lower=0.1):
    least = A @ np.full(A.shape[1], lower)
    budgets = rng.uniform(8, 12, (episodes, A.shape[0])) * steps * 0.12 + steps * least
    contexts = rng.uniform(0.5, 2.0, (episodes, steps, A.shape[1]))
    return dict(
        usage=A.tolist(), lower=lower, upper=10.0, steps=steps, multiplier=[0.15] * A.shape[0],
        budgets=budgets.tolist(), contexts=contexts.tolist(),
    )


def training(rng, path, episodes, steps):
    """Levels that an episode keeps, and noise: mostly idle machines, as in traces of virtual machines."""
    levels = 0.02 + 0.9 * rng.beta(0.8, 2.5, (episodes, 1))
    contexts = np.clip(levels * np.exp(0.3 * rng.normal(size=(episodes, steps))), 0.01, 1.0)
    budgets = rng.uniform(10.0 * steps, 15.0 * steps, episodes)
    np.concatenate([contexts.ravel(), budgets]).astype("<f8").tofile(path)


def train(folder, episodes=5000, steps=20):
    training(np.random.default_rng(3), os.path.join(folder, "training.f64"), episodes, steps)
    return dict(episodes=episodes, steps=steps, batch=10)


def grid(folder, episodes=2000):
    sizes = dict(episodes=episodes, steps=[20, 80], batches=[10, 100, 1000], widths=[10, 40, 80])
    for steps in sizes["steps"]:
        training(np.random.default_rng(4), os.path.join(folder, f"grid-{steps}.f64"), episodes, steps)
    return sizes


def main(folder):
    os.makedirs(folder, exist_ok=True)
    A = np.random.default_rng(7).uniform(0.0, 1.0, (M, D))
    content = {
        "layer-scalar": layer(np.random.default_rng(1), np.ones((1, 1)), 1.0, 40.0, (0.02, 0.25), (5.0, 60.0)),
        "layer-8x3": layer(np.random.default_rng(2), A, 0.1, 10.0, (0.05, 0.4), (6.0, 16.0)),
        "wide": {f"wide/d={d},M=4": wide(d) for d in (64, 256, 1024)},
        "strict": strict(np.random.default_rng(5), A),
        "train": train(folder),
        "grid": grid(folder),
    }
    with open(os.path.join(folder, "instances.json"), "w") as file:
        json.dump(content, file)


if __name__ == "__main__":
    main(sys.argv[1])
