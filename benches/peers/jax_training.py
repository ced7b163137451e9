"""The paper's training in JAX, for episodes of any length and networks of any width, written to be as fast as JAX gets: minibatches and
steps are scans, parameters one flat vector, the part of the first layer that does not depend on the budget is hoisted out of the
recurrence, weight gradients are contractions after the backward scan. `jax.grad` differentiates the same forward pass. Products by
weights are sums of products (`sum`), which are fastest when small, or matrix products (`dot`).

The flags below are set before JAX is imported: this module comes first."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Measured fastest for kernels as small as these.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false "
                      "--xla_cpu_enable_concurrency_optimized_scheduler=false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.flatten_util import ravel_pytree  # noqa: E402

LOWER, UPPER = 1.0, 40.0


def episodes(path, count, steps, dtype):
    """Contexts (episodes x steps) and budgets (episodes) of a file of `instances.py`."""
    raw = np.fromfile(path, "<f8")
    return raw[: count * steps].reshape(count, steps).astype(dtype), raw[count * steps:].astype(dtype)


class Training:
    def __init__(self, contexts, budgets, width=10, form="sum"):
        self.form, self.dtype, self.steps = form, contexts.dtype, contexts.shape[1]
        self.left = np.arange(self.steps - 1, -1, -1).astype(self.dtype)
        # Prices are in units of the multiplier that is right on average.
        low, high = 1e-6, 10.0
        for _ in range(60):
            mid = np.sqrt(low * high)
            spends = np.clip(contexts / mid, LOWER, UPPER).sum(1).mean() > budgets.mean()
            low, high = (mid, high) if spends else (low, mid)
        self.unit = float(np.sqrt(low * high)) / np.log(2.0)
        self.contexts, self.budgets = jnp.asarray(contexts), jnp.asarray(budgets)
        layers, sizes = [], ((3, width), (width, width), (width, 1))
        for key, (a, b) in zip(jax.random.split(jax.random.PRNGKey(0), 3), sizes):
            limit = np.sqrt(6.0 / (a + b))
            layers.append((jax.random.uniform(key, (a, b), self.dtype, -limit, limit), jnp.zeros(b, self.dtype)))
        self.start, self.unravel = ravel_pytree(layers)
        self.grad_auto = jax.grad(lambda v, c, B: -self.utility(self.unravel(v), c, B))

    def product(self, W, h):
        return (W[:, :, None] * h[:, None, :]).sum(0) if self.form == "sum" else W.T @ h

    def product_back(self, W, d):
        return (W[:, :, None] * d[None]).sum(1) if self.form == "sum" else W @ d

    def decide(self, P, pre, b, c, r):
        (W1, _), (W2, b2), (W3, b3) = P
        h = jax.nn.relu(pre + W1[0][:, None] * (b / (12.5 * self.steps))[None])
        h = jax.nn.relu(self.product(W2, h) + b2[:, None])
        price = self.unit * jax.nn.softplus((W3 * h).sum(0) + b3[0])
        x = jnp.minimum(jnp.minimum(c / jnp.maximum(price, 1e-6), UPPER), b - r * LOWER)
        return jnp.maximum(x, LOWER)

    def utility(self, P, c, B):
        N, left = self.steps, self.left
        W1, b1 = P[0]
        ct = c.T
        pre = W1[1][None, :, None] * ct[:, None, :] + W1[2][None, :, None] * (left / N)[:, None, None] + b1[None, :, None]

        def step(b, inputs):
            x = self.decide(P, inputs[1], b, inputs[0], inputs[2])
            return b - x, x
        b, X = lax.scan(step, B, (ct[:-1], pre[:-1], jnp.asarray(left[:-1])))
        # The last step is free.
        total = (ct[:-1] * jnp.log(X)).sum() + (ct[-1] * jnp.log(jnp.minimum(b, UPPER))).sum()
        return total / (N * c.shape[0])

    def grad_manual(self, v, c, B):
        N, left = self.steps, self.left
        (W1, b1), (W2, b2), (W3, b3) = self.unravel(v)
        ct, scale = c.T, 1.0 / (12.5 * N)
        w = W1[0][:, None] * scale
        pre = (W1[1][None, :, None] * ct[:-1, None, :] + W1[2][None, :, None] * (left[:-1] / N)[:, None, None]
               + b1[None, :, None])

        def forward(b, inputs):
            cc, pr, r = inputs
            h1 = jnp.maximum(pr + w * b[None], 0.0)
            h2 = jnp.maximum(self.product(W2, h1) + b2[:, None], 0.0)
            z = (W3 * h2).sum(0) + b3[0]
            e = jnp.exp(-jnp.abs(z))
            softplus = jnp.maximum(z, 0) + jnp.log1p(e)
            xi, up = cc / jnp.maximum(self.unit * softplus, 1e-6), b - r * LOWER
            x = jnp.maximum(jnp.minimum(jnp.minimum(xi, UPPER), up), LOWER)
            inner = (xi > LOWER) & (xi < UPPER) & (xi < up)
            dxdz = jnp.where(inner, -xi / softplus * jnp.where(z >= 0, 1.0, e) / (1 + e), 0.0)
            dxdb = ((up <= xi) & (up < UPPER) & (up > LOWER)).astype(self.dtype)
            return b - x, (b, h1, h2, x, dxdz, dxdb)
        bN, (bb, h1, h2, X, dxdz, dxdb) = lax.scan(forward, B, (ct[:-1], pre, jnp.asarray(left[:-1])))
        k = -1.0 / (N * c.shape[0])
        gb = k * jnp.where(bN < UPPER, ct[-1] / bN, 0.0)

        def backward(gb, inputs):
            gx, dz, db, h1, h2 = inputs
            q = gx - gb
            gz = q * dz
            d2 = jnp.where(h2 > 0, W3 * gz[None], 0.0)
            d1 = jnp.where(h1 > 0, self.product_back(W2, d2), 0.0)
            return gb + q * db + (w * d1).sum(0), (gz, d2, d1)
        _, (gz, d2, d1) = lax.scan(backward, gb, (k * ct[:-1] / X, dxdz, dxdb, h1, h2), reverse=True)
        gW1 = jnp.stack([jnp.einsum("tb,tob->o", bb, d1) * scale, jnp.einsum("tb,tob->o", ct[:-1], d1),
                         jnp.einsum("t,tob->o", left[:-1] / N, d1)])
        return jnp.concatenate([gW1.ravel(), d1.sum((0, 2)), jnp.einsum("tib,tob->io", h1, d2).ravel(), d2.sum((0, 2)),
                                jnp.einsum("tib,tb->i", h2, gz), gz.sum()[None]])

    def agreement(self):
        """Of the gradient by hand with that by `jax.grad`, relative."""
        c, B = self.contexts[:50], self.budgets[:50]
        auto, manual = self.grad_auto(self.start, c, B), self.grad_manual(self.start, c, B)
        return float(jnp.abs(auto - manual).max() / jnp.abs(auto).max())

    def compiled(self, grad, batch, together):
        """What does `together` minibatches at a call, Adam included; one state after the other, shuffled outside what is timed."""
        def minibatches(state, order, rate, C, B):
            def minibatch(s, inputs):
                v, m, q, k = s
                g = grad(v, *inputs)
                m = 0.9 * m + 0.1 * g
                q = 0.999 * q + 0.001 * g * g
                a = rate * jnp.sqrt(1 - 0.999**k) / (1 - 0.9**k)
                return (v - a * m / (jnp.sqrt(q) + 1e-8), m, q, k + 1), None
            batches = (C[order].reshape(together, batch, self.steps), B[order].reshape(together, batch))
            return lax.scan(minibatch, state, batches)[0]
        zeros = jnp.zeros_like(self.start)
        state = (self.start, zeros, zeros, jnp.asarray(1.0, self.dtype))
        rng, size, count = np.random.default_rng(1), together * batch, len(self.budgets)
        rate = jnp.asarray(5e-3, self.dtype)
        places = np.concatenate([rng.permutation(count) for _ in range(max(10, -(-size // count)))])
        orders = [jnp.asarray(part) for part in places[: len(places) // size * size].reshape(-1, size)]
        call = jax.jit(minibatches).lower(state, orders[0], rate, self.contexts, self.budgets).compile()
        held = [state, 0]

        def run():
            order = orders[held[1] % len(orders)]
            held[0] = jax.block_until_ready(call(held[0], order, rate, self.contexts, self.budgets))
            held[1] += 1
        return run, held
