"""The convex layer in JAX, compiled and mapped over the batch, in doubles: the closed form (scalar), an interior point of a fixed
number of steps with a hand-written KKT adjoint, the same with every system reduced to the budgets, and the same forward under
jaxopt's implicit differentiation."""
import os
from importlib.metadata import version

from protocol import attempt, case, error, failed, instances, say, serve

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)
try:
    import jaxopt
except ImportError as missing:
    jaxopt = None
    absent = missing


def make(A, lower, upper, start, iterations):
    A = jnp.asarray(A)
    m, d = A.shape
    G = jnp.concatenate([A, jnp.eye(d), -jnp.eye(d)])

    def limits(b):
        return jnp.concatenate([b, jnp.full(d, upper), jnp.full(d, -lower)])

    def solve(c, lam, b):
        h = limits(b)

        def step(carry, _):
            x, z = carry
            s = h - G @ x
            mu = s @ z / len(h)
            t = 0.1 * mu
            W = z / s
            K = jnp.diag(c / x**2) + (G.T * W) @ G
            right = c / x - A.T @ lam - G.T @ z + G.T @ (z - t / s)
            dx = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(K), right)
            ds = -G @ dx
            dz = t / s - z - W * ds
            room = lambda v, dv: jnp.min(jnp.where(dv < 0, v / jnp.where(dv < 0, -dv, 1.0), jnp.inf))
            a = jnp.minimum(1.0, 0.995 * jnp.minimum(room(s, ds), jnp.minimum(room(z, dz), room(x, dx))))
            go = mu > 1e-12
            return (x + jnp.where(go, a * dx, 0.0), z + jnp.where(go, a * dz, 0.0)), None
        x = jnp.full(d, start)
        (x, z), _ = jax.lax.scan(step, (x, 1.0 / (h - G @ x)), None, length=iterations)
        return x, z, h - G @ x

    @jax.custom_vjp
    def layer(c, lam, b):
        return solve(c, lam, b)[0]

    def forward(c, lam, b):
        x, z, s = solve(c, lam, b)
        return x, (c, x, z, s)

    def backward(kept, w):
        c, x, z, s = kept
        W = z / s
        K = jnp.diag(c / x**2) + (G.T * W) @ G
        v = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(K), w)
        return v / x, -A @ v, (W * (G @ v))[:m]
    layer.defvjp(forward, backward)
    if jaxopt is None:
        return layer, None

    def conditions(xz, c, lam, b):
        x, z = xz[:d], xz[d:]
        s = limits(b) - G @ x
        return jnp.concatenate([-c / x + A.T @ lam + G.T @ z, z * s - jax.lax.stop_gradient(z * s)])

    @jaxopt.implicit_diff.custom_root(conditions, solve=jaxopt.linear_solve.solve_lu, has_aux=False)
    def root(_, c, lam, b):
        x, z, _ = solve(c, lam, b)
        return jnp.concatenate([x, z])
    return layer, lambda c, lam, b: root(None, c, lam, b)[:d]


def make_reduced(A, lower, upper, start, iterations):
    """The same interior point and adjoint with every system reduced to one row per budget: the box and the utility are diagonal."""
    A = jnp.asarray(A)
    m, d = A.shape

    def system(D, W):
        """Solves (D + A'WA) v = r by a Cholesky of M rows."""
        factor = jax.scipy.linalg.cho_factor(jnp.diag(1 / W) + (A / D) @ A.T)
        return lambda r: (r - A.T @ jax.scipy.linalg.cho_solve(factor, A @ (r / D))) / D

    def slacks(x, b):
        return b - A @ x, upper - x, x - lower

    def room(v, dv):
        return jnp.min(jnp.where(dv < 0, v / jnp.where(dv < 0, -dv, 1.0), jnp.inf))

    def solve(c, lam, b):
        def step(carry, _):
            x, z = carry
            s = slacks(x, b)
            mu = sum(jnp.vdot(a, e) for a, e in zip(s, z)) / (m + 2 * d)
            t = 0.1 * mu
            W = [e / a for a, e in zip(s, z)]
            right = c / x - A.T @ (lam + t / s[0]) - t / s[1] + t / s[2]
            dx = system(c / x**2 + W[1] + W[2], W[0])(right)
            ds = (-A @ dx, -dx, dx)
            dz = [t / a - e - w * da for a, e, w, da in zip(s, z, W, ds)]
            rooms = [room(x, dx)] + [room(v, dv) for v, dv in zip((*s, *z), (*ds, *dz))]
            a = jnp.minimum(1.0, 0.995 * jnp.stack(rooms).min())
            go = mu > 1e-12
            return (x + jnp.where(go, a * dx, 0.0), tuple(e + jnp.where(go, a * de, 0.0) for e, de in zip(z, dz))), None
        x = jnp.full(d, start)
        (x, z), _ = jax.lax.scan(step, (x, tuple(1.0 / a for a in slacks(x, b))), None, length=iterations)
        return x, z, slacks(x, b)

    @jax.custom_vjp
    def layer(c, lam, b):
        return solve(c, lam, b)[0]

    def forward(c, lam, b):
        x, z, s = solve(c, lam, b)
        return x, (c, x, z, s)

    def backward(kept, w):
        c, x, z, s = kept
        W = [e / a for a, e in zip(s, z)]
        v = system(c / x**2 + W[1] + W[2], W[0])(w)
        return v / x, -A @ v, W[0] * (A @ v)
    layer.defvjp(forward, backward)
    return layer


