"""The layer and the whole episode as operations of PyTorch.

>>> import laau.torch, torch
>>> layer = laau.torch.Layer("weighted-fairness")
>>> prices = torch.full((10, 1), 0.05, dtype=torch.float64, requires_grad=True)
>>> contexts = torch.full((10, 1), 0.5, dtype=torch.float64)
>>> available = torch.full((10, 1), 30.0, dtype=torch.float64)
>>> layer(contexts, prices, available).sum().backward()
>>> layer.gradients
Gradients(exact=10, approximate=0)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from . import _laau
from ._laau import Task
from ._types import Array


class Gradients(NamedTuple):
    """How many gradients were exact, and how many a substitute where there is none (at kinks)."""

    exact: int
    approximate: int


def _numpy(tensor: torch.Tensor) -> Array:
    """The tensor's numbers; in place if they are float64 and in this machine's memory."""
    array: Array = tensor.detach().cpu().numpy()
    return array if array.dtype == np.float64 else array.astype(np.float64)


def _tensor(array: Array, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(array).to(dtype=like.dtype, device=like.device)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        layer: _laau.Layer,
        contexts: torch.Tensor,
        multipliers: torch.Tensor,
        available: torch.Tensor,
    ) -> torch.Tensor:
        actions, state = layer.forward(_numpy(contexts), _numpy(multipliers), _numpy(available))
        ctx.save_for_backward(contexts, multipliers, available)
        # The solution stays in float64, whatever the tensors are: which constraints are active is told by last digits.
        ctx.solved = layer, actions, state
        return _tensor(actions, multipliers) if multipliers.dtype != torch.float64 else torch.from_numpy(actions)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        contexts, multipliers, available = ctx.saved_tensors
        layer, actions, state = ctx.solved
        in_multipliers, in_available, in_contexts = layer.backward(
            _numpy(contexts),
            _numpy(multipliers),
            _numpy(available),
            actions,
            state,
            _numpy(upstream),
            ctx.needs_input_grad[1],
        )
        return (
            None,
            None if in_contexts is None else _tensor(in_contexts, contexts),
            _tensor(in_multipliers, multipliers),
            _tensor(in_available, available),
        )


class _Episode(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        layer: _laau.Layer,
        contexts: torch.Tensor,
        budgets: torch.Tensor,
        multipliers: torch.Tensor,
    ) -> torch.Tensor:
        costs, in_multipliers, in_budgets = layer.episode(_numpy(contexts), _numpy(budgets), _numpy(multipliers))
        ctx.gradients = in_budgets, in_multipliers
        ctx.save_for_backward(budgets, multipliers)
        return _tensor(np.asarray(costs), multipliers)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        in_budgets, in_multipliers = ctx.gradients
        budgets, multipliers = ctx.saved_tensors
        return (
            None,
            None,
            upstream.unsqueeze(-1) * _tensor(in_budgets, budgets),
            upstream.unsqueeze(-1).unsqueeze(-1) * _tensor(in_multipliers, multipliers),
        )


class Layer(torch.nn.Module):
    """The convex layer `min_x l(x, c) + λᵀg(x, c)  s.t.  g(x, c) ≤ b` and the box, differentiable in c, λ and b.

    Rows of a batch are solved by several threads; the action of every row is payable to the last bit. A row that has no
    feasible action is an error that names it.
    """

    def __init__(self, task: Task | str) -> None:
        super().__init__()
        self.task = Task(task) if isinstance(task, str) else task
        self.inner = _laau.Layer(self.task)

    def forward(self, contexts: torch.Tensor, multipliers: torch.Tensor, available: torch.Tensor) -> torch.Tensor:
        """Actions (…, d) for contexts (…, c), multipliers (…, M) and available budgets (…, M)."""
        result: torch.Tensor = _Layer.apply(self.inner, contexts, multipliers, available)
        return result

    def episode(self, contexts: torch.Tensor, budgets: torch.Tensor, multipliers: torch.Tensor) -> torch.Tensor:
        """As `laau.torch.episode`, counted here."""
        if contexts.requires_grad:
            raise ValueError("an episode is not differentiated in its contexts: detach them")
        result: torch.Tensor = _Episode.apply(self.inner, contexts, budgets, multipliers)
        return result

    @property
    def gradients(self) -> Gradients:
        """How many gradients this layer has given so far, by whether they are exact."""
        return Gradients(*self.inner.gradients)

    def extra_repr(self) -> str:
        return f"{self.task.name}, {self.gradients}"


def episode(task: Task | Layer | str, contexts: torch.Tensor, budgets: torch.Tensor, multipliers: torch.Tensor) -> torch.Tensor:
    """The cost of whole episodes played with given prices, as one operation: prices in, cost out.

    Contexts (…, N, c), budgets (…, M), prices (…, N, M); costs (…). Differentiable in prices and budgets, by the true chain
    rule through every step and through what remains of the budgets. Give a `Layer` to have its gradients counted there.

    >>> import laau.torch, torch
    >>> contexts = torch.rand(4, 20, 1, dtype=torch.float64)
    >>> budgets = torch.full((4, 1), 200.0, dtype=torch.float64)
    >>> prices = torch.full((4, 20, 1), 0.05, dtype=torch.float64, requires_grad=True)
    >>> laau.torch.episode("weighted-fairness", contexts, budgets, prices).sum().backward()
    >>>
    prices.grad.shape torch.Size([4, 20, 1])
    """
    layer = task if isinstance(task, Layer) else Layer(task)
    return layer.episode(contexts, budgets, multipliers)
