"""The layer and the episode in PyTorch."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import laau
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import laau.torch  # noqa: E402

DOUBLE = {"dtype": torch.float64}


def batch(name: str, rows: int, seed: int = 0) -> tuple[laau.Task, list[torch.Tensor]]:
    """Queries with room in the budgets of some rows and none in others."""
    task = laau.Task(name)
    episodes = laau.generate(task, horizon=4, episodes=rows, seed=seed)
    rng = np.random.default_rng(seed)
    contexts = episodes.contexts[:, 0]
    middle = 0.5 * (task.lower + task.upper)
    prices = np.empty((rows, task.sizes[1]))
    available = np.empty_like(prices)
    for row in range(rows):
        usage = task.usage(middle, contexts[row])
        available[row] = np.maximum(usage * rng.uniform(0.4, 1.5, usage.shape), 1.2 * task.least_usage)
        slope = task.cost(task.lower, contexts[row]) - task.cost(middle, contexts[row])
        prices[row] = rng.uniform(0.05, 0.6, usage.shape) * abs(slope) / (usage.sum() + 1e-9)
    return task, [torch.tensor(array, **DOUBLE) for array in (contexts, prices, available)]


@pytest.mark.parametrize("name", laau.PROBLEMS)
def test_gradcheck_of_the_layer(name: str) -> None:
    task, (contexts, prices, available) = batch(name, 6)
    layer = laau.torch.Layer(task)
    given = (contexts, prices, available)

    # In shares of the inputs, since some prices are a ten-thousandth: steps are as large for all.
    def scaled(*shares: torch.Tensor) -> torch.Tensor:
        return layer(*(share * tensor for share, tensor in zip(shares, given, strict=True)))

    shares = tuple(torch.ones_like(tensor, requires_grad=True) for tensor in given)
    assert torch.autograd.gradcheck(scaled, shares, eps=1e-6, atol=1e-5, rtol=1e-4, nondet_tol=0.0)
    assert layer.gradients.exact > 0


@pytest.mark.parametrize("name", laau.PROBLEMS)
def test_gradcheck_of_the_episode(name: str) -> None:
    task = laau.Task(name)
    episodes = laau.generate(task, horizon=4, episodes=3, seed=5)
    _, (_, prices, _) = batch(name, 12, seed=5)
    contexts = torch.tensor(episodes.contexts)
    budgets, prices = torch.tensor(episodes.budgets), prices.reshape(3, 4, -1)

    def cost(of_budgets: torch.Tensor, of_prices: torch.Tensor) -> torch.Tensor:
        return laau.torch.episode(task, contexts, of_budgets * budgets, of_prices * prices)

    shares = tuple(torch.ones_like(tensor, requires_grad=True) for tensor in (budgets, prices))
    assert torch.autograd.gradcheck(cost, shares, eps=1e-6, atol=1e-5, rtol=1e-4)


def test_a_batch_is_its_rows_whatever_the_threads() -> None:
    task, inputs = batch("wireless", 100)
    layer = laau.torch.Layer(task)
    together = layer(*inputs)
    single = torch.cat([layer(*(tensor[row : row + 1] for tensor in inputs)) for row in range(100)])
    assert torch.equal(together, single)
    several = layer(*(tensor.reshape(4, 25, -1) for tensor in inputs))
    assert torch.equal(several.reshape(100, -1), together)


def test_actions_are_payable_to_the_last_bit() -> None:
    task, (contexts, prices, available) = batch("power", 50)
    actions = laau.torch.Layer(task)(contexts, prices, available).numpy()
    for row in range(50):
        assert (task.usage(actions[row], contexts[row].numpy()) <= available[row].numpy()).all()


def test_single_precision_is_computed_in_double() -> None:
    task, inputs = batch("wireless", 8)
    singles = [tensor.float().requires_grad_() for tensor in inputs]
    doubles = [tensor.detach().double().requires_grad_() for tensor in singles]
    layer = laau.torch.Layer(task)
    layer(*singles).sum().backward()
    layer(*doubles).sum().backward()
    for single, double in zip(singles, doubles, strict=True):
        assert single.grad.dtype == torch.float32
        assert torch.allclose(single.grad, double.grad.float(), rtol=1e-5)


def test_approximate_gradients_are_counted() -> None:
    layer = laau.torch.Layer("weighted-fairness")
    # The price at which the wanted action is just what is available: a kink.
    context = torch.tensor([[0.5]], **DOUBLE)
    available = torch.tensor([[10.0]], **DOUBLE)
    free = layer(context, torch.tensor([[0.05]], **DOUBLE), torch.tensor([[40.0]], **DOUBLE))
    price = torch.tensor([[0.05]], **DOUBLE, requires_grad=True)
    layer(context, price, free.detach()).sum().backward()
    assert layer.gradients == (0, 1)
    price.grad = None
    layer(context, price, available + 25.0).sum().backward()
    assert layer.gradients == (1, 1)
    assert "approximate=1" in repr(layer)


def test_wrong_inputs_have_words() -> None:
    task, (contexts, prices, available) = batch("wireless", 3)
    layer = laau.torch.Layer(task)
    for inputs, words in [
        ((contexts, prices[:, :1], available), r"expected multipliers of shape \(batch, 2\), found \(3, 1\)"),
        ((contexts[:2], prices, available), r"expected contexts of shape \(3, 4\)"),
        ((contexts[:0], prices[:0], available[:0]), "at least one row"),
        ((contexts, prices * float("nan"), available), "row 0: invalid multiplier"),
        ((contexts, -prices, available), "row 0: invalid multiplier"),
        ((contexts, prices, available * 0.0 - 1.0), "row 0: infeasible"),
    ]:
        with pytest.raises(laau.Error, match=words):
            layer(*inputs)
    with pytest.raises(ValueError, match="detach"):
        layer.episode(contexts.requires_grad_(), available, prices)
    with pytest.raises(laau.Error, match="multipliers"):
        layer.episode(contexts.detach()[None], available[:1], prices[None, :0])


def test_an_episode_is_the_steps_one_after_the_other() -> None:
    """The unrolled episode as N calls of the layer gives the same cost and gradient."""
    task = laau.Task("weighted-fairness")
    episodes = laau.generate(task, horizon=6, episodes=5, seed=3)
    contexts, budgets = torch.tensor(episodes.contexts), torch.tensor(episodes.budgets)
    prices = torch.full((5, 6, 1), 0.04, **DOUBLE, requires_grad=True)
    layer = laau.torch.Layer(task)
    whole = layer.episode(contexts, budgets, prices)
    whole.sum().backward()
    expected, prices.grad = prices.grad, None
    remaining, cost = budgets, torch.zeros(5, **DOUBLE)
    for step in range(6):
        reserve = torch.tensor(task.least_usage) * (5 - step)
        action = layer(contexts[:, step], prices[:, step], remaining - reserve)
        remaining = remaining - action
        weight = contexts[:, step, 0]
        cost = cost + _cost(task, weight, action[:, 0])
    cost.sum().backward()
    assert torch.allclose(cost.detach(), whole.detach(), rtol=1e-12)
    assert torch.allclose(prices.grad, expected, rtol=1e-9)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benches")
    return importlib.import_module("layers")


def test_the_benchmark_plays_the_same_episode_by_calls_of_the_layer(bench: ModuleType) -> None:
    """With several budgets, of which some run out: what is left then is the least usage, but for rounding."""
    contexts, budgets, prices = bench.episode_draw(60)
    wanted = np.clip(contexts / (prices @ bench.USAGE), bench.LOWER, bench.UPPER) @ bench.USAGE.T
    assert 10 < (wanted.sum(1) > budgets).any(1).sum() < 50
    assert bench.worst(bench.steps_of_ours(60)(), bench.whole_episode(60)()) <= 1e-9


def test_gradients_of_the_benchmark_are_right_beside_a_kink(bench: ModuleType) -> None:
    """Solvers that answer to 1e-4 take the other side of these two bounds, and the gradient there."""
    layer = laau.Layer(bench.task())
    contexts, budgets, prices = bench.episode_draw(10)
    _, gradient, _ = layer.episode(contexts, budgets, prices)

    def cost(at: tuple[int, int, int], change: float) -> float:
        moved = prices.copy()
        moved[at] += change
        return layer.episode(contexts, budgets, moved)[0][at[0]]

    for at in [(7, 2, 2), (6, 2, 1)]:
        free = contexts[at[:2]] / (prices[at[:2]] @ bench.USAGE)
        assert 0.0 < np.abs(free / bench.UPPER - 1.0).min() < 2e-4
        assert np.isclose((cost(at, 1e-6) - cost(at, -1e-6)) / 2e-6, gradient[at], rtol=1e-5)
        # On the other side of the bound it is another.
        assert (cost(at, 1e-3) - cost(at, 5e-4)) / 5e-4 > 1.2 * gradient[at]


def _cost(task: laau.Task, weight: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Weighted fairness, in torch."""
    cost = -weight * torch.log(action)
    assert np.isclose(cost[0].item(), task.cost(action[0].item(), weight[0].item()))
    return cost
