"""The convex layer with cvxpylayers on torch: as it comes, tighter, and with other solvers."""
import warnings

from protocol import attempt, case, error, instances, serve

import cvxpy as cp
import cvxpylayers
import numpy as np
import torch
from cvxpylayers.torch import CvxpyLayer

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def build(data, **options):
    A = np.asarray(data["usage"])
    m, d = A.shape
    x = cp.Variable(d)
    c, lam, b = cp.Parameter(d, nonneg=True), cp.Parameter(m, nonneg=True), cp.Parameter(m)
    cost = -cp.sum(cp.multiply(c, cp.log(x))) + lam @ (A @ x)
    problem = cp.Problem(cp.Minimize(cost), [A @ x <= b, x >= data["lower"], x <= data["upper"]])
    return CvxpyLayer(problem, parameters=[c, lam, b], variables=[x], **options)


def measure(work, variant, data, options, arguments):
    layer = build(data, **options)
    w, A = torch.tensor(data["upstream"]), np.asarray(data["usage"])

    def run():
        inputs = [torch.tensor(data[key], requires_grad=True) for key in ("contexts", "multipliers", "remaining")]
        (x,) = layer(*inputs, solver_args=arguments) if arguments else layer(*inputs)
        (w * x).sum().backward()
        return x.detach().numpy(), [value.grad.numpy() for value in inputs]
    x, gradients = run()
    case("cvxpylayers", work, variant, run, units=len(x),
         error_action=error(x, data["x"]),
         error_gradient=max(error(g, data[key]) for g, key in zip(gradients, ("by_context", "by_multiplier", "by_remaining"))),
         violation=float(max(0.0, (x @ A.T - np.asarray(data["remaining"])).max())))


data = instances()
for work in ("layer-scalar", "layer-8x3"):
    for variant, options, arguments in (
        ("default (diffcp, SCS)", {}, {}),
        ("diffcp, SCS, eps 1e-8", {}, dict(solve_method="SCS", eps=1e-8)),
        ("diffcp, Clarabel", {}, dict(solve_method="CLARABEL")),
        ("diffcp, ECOS", {}, dict(solve_method="ECOS")),
        ("Moreau", dict(solver="MOREAU"), {}),
    ):
        attempt("cvxpylayers", work, variant, lambda: measure(work, variant, data[work], options, arguments))
serve(cvxpylayers=cvxpylayers.__version__, cvxpy=cp.__version__)