def measure(peer, work, variant, layer, data):
    c, lam, b = (jnp.asarray(data[key]) for key in ("contexts", "multipliers", "remaining"))
    w, A = jnp.asarray(data["upstream"]), np.asarray(data["usage"])
    mapped = jax.vmap(layer)
    both = jax.jit(jax.value_and_grad(lambda c, lam, b: jnp.sum(w * mapped(c, lam, b)), argnums=(0, 1, 2)))
    gradients = both(c, lam, b)[1]
    x = np.asarray(jax.jit(mapped)(c, lam, b))
    facts = dict(
        error_action=error(x, data["x"]),
        error_gradient=max(error(g, data[key]) for g, key in zip(gradients, ("by_context", "by_multiplier", "by_remaining"))),
        violation=float(max(0.0, (x @ A.T - np.asarray(data["remaining"])).max())),
    )
    case(peer, work, variant, lambda: jax.block_until_ready(both(c, lam, b)), units=len(c), **facts)


def latency(layer, data):
    rows = [tuple(jnp.asarray(data[key][i]) for key in ("contexts", "multipliers", "remaining")) for i in range(10)]
    one = jax.jit(layer)
    x = np.array([one(*row) for row in rows])
    A = np.asarray(data["usage"])

    def run():
        for row in rows:
            one(*row).block_until_ready()
    case("jax", "solve-8x3", "interior point, jit", run, units=10, error_action=error(x, data["x"]),
         violation=float(max(0.0, (x @ A.T - np.asarray(data["remaining"])).max())))


def strict(layer, data):
    A, least = np.asarray(data["usage"]), np.asarray(data["usage"]) @ np.full(len(data["usage"][0]), data["lower"])
    one, episodes = jax.jit(layer), []
    price = jnp.asarray(data["multiplier"])
    for budgets, contexts in zip(data["budgets"], data["contexts"]):
        b, usages, aborted = np.array(budgets), [], None
        for t, c in enumerate(contexts):
            x = np.asarray(one(jnp.asarray(c), price, jnp.asarray(b - (data["steps"] - t - 1) * least)))
            if not np.isfinite(x).all():
                aborted = "not a number"
                break
            used = A @ x
            usages.append(used.tolist())
            b = b - used
        episodes.append(dict(budgets=budgets, usages=usages, aborted=aborted))
    say({"strict": dict(peer="jax", variant="interior point from the lower corner", episodes=episodes)})


data = instances()
scalar, several = data["layer-scalar"], data["layer-8x3"]
closed = lambda c, lam, b: jnp.clip(c / lam, 1.0, jnp.minimum(40.0, b))
attempt("jax", "layer-scalar", "closed form", lambda: measure("jax", "layer-scalar", "closed form", closed, scalar))
for work, problem, start in (("layer-scalar", scalar, 1.5), ("layer-8x3", several, 0.2)):
    hand, root = make(problem["usage"], problem["lower"], problem["upper"], start, 22)
    attempt("jax", work, "interior point, KKT adjoint",
            lambda: measure("jax", work, "interior point, KKT adjoint", hand, problem))
    if root is None:
        failed("jaxopt", work, "custom_root", absent)
    else:
        attempt("jaxopt", work, "custom_root over the same interior point",
                lambda: measure("jaxopt", work, "custom_root over the same interior point", root, problem))
for work, problem in (("layer-8x3", several), *data["wide"].items()):
    reduced = make_reduced(problem["usage"], problem["lower"], problem["upper"], 0.2, 22 if work == "layer-8x3" else 40)
    attempt("jax", work, "interior point, M × M", lambda: measure("jax", work, "interior point, M × M", reduced, problem))
hand = make(several["usage"], several["lower"], several["upper"], 0.2, 22)[0]
attempt("jax", "solve-8x3", "interior point, jit", lambda: latency(hand, several))
# A start in the middle of nothing: episodes end with little room above the lower corner.
tight = make(data["strict"]["usage"], data["strict"]["lower"], data["strict"]["upper"], 0.1 + 1e-4, 40)[0]
attempt("jax", "strict", "interior point from the lower corner", lambda: strict(tight, data["strict"]))
serve(jax=jax.__version__, **({"jaxopt": version("jaxopt")} if jaxopt else {}))
