"""The paper's training in JAX on one CPU: a hundred minibatches are one compiled call, minibatches and steps are scans, parameters one flat
vector, the part of the first layer that does not depend on the budget is hoisted out of the recurrence, weight gradients are
contractions after the backward scan. `jax.grad` differentiates the same forward pass."""
import os
import sys

PRECISION = sys.argv[2]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Measured fastest for kernels as small as these.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false "
                      "--xla_cpu_enable_concurrency_optimized_scheduler=false")
from protocol import FOLDER, attempt, case, instances, serve  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.flatten_util import ravel_pytree  # noqa: E402

jax.config.update("jax_enable_x64", PRECISION == "f64")
DT = np.dtype("float64" if PRECISION == "f64" else "float32")
sizes = instances()["train"]
n, N, BATCH = sizes["episodes"], sizes["steps"], sizes["batch"]
raw = np.fromfile(os.path.join(FOLDER, "training.f64"), "<f8")
contexts, budgets = raw[: n * N].reshape(n, N).astype(DT), raw[n * N:].astype(DT)
LOWER, UPPER, WIDTH = 1.0, 40.0, 10
TOGETHER = 100  # minibatches in one compiled call
left = np.arange(N - 1, -1, -1).astype(DT)

# Prices are in units of the multiplier that is right on average.
low, high = 1e-6, 10.0
for _ in range(60):
    mid = np.sqrt(low * high)
    spends = np.clip(contexts / mid, LOWER, UPPER).sum(1).mean() > budgets.mean()
    low, high = (mid, high) if spends else (low, mid)
UNIT = float(np.sqrt(low * high)) / np.log(2.0)


def init(key):
    layers = []
    for k, (a, b) in zip(jax.random.split(key, 3), ((3, WIDTH), (WIDTH, WIDTH), (WIDTH, 1))):
        limit = np.sqrt(6.0 / (a + b))
        layers.append((jax.random.uniform(k, (a, b), DT, -limit, limit), jnp.zeros(b, DT)))
    return layers


def product(W, h):
    return (W[:, :, None] * h[:, None, :]).sum(0)


def decide(P, pre, b, c, r):
    (W1, _), (W2, b2), (W3, b3) = P
    h = jax.nn.relu(pre + W1[0][:, None] * (b / (12.5 * N))[None])
    h = jax.nn.relu(product(W2, h) + b2[:, None])
    price = UNIT * jax.nn.softplus((W3 * h).sum(0) + b3[0])
    x = jnp.minimum(jnp.minimum(c / jnp.maximum(price, 1e-6), UPPER), b - r * LOWER)
    return jnp.maximum(x, LOWER)


def utility(P, c, B):
    W1, b1 = P[0]
    ct = c.T
    pre = W1[1][None, :, None] * ct[:, None, :] + W1[2][None, :, None] * (left / N)[:, None, None] + b1[None, :, None]

    def step(b, inputs):
        x = decide(P, inputs[1], b, inputs[0], inputs[2])
        return b - x, x
    b, X = lax.scan(step, B, (ct[:-1], pre[:-1], jnp.asarray(left[:-1])))
    # The last step is free.
    total = (ct[:-1] * jnp.log(X)).sum() + (ct[-1] * jnp.log(jnp.minimum(b, UPPER))).sum()
    return total / (N * c.shape[0])


v0, unravel = ravel_pytree(init(jax.random.PRNGKey(0)))
grad_auto = jax.grad(lambda v, c, B: -utility(unravel(v), c, B))


