"""The convex layer with Moreau's own interface: exponential cones written by hand, batched solve and backward."""
from protocol import attempt, case, error, instances, serve

import moreau
import numpy as np

from cones import cones


def measure(work, variant, data, **settings):
    A = np.asarray(data["usage"])
    m, d = A.shape
    c, lam, b, w = (np.asarray(data[key]) for key in ("contexts", "multipliers", "remaining", "upstream"))
    batch = len(c)
    rows, k, right = cones(data)
    n = 2 * d
    solver = moreau.CompiledSolver(
        n, k + 3 * d, np.zeros(n + 1, dtype=int), np.zeros(0, dtype=int), rows.indptr, rows.indices,
        moreau.Cones(num_nonneg_cones=k, num_exp_cones=d),
        moreau.Settings(device="cpu", batch_size=batch, enable_grad=True, ipm_settings=moreau.IPMSettings(**settings)))
    solver.setup(np.zeros((batch, 0)), np.tile(rows.data, (batch, 1)))

    def run():
        q, h = right(c, lam, b)
        solution = solver.solve(q, h)
        upstream = np.zeros((batch, n))
        upstream[:, :d] = w
        return solution, solver.backward(upstream)
    solution, gradient = run()
    x, by_q, by_h = np.asarray(solution.x)[:, :d], np.asarray(gradient["dq"]), np.asarray(gradient["db"])
    case("moreau", work, variant, run, units=batch,
         error_action=error(x, data["x"]),
         error_gradient=max(error(by_q[:, :d] @ A.T, data["by_multiplier"]), error(by_h[:, :m], data["by_remaining"]),
                            error(-by_q[:, d:], data["by_context"])),
         violation=float(max(0.0, (x @ A.T - b).max())))


data = instances()
works = {"layer-scalar": data["layer-scalar"], "layer-8x3": data["layer-8x3"], **data["wide"]}
for work, problem in works.items():
    for variant, settings in (
        ("default", {}),
        ("tolerances 1e-11", dict(tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)),
    ):
        attempt("moreau", work, variant, lambda: measure(work, variant, problem, **settings))
serve(moreau=getattr(moreau, "__version__", "unknown"))
