"""Wide layers with Clarabel at its tightest tolerance: the solve alone, since it has no gradient. Updated in place."""
from protocol import attempt, case, error, instances, serve

import clarabel
import numpy as np
from scipy import sparse

from cones import cones


def measure(work, data):
    rows, k, right = cones(data)
    d = rows.shape[1] // 2
    given = list(zip(*(np.asarray(data[key]) for key in ("contexts", "multipliers", "remaining"))))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    kinds = [clarabel.NonnegativeConeT(k)] + [clarabel.ExponentialConeT() for _ in range(d)]
    q, h = right(*given[0])
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((2 * d, 2 * d)), q, sparse.csc_matrix(rows), h, kinds, settings)

    def solve(row):
        q, h = right(*row)
        solver.update(q=q, b=h)
        return np.array(solver.solve().x)[:d]
    x = np.array([solve(row) for row in given])

    def run():
        for row in given:
            solve(row)
    case("clarabel", work, "the solve alone, tolerances 1e-11", run, units=len(given), error_action=error(x, data["x"]),
         violation=float(max(0.0, (x @ np.asarray(data["usage"]).T - np.asarray(data["remaining"])).max())))


data = instances()
for work, problem in (("layer-8x3", data["layer-8x3"]), *data["wide"].items()):
    attempt("clarabel", work, "the solve alone", lambda: measure(work, problem))
serve(clarabel=clarabel.__version__)