def grad_manual(v, c, B):
    (W1, b1), (W2, b2), (W3, b3) = unravel(v)
    ct, scale = c.T, 1.0 / (12.5 * N)
    w = W1[0][:, None] * scale
    pre = W1[1][None, :, None] * ct[:-1, None, :] + W1[2][None, :, None] * (left[:-1] / N)[:, None, None] + b1[None, :, None]

    def forward(b, inputs):
        cc, pr, r = inputs
        h1 = jnp.maximum(pr + w * b[None], 0.0)
        h2 = jnp.maximum(product(W2, h1) + b2[:, None], 0.0)
        z = (W3 * h2).sum(0) + b3[0]
        e = jnp.exp(-jnp.abs(z))
        softplus = jnp.maximum(z, 0) + jnp.log1p(e)
        xi, up = cc / jnp.maximum(UNIT * softplus, 1e-6), b - r * LOWER
        x = jnp.maximum(jnp.minimum(jnp.minimum(xi, UPPER), up), LOWER)
        inner = (xi > LOWER) & (xi < UPPER) & (xi < up)
        dxdz = jnp.where(inner, -xi / softplus * jnp.where(z >= 0, 1.0, e) / (1 + e), 0.0)
        dxdb = ((up <= xi) & (up < UPPER) & (up > LOWER)).astype(DT)
        return b - x, (b, h1, h2, x, dxdz, dxdb)
    bN, (bb, h1, h2, X, dxdz, dxdb) = lax.scan(forward, B, (ct[:-1], pre, jnp.asarray(left[:-1])))
    k = -1.0 / (N * c.shape[0])
    gb = k * jnp.where(bN < UPPER, ct[-1] / bN, 0.0)

    def backward(gb, inputs):
        gx, dz, db, h1, h2 = inputs
        q = gx - gb
        gz = q * dz
        d2 = jnp.where(h2 > 0, W3 * gz[None], 0.0)
        d1 = jnp.where(h1 > 0, (W2[:, :, None] * d2[None]).sum(1), 0.0)
        return gb + q * db + (w * d1).sum(0), (gz, d2, d1)
    _, (gz, d2, d1) = lax.scan(backward, gb, (k * ct[:-1] / X, dxdz, dxdb, h1, h2), reverse=True)
    gW1 = jnp.stack([jnp.einsum("tb,tob->o", bb, d1) * scale, jnp.einsum("tb,tob->o", ct[:-1], d1),
                     jnp.einsum("t,tob->o", left[:-1] / N, d1)])
    return jnp.concatenate([gW1.ravel(), d1.sum((0, 2)), jnp.einsum("tib,tob->io", h1, d2).ravel(), d2.sum((0, 2)),
                            jnp.einsum("tib,tb->i", h2, gz), gz.sum()[None]])


C, B = jnp.asarray(contexts), jnp.asarray(budgets)
auto, manual = grad_auto(v0, C[:50], B[:50]), grad_manual(v0, C[:50], B[:50])
agreement = float(jnp.abs(auto - manual).max() / jnp.abs(auto).max())


def minibatches_of(grad):
    def minibatches(state, order, rate, C, B):
        def minibatch(s, inputs):
            v, m, q, k = s
            g = grad(v, *inputs)
            m = 0.9 * m + 0.1 * g
            q = 0.999 * q + 0.001 * g * g
            a = rate * jnp.sqrt(1 - 0.999**k) / (1 - 0.9**k)
            return (v - a * m / (jnp.sqrt(q) + 1e-8), m, q, k + 1), None
        batches = (C[order].reshape(TOGETHER, BATCH, N), B[order].reshape(TOGETHER, BATCH))
        return lax.scan(minibatch, state, batches)[0]
    return minibatches


def train(variant, grad):
    start = (v0, jnp.zeros_like(v0), jnp.zeros_like(v0), jnp.asarray(1.0, DT))
    rng, size = np.random.default_rng(1), TOGETHER * BATCH
    rate = jnp.asarray(5e-3, DT)
    # Shuffled outside what is timed.
    orders = [jnp.asarray(part) for _ in range(10) for part in rng.permutation(n)[: n // size * size].reshape(-1, size)]
    compiled = jax.jit(minibatches_of(grad)).lower(start, orders[0], rate, C, B).compile()
    held = [start, 0]

    def run():
        held[0] = jax.block_until_ready(compiled(held[0], orders[held[1] % len(orders)], rate, C, B))
        held[1] += 1
    for _ in range(5 * n // size):
        run()
    reached = float(jax.jit(utility)(unravel(held[0][0]), C, B))
    case("jax", "train", variant, run, units=TOGETHER, precision=PRECISION, utility=reached, error_gradient=agreement)


def decision():
    def one(v, b, c, r):
        P = unravel(v)
        W1, b1 = P[0]
        return decide(P, (W1[1] * c + W1[2] * (r / N) + b1)[:, None], b[None], c[None], r)[0]
    compiled = jax.jit(one)
    on_device = (v0, jnp.asarray(250.0, DT), jnp.asarray(0.3, DT), jnp.asarray(19.0, DT))

    def device():
        for _ in range(50):
            compiled(*on_device).block_until_ready()

    def host():
        for _ in range(50):
            float(compiled(v0, DT.type(250.0), DT.type(0.3), DT.type(19.0)))
    case("jax", "decision", "jit, arguments on the device", device, units=50, precision=PRECISION)
    case("jax", "decision", "jit, floats in and out", host, units=50, precision=PRECISION)


attempt("jax", "train", "hand-written adjoint", lambda: train("hand-written adjoint", grad_manual))
attempt("jax", "train", "jax.grad", lambda: train("jax.grad", grad_auto))
if PRECISION == "f64":
    attempt("jax", "decision", "jit", decision)
serve(jax=jax.__version__)
