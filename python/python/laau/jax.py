"""The layer and the whole episode as operations of JAX, under `jit` and `vmap`.

>>> import jax, jax.numpy as jnp, laau.jax
>>> layer = laau.jax.layer("weighted-fairness")
>>> def total(prices):
...     return layer(jnp.full((10, 1), 0.5), prices, jnp.full((10, 1), 30.0)).sum()
>>> jax.jit(jax.grad(total))(jnp.full((10, 1), 0.05)).shape
(10, 1)
>>> layer.gradients
Gradients(exact=10, approximate=0)

They run on the host, by callbacks. Without `jax_enable_x64` what goes in and comes out has single precision; what is
computed between has double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _laau
from ._laau import Task
from ._types import Array


class Gradients(NamedTuple):
    """How many gradients were exact, and how many a substitute where there is none (at kinks)."""

    exact: int
    approximate: int


class Operation:
    """An operation of arrays that JAX can differentiate, and that counts its gradients.

    JAX may run a callback more often than it is written, or leave it out where its result is not used: the
    counts are of what was computed.
    """

    def __init__(self, task: Task, inner: _laau.Layer, apply: Callable[..., jax.Array]) -> None:
        self.task = task
        self._inner = inner
        self._apply = apply

    def __call__(self, *arguments: Any) -> jax.Array:
        return self._apply(*arguments)

    @property
    def gradients(self) -> Gradients:
        """How many gradients there were so far, by whether they are exact."""
        return Gradients(*self._inner.gradients)


def _doubles(*arrays: Any) -> list[Array]:
    return [np.asarray(array, dtype=np.float64) for array in arrays]


def _like(array: jax.Array, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, array.dtype)


def _call(host: Callable[..., Any], results: Any, *arguments: jax.Array) -> Any:
    return jax.pure_callback(host, results, *arguments, vmap_method="broadcast_all")


def _float_arrays(*arrays: Any) -> list[jax.Array]:
    """Arrays of one kind of float."""
    given = [jnp.asarray(array) for array in arrays]
    kind = jnp.result_type(*given, jnp.float32)
    return [array.astype(kind) for array in given]


def layer(task: Task | str) -> Operation:
    """The convex layer of a task: `layer(task)(contexts, multipliers, available)` gives the actions.

    Contexts (…, c), multipliers (…, M), available budgets (…, M); differentiable in all three.
    """
    task = Task(task) if isinstance(task, str) else task
    inner = _laau.Layer(task)
    actions, budgets, _ = task.sizes
    width = budgets + 2 * actions + 1

    def solve(*arguments: Any) -> tuple[Any, ...]:
        kind = arguments[1].dtype
        found, state = inner.forward(*_doubles(*arguments))
        return found.astype(kind, copy=False), state.astype(kind, copy=False)

    def pull(contexts: Any, multipliers: Any, available: Any, found: Any, state: Any, upstream: Any) -> tuple[Any, ...]:
        kind = multipliers.dtype
        query = _doubles(contexts, multipliers, available)
        if kind != np.float64:
            # Which constraints are active is told by last digits, which single precision has lost.
            found, state = inner.forward(*query)
        solved = _doubles(found, state, upstream)
        in_multipliers, in_available, in_contexts = inner.backward(*query[:3], *solved[:3], with_contexts=True)  # type: ignore[arg-type, misc]
        assert in_contexts is not None
        return tuple(array.astype(kind, copy=False) for array in (in_contexts, in_multipliers, in_available))

    def forward(contexts: jax.Array, multipliers: jax.Array, available: jax.Array) -> tuple[jax.Array, Any]:
        rows = multipliers.shape[:-1]
        results = (_like(multipliers, *rows, actions), _like(multipliers, *rows, width))
        found, state = _call(solve, results, contexts, multipliers, available)
        return found, (contexts, multipliers, available, found, state)

    def backward(kept: Any, upstream: jax.Array) -> Any:
        contexts, multipliers, available, _, _ = kept
        results = tuple(_like(array, *array.shape) for array in (contexts, multipliers, available))
        return _call(pull, results, *kept, upstream)

    @jax.custom_vjp
    def apply(contexts: jax.Array, multipliers: jax.Array, available: jax.Array) -> jax.Array:
        return forward(contexts, multipliers, available)[0]

    apply.defvjp(forward, backward)
    return Operation(task, inner, lambda *arguments: apply(*_float_arrays(*arguments)))


def episode(task: Task | str) -> Operation:
    """Whole episodes of a task: `episode(task)(contexts, budgets, multipliers)` gives their costs.

    Contexts (…, N, c), budgets (…, M), prices (…, N, M); differentiable in budgets and prices, by the true chain rule
    through every step. The gradient in the contexts is not computed, and is zero: stop it with `jax.lax.stop_gradient`.
    """
    task = Task(task) if isinstance(task, str) else task
    inner = _laau.Layer(task)

    def play(*arguments: Any) -> tuple[Any, ...]:
        kind = arguments[2].dtype
        costs, in_multipliers, in_budgets = inner.episode(*_doubles(*arguments))
        return tuple(np.asarray(array).astype(kind, copy=False) for array in (costs, in_budgets, in_multipliers))

    def forward(contexts: jax.Array, budgets: jax.Array, multipliers: jax.Array) -> tuple[jax.Array, Any]:
        results = (
            _like(multipliers, *multipliers.shape[:-2]),
            _like(budgets, *budgets.shape),
            _like(multipliers, *multipliers.shape),
        )
        costs, in_budgets, in_multipliers = _call(play, results, contexts, budgets, multipliers)
        return costs, (contexts, in_budgets, in_multipliers)

    def backward(kept: Any, upstream: jax.Array) -> Any:
        contexts, in_budgets, in_multipliers = kept
        return (
            jnp.zeros_like(contexts),
            upstream[..., None] * in_budgets,
            upstream[..., None, None] * in_multipliers,
        )

    @jax.custom_vjp
    def apply(contexts: jax.Array, budgets: jax.Array, multipliers: jax.Array) -> jax.Array:
        return forward(contexts, budgets, multipliers)[0]

    apply.defvjp(forward, backward)
    return Operation(task, inner, lambda *arguments: apply(*_float_arrays(*arguments)))
