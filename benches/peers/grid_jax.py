"""Training in JAX over a grid of sizes: `grid_jax.py FOLDER PRECISION THREADS`. Fastest forms only: the adjoint by hand, products as
sums and as matrix products."""
import os
import sys

PRECISION, THREADS = sys.argv[2], int(sys.argv[3])
# As many threads as it may have processors: XLA asks for those when it starts.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
from protocol import FOLDER, attempt, case, instances, serve  # noqa: E402
from jax_training import Training, episodes, jax, np  # noqa: E402

jax.config.update("jax_enable_x64", PRECISION == "f64")
DT = np.dtype("float64" if PRECISION == "f64" else "float32")
grid = instances()["grid"]


def train(steps, batch, width, form):
    name = f"grid/N={steps},batch={batch},width={width}"
    variant = f"hand-written adjoint, {form}" + (f", {THREADS} threads" if THREADS > 1 else "")

    def make():
        path = os.path.join(FOLDER, f"grid-{steps}.f64")
        training = Training(*episodes(path, grid["episodes"], steps, DT), width=width, form=form)
        together = max(1, min(100, 40_000_000 // (steps * batch * width * (width + 10))))
        run, _ = training.compiled(training.grad_manual, batch, together)
        case("jax", name, variant, run, units=together, precision=PRECISION)
    attempt("jax", name, variant, make)


for steps in grid["steps"]:
    for batch in grid["batches"]:
        for width in grid["widths"]:
            for form in ("sum", "dot"):
                train(steps, batch, width, form)
serve(jax=jax.__version__)
