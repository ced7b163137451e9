"""Episodes with strict budgets: at every step min sum -c ln x + price'Ax with Ax <= what is left less the reserve for the steps to
come, so that a feasible action exists at every step in exact arithmetic. What the solver says is paid: no clipping, no repair."""
import warnings

from protocol import attempt, instances, say, serve

import cvxpy as cp
import numpy as np

warnings.filterwarnings("ignore")
data = instances()["strict"]
A = np.asarray(data["usage"])
M, D = A.shape
least = A @ np.full(D, data["lower"])


def play(variant, **options):
    x = cp.Variable(D)
    pc, pl, pb = cp.Parameter(D, nonneg=True), cp.Parameter(M, nonneg=True), cp.Parameter(M)
    cost = -cp.sum(cp.multiply(pc, cp.log(x))) + pl @ (A @ x)
    problem = cp.Problem(cp.Minimize(cost), [A @ x <= pb, x >= data["lower"], x <= data["upper"]])
    episodes = []
    for budgets, contexts in zip(data["budgets"], data["contexts"]):
        b, usages, aborted = np.array(budgets), [], None
        for t, c in enumerate(contexts):
            pc.value, pl.value = np.array(c), np.array(data["multiplier"])
            pb.value = b - (data["steps"] - t - 1) * least
            try:
                problem.solve(**options)
                if x.value is None or not np.isfinite(x.value).all():
                    raise ValueError(problem.status)
            except Exception as error:
                aborted = str(error)[:60]
                break
            used = A @ x.value
            usages.append(used.tolist())
            b = b - used
        episodes.append(dict(budgets=budgets, usages=usages, aborted=aborted))
    say({"strict": dict(peer="cvxpy", variant=variant, episodes=episodes)})


for variant, options in (
    ("SCS", dict(solver="SCS")),
    ("SCS, eps 1e-8", dict(solver="SCS", eps=1e-8)),
    ("Clarabel", dict(solver="CLARABEL")),
    ("ECOS", dict(solver="ECOS")),
    ("Moreau", dict(solver="MOREAU")),
):
    attempt("cvxpy", "strict", variant, lambda: play(variant, **options))
serve(cvxpy=cp.__version__)
