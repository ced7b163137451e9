"""The layer and the episode in JAX."""

from __future__ import annotations

import laau
import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import laau.jax  # noqa: E402

ROWS = 12


@pytest.fixture(params=[True, False], ids=["double", "single"])
def double(request: pytest.FixtureRequest):
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    yield request.param
    jax.config.update("jax_enable_x64", before)


def queries(task: laau.Task) -> list[np.ndarray]:
    contexts = laau.generate(task, horizon=2, episodes=ROWS, seed=1).contexts[:, 0]
    _, budgets, _ = task.sizes
    rng = np.random.default_rng(2)
    return [contexts, rng.uniform(0.02, 0.3, (ROWS, budgets)), rng.uniform(2.0, 6.0, (ROWS, budgets))]


def test_the_layer_under_jit_vmap_and_grad(double: bool) -> None:
    task = laau.Task("wireless")
    layer = laau.jax.layer(task)
    given = queries(task)
    inputs = [jnp.asarray(array) for array in given]
    expected, _ = laau.Layer(task).forward(*[np.asarray(array, dtype=np.float64) for array in inputs])
    near = {"rtol": 1e-12 if double else 1e-5, "atol": 1e-12 if double else 1e-5}
    for apply in (layer, jax.jit(layer), jax.vmap(layer), jax.jit(jax.vmap(layer))):
        assert np.allclose(apply(*inputs), expected, **near)

    def total(*arguments: jax.Array) -> jax.Array:
        return (jnp.arange(1.0, 4.0) * layer(*arguments)).sum()

    gradients = jax.grad(total, argnums=(0, 1, 2))(*inputs)
    jitted = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(*inputs)
    by_row = jax.vmap(jax.grad(total, argnums=(0, 1, 2)))(*inputs)
    for one, two, three in zip(gradients, jitted, by_row, strict=True):
        assert np.allclose(one, two, **near)
        assert np.allclose(one, three, **near)
    assert layer.gradients.exact >= 3 * ROWS - layer.gradients.approximate
    # Against numpy's differences, in double precision.
    inner, doubles = laau.Layer(task), [np.asarray(array, dtype=np.float64) for array in inputs]
    for which in range(3):
        moved = [[array.copy() for array in doubles] for _ in range(2)]
        moved[0][which][0, 0] += 1e-6
        moved[1][which][0, 0] -= 1e-6
        above, below = ((np.arange(1.0, 4.0) * inner.forward(*arrays)[0]).sum() for arrays in moved)
        assert np.isclose((above - below) / 2e-6, gradients[which][0, 0], rtol=1e-3, atol=1e-4)


def test_one_argument_may_be_shared(double: bool) -> None:
    task = laau.Task("wireless")
    layer = laau.jax.layer(task)
    contexts, prices, available = (jnp.asarray(array) for array in queries(task))
    shared = jax.vmap(layer, in_axes=(0, None, 0))(contexts, prices[0], available)
    assert np.allclose(shared, layer(contexts, jnp.broadcast_to(prices[0], prices.shape), available))


def test_the_episode_under_jit_vmap_and_grad(double: bool) -> None:
    task = laau.Task("wireless")
    episodes = laau.generate(task, horizon=5, episodes=4, seed=3)
    play = laau.jax.episode(task)
    contexts, budgets = jnp.asarray(episodes.contexts), jnp.asarray(episodes.budgets)
    prices = jnp.full((4, 5, 2), 0.05)
    doubles = [np.asarray(array, dtype=np.float64) for array in (contexts, budgets, prices)]
    costs, in_prices, in_budgets = laau.Layer(task).episode(*doubles)
    near = {"rtol": 1e-12 if double else 1e-5, "atol": 1e-12 if double else 1e-5}
    assert np.allclose(jax.jit(play)(contexts, budgets, prices), costs, **near)
    assert np.allclose(jax.vmap(play)(contexts, budgets, prices), costs, **near)
    total = jax.jit(jax.grad(lambda *given: play(contexts, *given).sum(), argnums=(0, 1)))
    ours = total(budgets, prices)
    assert np.allclose(ours[0], in_budgets, **near)
    assert np.allclose(ours[1], in_prices, **near)
    assert play.gradients.exact + play.gradients.approximate > 0


def test_a_wrong_query_says_so() -> None:
    layer = laau.jax.layer("weighted-fairness")
    with pytest.raises(Exception, match="row 0: infeasible"):
        jax.block_until_ready(layer(jnp.full((2, 1), 0.5), jnp.full((2, 1), 0.1), jnp.zeros((2, 1))))
