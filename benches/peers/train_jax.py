"""The paper's training in JAX on one CPU, a hundred minibatches to one compiled call, and one decision of what it gives."""
import os
import sys

PRECISION = sys.argv[2]
from protocol import FOLDER, attempt, case, instances, serve  # noqa: E402
from jax_training import Training, episodes, jax, jnp, np  # noqa: E402

jax.config.update("jax_enable_x64", PRECISION == "f64")
DT = np.dtype("float64" if PRECISION == "f64" else "float32")
sizes = instances()["train"]
n, N, BATCH = sizes["episodes"], sizes["steps"], sizes["batch"]
TOGETHER = 100  # minibatches in one compiled call
training = Training(*episodes(os.path.join(FOLDER, "training.f64"), n, N, DT))
agreement = training.agreement()


def train(variant, grad):
    run, held = training.compiled(grad, BATCH, TOGETHER)
    for _ in range(5 * n // (TOGETHER * BATCH)):
        run()
    reached = float(jax.jit(training.utility)(training.unravel(held[0][0]), training.contexts, training.budgets))
    case("jax", "train", variant, run, units=TOGETHER, precision=PRECISION, utility=reached, error_gradient=agreement)


def decision():
    def one(v, b, c, r):
        P = training.unravel(v)
        W1, b1 = P[0]
        return training.decide(P, (W1[1] * c + W1[2] * (r / N) + b1)[:, None], b[None], c[None], r)[0]
    compiled = jax.jit(one)
    on_device = (training.start, jnp.asarray(250.0, DT), jnp.asarray(0.3, DT), jnp.asarray(19.0, DT))

    def device():
        for _ in range(50):
            compiled(*on_device).block_until_ready()

    def host():
        for _ in range(50):
            float(compiled(training.start, DT.type(250.0), DT.type(0.3), DT.type(19.0)))
    case("jax", "decision", "jit, arguments on the device", device, units=50, precision=PRECISION)
    case("jax", "decision", "jit, floats in and out", host, units=50, precision=PRECISION)


attempt("jax", "train", "hand-written adjoint", lambda: train("hand-written adjoint", training.grad_manual))
attempt("jax", "train", "jax.grad", lambda: train("jax.grad", training.grad_auto))
if PRECISION == "f64":
    attempt("jax", "decision", "jit", decision)
serve(jax=jax.__version__)
