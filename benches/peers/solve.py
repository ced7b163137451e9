"""One solve of the layer with d = 8, M = 3, no gradient. Parameters change at every call; what an interface lets one build
once is built once."""
import warnings

from protocol import attempt, case, error, failed, instances, serve

import numpy as np
from scipy import optimize, sparse

from cones import cones

warnings.filterwarnings("ignore")
data = instances()["layer-8x3"]
A = np.asarray(data["usage"])
M, D = A.shape
c, lam, b = (np.asarray(data[key]) for key in ("contexts", "multipliers", "remaining"))
LOWER, UPPER, ROWS = data["lower"], data["upper"], len(data["contexts"])
versions = {}


def measure(peer, variant, solve):
    x = np.array([solve(i) for i in range(ROWS)])

    def run():
        for i in range(ROWS):
            solve(i)
    case(peer, "solve-8x3", variant, run, units=ROWS, error_action=error(x, data["x"]),
         violation=float(max(0.0, (x @ A.T - b).max())))


def with_clarabel():
    import clarabel
    versions["clarabel"] = clarabel.__version__
    rows, k, right_of = cones(data)
    right = lambda i: right_of(c[i], lam[i], b[i])
    P, rows = sparse.csc_matrix((2 * D, 2 * D)), sparse.csc_matrix(rows)
    kinds = [clarabel.NonnegativeConeT(k)] + [clarabel.ExponentialConeT() for _ in range(D)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False

    def fresh(i):
        q, h = right(i)
        return np.array(clarabel.DefaultSolver(P, q, rows, h, kinds, settings).solve().x)[:D]
    measure("clarabel", "a solver per call", fresh)
    kept = clarabel.DefaultSettings()
    kept.verbose = False
    kept.presolve_enable = False
    solver = clarabel.DefaultSolver(P, *right(0)[:1], rows, right(0)[1], kinds, kept)

    def update(i):
        q, h = right(i)
        solver.update(q=q, b=h)
        return np.array(solver.solve().x)[:D]
    measure("clarabel", "updated in place", update)


def with_cvxpy(name):
    import cvxpy as cp
    versions["cvxpy"] = cp.__version__
    x = cp.Variable(D)
    pc, pl, pb = cp.Parameter(D, nonneg=True), cp.Parameter(M, nonneg=True), cp.Parameter(M)
    cost = -cp.sum(cp.multiply(pc, cp.log(x))) + pl @ (A @ x)
    problem = cp.Problem(cp.Minimize(cost), [A @ x <= pb, x >= LOWER, x <= UPPER])

    def solve(i):
        pc.value, pl.value, pb.value = c[i], lam[i], b[i]
        problem.solve(solver=name)
        return x.value.copy()
    measure("cvxpy", name, solve)


def with_scipy():
    def solve(i):
        g = A.T @ lam[i]
        return optimize.minimize(
            lambda x: -c[i] @ np.log(x) + g @ x, np.full(D, 0.5), jac=lambda x: -c[i] / x + g,
            bounds=[(LOWER, UPPER)] * D,
            constraints=[dict(type="ineq", fun=lambda x: b[i] - A @ x, jac=lambda x: -A)],
            method="SLSQP", options=dict(ftol=1e-12, maxiter=200)).x
    measure("scipy", "SLSQP", solve)


def with_moreau():
    import moreau
    versions["moreau"] = getattr(moreau, "__version__", "unknown")
    rows, k, right = cones(data)
    n = 2 * D
    solver = moreau.CompiledSolver(
        n, k + 3 * D, np.zeros(n + 1, dtype=int), np.zeros(0, dtype=int), rows.indptr, rows.indices,
        moreau.Cones(num_nonneg_cones=k, num_exp_cones=D), moreau.Settings(device="cpu", batch_size=1))
    solver.setup(np.zeros((1, 0)), rows.data[None])

    def solve(i):
        q, h = right(c[i], lam[i], b[i])
        return np.asarray(solver.solve(q[None], h[None]).x)[0, :D]
    measure("moreau", "batch of one", solve)


attempt("clarabel", "solve-8x3", "", with_clarabel)
for name in ("CLARABEL", "ECOS", "SCS", "MOREAU"):
    attempt("cvxpy", "solve-8x3", name, lambda: with_cvxpy(name))
attempt("scipy", "solve-8x3", "SLSQP", with_scipy)
attempt("moreau", "solve-8x3", "batch of one", with_moreau)
serve(**versions)
