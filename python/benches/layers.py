"""The d = 8, M = 3 layer from Python, forward and backward, beside cvxpylayers and Moreau, in one run.

`python benches/layers.py [--seconds 0.4] [--rounds 3] [--write]` prints tables in Markdown: microseconds of a call,
by batch, and the worst difference of values (actions, costs) and of gradients from ours. Ways take turns, `rounds` times; the
fastest call counts, since other load on the machine only adds time. `--write` puts them into README.md.

min Σ −c_i ln x_i + λᵀAx  s.t.  Ax ≤ b,  0.1 ≤ x ≤ 10;  the loss is Σ w x, gradients are in c, λ and b.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import laau
import numpy as np
import readme

ACTIONS, BUDGETS, STEPS = 8, 3, 20
BATCHES = (1, 10, 100, 1000)
USAGE = np.random.default_rng(7).uniform(0.0, 1.0, (BUDGETS, ACTIONS))
LOWER, UPPER = 0.1, 10.0

Run = Callable[[], list[np.ndarray]]


def task() -> laau.Task:
    return laau.Task("log-utility", lower=LOWER, upper=UPPER, usage=USAGE.tolist())


def draw(batch: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(2)
    return (
        rng.uniform(0.5, 2.0, (batch, ACTIONS)),
        rng.uniform(0.05, 0.4, (batch, BUDGETS)),
        rng.uniform(6.0, 16.0, (batch, BUDGETS)),
        rng.normal(size=(batch, ACTIONS)),
    )


def with_numpy(batch: int) -> Run:
    layer, (contexts, prices, available, weights) = laau.Layer(task()), draw(batch)

    def run() -> list[np.ndarray]:
        actions, state = layer.forward(contexts, prices, available)
        by_price, by_available, by_context = layer.backward(contexts, prices, available, actions, state, weights, True)
        return [actions, by_context, by_price, by_available]

    return run


def through_torch(batch: int, layer: Callable) -> Run:
    import torch

    *given, weights = (torch.tensor(array) for array in draw(batch))

    def run() -> list[np.ndarray]:
        inputs = [tensor.clone().requires_grad_() for tensor in given]
        actions = layer(*inputs)
        (weights * actions).sum().backward()
        return [actions.detach().numpy(), *(tensor.grad.numpy() for tensor in inputs)]

    return run


def with_torch(batch: int) -> Run:
    import laau.torch

    return through_torch(batch, laau.torch.Layer(task()))


def through_jax(batch: int, layer: Callable) -> Run:
    import jax

    *inputs, weights = (jax.numpy.asarray(array) for array in draw(batch))

    def loss(*arguments: jax.Array) -> tuple[jax.Array, jax.Array]:
        actions = layer(*arguments)
        return (weights * actions).sum(), actions

    step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))

    def run() -> list[np.ndarray]:
        (_, actions), gradients = jax.block_until_ready(step(*inputs))
        return [np.asarray(array) for array in (actions, *gradients)]

    return run


def with_jax(batch: int) -> Run:
    import laau.jax

    return through_jax(batch, laau.jax.layer(task()))


def cvxpy_problem() -> tuple:
    import cvxpy as cp

    x = cp.Variable(ACTIONS)
    c, lam = cp.Parameter(ACTIONS, nonneg=True), cp.Parameter(BUDGETS, nonneg=True)
    b = cp.Parameter(BUDGETS)
    cost = -cp.sum(cp.multiply(c, cp.log(x))) + lam @ (USAGE @ x)
    problem = cp.Problem(cp.Minimize(cost), [USAGE @ x <= b, x >= LOWER, x <= UPPER])
    return problem, [c, lam, b], [x]


def cvxpy_layer(**options: str) -> Callable:
    from cvxpylayers.torch import CvxpyLayer

    problem, parameters, variables = cvxpy_problem()
    layer = CvxpyLayer(problem, parameters=parameters, variables=variables, **options)
    return lambda *inputs: layer(*inputs)[0]


def with_cvxpylayers(batch: int, **options: str) -> Run:
    return through_torch(batch, cvxpy_layer(**options))


def moreau_form() -> tuple:
    """Variables (x, t), cost (Aᵀλ, −c); rows Gx ≤ h, then (t_i, 1, x_i) in the exponential cone."""
    import moreau
    from scipy import sparse

    bounds = np.vstack([USAGE, np.eye(ACTIONS), -np.eye(ACTIONS)])
    linear, size = len(bounds), 2 * ACTIONS
    rows = np.zeros((linear + 3 * ACTIONS, size))
    rows[:linear, :ACTIONS] = bounds
    for i in range(ACTIONS):
        rows[linear + 3 * i, ACTIONS + i] = -1
        rows[linear + 3 * i + 2, i] = -1
    rows = sparse.csr_array(rows)
    cones = moreau.Cones(num_nonneg_cones=linear, num_exp_cones=ACTIONS)
    right = np.zeros(linear + 3 * ACTIONS)
    right[BUDGETS : BUDGETS + ACTIONS] = UPPER
    right[BUDGETS + ACTIONS : linear] = -LOWER
    right[linear + 1 :: 3] = 1.0
    return size, rows, cones, right


def moreau_torch_layer(batch: int) -> Callable:
    import moreau
    import torch
    from moreau.torch import Solver

    size, rows, cones, right = moreau_form()
    settings = moreau.Settings(device="cpu", batch_size=batch, enable_grad=True)
    empty = torch.zeros(0, dtype=torch.int64)
    solver = Solver(
        size,
        rows.shape[0],
        torch.zeros(size + 1, dtype=torch.int64),
        empty,
        torch.tensor(rows.indptr, dtype=torch.int64),
        torch.tensor(rows.indices, dtype=torch.int64),
        cones,
        settings=settings,
    )
    values = torch.tensor(np.tile(rows.data, (batch, 1)))
    none = torch.zeros((batch, 0), dtype=torch.float64)
    usage, rest = torch.tensor(USAGE), torch.tensor(np.tile(right[BUDGETS:], (batch, 1)))

    def layer(contexts: torch.Tensor, prices: torch.Tensor, available: torch.Tensor) -> torch.Tensor:
        q = torch.cat([prices @ usage, -contexts], 1)
        return solver.solve(none, values, q, torch.cat([available, rest], 1)).x[:, :ACTIONS]

    return layer


def moreau_jax_layer() -> Callable:
    import jax
    import moreau
    from moreau.jax import Solver

    size, rows, cones, right = moreau_form()
    solver = Solver(
        size,
        rows.shape[0],
        np.zeros(size + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        rows.indptr,
        rows.indices,
        cones,
        settings=moreau.Settings(device="cpu"),
    )
    solver.setup(np.zeros(0), rows.data)
    usage, rest = jax.numpy.asarray(USAGE), jax.numpy.asarray(right[BUDGETS:])

    def one(context: jax.Array, prices: jax.Array, available: jax.Array) -> jax.Array:
        q = jax.numpy.concatenate([prices @ usage, -context])
        return solver.solve(q, jax.numpy.concatenate([available, rest])).x[:ACTIONS]

    return jax.vmap(one)


WAYS = {
    "`laau.Layer`, numpy": with_numpy,
    "`laau.torch`": with_torch,
    "`laau.jax`, jit": with_jax,
    "cvxpylayers, torch": with_cvxpylayers,
    "cvxpylayers + Moreau, torch": lambda batch: with_cvxpylayers(batch, solver="MOREAU"),
    "Moreau, torch": lambda batch: through_torch(batch, moreau_torch_layer(batch)),
    "Moreau, jax, jit": lambda batch: through_jax(batch, moreau_jax_layer()),
}

# Ours and theirs that are used in the same place.
RIVALS = {
    "`laau.torch`": ("cvxpylayers, torch", "cvxpylayers + Moreau, torch", "Moreau, torch"),
    "`laau.jax`, jit": ("Moreau, jax, jit",),
    "`laau.torch.episode`, one call": (
        "cvxpylayers, torch, 20 calls",
        "cvxpylayers + Moreau, torch, 20 calls",
        "Moreau, torch, 20 calls",
    ),
    "`laau.jax.episode`, one call, jit": ("Moreau, jax, jit, 20 calls",),
}


def episode_draw(batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    least = USAGE @ np.full(ACTIONS, LOWER)
    contexts = rng.uniform(0.5, 2.0, (batch, STEPS, ACTIONS))
    # Enough for most steps: a third of the episodes run out of a budget before the last one.
    budgets = rng.uniform(20.0, 30.0, (batch, BUDGETS)) * STEPS + STEPS * least
    return contexts, budgets, np.full((batch, STEPS, BUDGETS), 0.15)


def whole_episode(batch: int) -> Run:
    import laau.torch
    import torch

    layer = laau.torch.Layer(task())
    contexts, budgets, prices = (torch.tensor(array) for array in episode_draw(batch))

    def run() -> list[np.ndarray]:
        given = prices.clone().requires_grad_()
        cost = layer.episode(contexts, budgets, given)
        cost.sum().backward()
        return [cost.detach().numpy(), given.grad.numpy()]

    return run


def whole_episode_of_jax(batch: int) -> Run:
    import laau.jax

    episode = laau.jax.episode(task())
    return differentiated_by_jax(batch, episode)


def differentiated_by_jax(batch: int, episode: Callable) -> Run:
    import jax

    contexts, budgets, prices = (jax.numpy.asarray(array) for array in episode_draw(batch))

    def loss(given: jax.Array) -> tuple[jax.Array, jax.Array]:
        costs = episode(contexts, budgets, given)
        return costs.sum(), costs

    step = jax.jit(jax.value_and_grad(loss, has_aux=True))

    def run() -> list[np.ndarray]:
        (_, costs), gradient = jax.block_until_ready(step(prices))
        return [np.asarray(costs), np.asarray(gradient)]

    return run


def steps_of(batch: int, layer: Callable) -> Run:
    """The same episode as calls of a layer, one after the other."""
    import torch

    contexts, budgets, prices = (torch.tensor(array) for array in episode_draw(batch))
    usage = torch.tensor(USAGE)
    least = usage @ torch.full((ACTIONS,), LOWER, dtype=torch.float64)

    def run() -> list[np.ndarray]:
        given = prices.clone().requires_grad_()
        remaining, cost = budgets, torch.zeros(batch, dtype=torch.float64)
        for step in range(STEPS):
            left = remaining - (STEPS - 1 - step) * least
            # Less than the least usage is left by rounding alone: that moves the value, and not the gradient.
            available = torch.where(left < least, least + (left - left.detach()), left)
            action = layer(contexts[:, step], given[:, step], available)
            cost = cost - (contexts[:, step] * torch.log(action)).sum(1)
            remaining = remaining - action @ usage.T
        cost.sum().backward()
        return [cost.detach().numpy(), given.grad.numpy()]

    return run


def steps_of_jax(batch: int, layer: Callable) -> Run:
    """The same in JAX, compiled as a whole."""
    import jax
    import jax.numpy as jnp

    usage = jnp.asarray(USAGE)
    least = usage @ jnp.full(ACTIONS, LOWER)

    def episode(contexts: jax.Array, budgets: jax.Array, prices: jax.Array) -> jax.Array:
        remaining, cost = budgets, jnp.zeros(batch)
        for step in range(STEPS):
            left = remaining - (STEPS - 1 - step) * least
            available = jnp.where(left < least, least + (left - jax.lax.stop_gradient(left)), left)
            action = layer(contexts[:, step], prices[:, step], available)
            cost = cost - (contexts[:, step] * jnp.log(action)).sum(1)
            remaining = remaining - action @ usage.T
        return cost

    return differentiated_by_jax(batch, episode)


def steps_of_cvxpylayers(batch: int, **options: str) -> Run:
    return steps_of(batch, cvxpy_layer(**options))


def steps_of_ours(batch: int) -> Run:
    import laau.torch

    return steps_of(batch, laau.torch.Layer(task()))


EPISODES = {
    "`laau.torch.episode`, one call": whole_episode,
    "`laau.jax.episode`, one call, jit": whole_episode_of_jax,
    "`laau.torch.Layer`, 20 calls": steps_of_ours,
    "cvxpylayers, torch, 20 calls": steps_of_cvxpylayers,
    "cvxpylayers + Moreau, torch, 20 calls": lambda batch: steps_of_cvxpylayers(batch, solver="MOREAU"),
    "Moreau, torch, 20 calls": lambda batch: steps_of(batch, moreau_torch_layer(batch)),
    "Moreau, jax, jit, 20 calls": lambda batch: steps_of_jax(batch, moreau_jax_layer()),
}


def worst(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference, relative where a number is above one."""
    pairs = zip(found, expected, strict=True)
    return max(float((np.abs(theirs - ours) / np.maximum(1.0, np.abs(ours))).max()) for theirs, ours in pairs)


def measure(ways: dict[str, Run], seconds: float, rounds: int) -> dict[str, float]:
    """The fastest call of each way, in microseconds."""
    fastest = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, run in ways.items():
            end = time.perf_counter() + seconds
            while True:
                began = time.perf_counter()
                run()
                now = time.perf_counter()
                fastest[name] = min(fastest[name], (now - began) * 1e6)
                if now > end:
                    break
    return fastest


Times = dict[str, dict[int, float]]
Apart = dict[str, tuple[float, float]]


def compare(ways: dict, batches: tuple[int, ...], given: argparse.Namespace) -> tuple[Times, Apart]:
    """Microseconds by way and batch, and how far the values and the gradients of each are apart from those of the first."""
    times: Times = {name: {} for name in ways}
    apart: Apart = {}
    for batch in batches:
        ready: dict[str, Run] = {}
        expected = None
        for name, make in ways.items():
            smaller = max(times[name], default=None)
            seconds = 0.0 if smaller is None else times[name][smaller] * 1e-6 * batch / smaller
            if seconds > given.longest:
                print(f"left out: {name}, batch {batch}: a call would take about {seconds:.0f} s", flush=True)
                continue
            try:
                ready[name] = make(batch)
                found = ready[name]()
            except Exception as error:
                ready.pop(name, None)
                reason = " ".join(str(error).split())[:120]
                print(f"failed: {name}, batch {batch}: {type(error).__name__}: {reason}", flush=True)
                continue
            expected = found if expected is None else expected
            values, gradients = apart.get(name, (0.0, 0.0))
            apart[name] = max(values, worst(found[:1], expected[:1])), max(gradients, worst(found[1:], expected[1:]))
        for name, microseconds in measure(ready, given.seconds, given.rounds).items():
            times[name][batch] = microseconds
            print(f"{name}, batch {batch}: {microseconds:,.0f}", flush=True)
    return times, apart


def table(times: Times, apart: Apart, batches: tuple[int, ...]) -> str:
    """In Markdown."""
    lines = ["| microseconds a call | " + " | ".join(f"batch {batch}" for batch in batches) + " | values | gradients |"]
    lines.append("|---|" + "--:|" * (len(batches) + 2))
    for name, by_batch in times.items():
        cells = [f"{by_batch[batch]:,.0f}" if batch in by_batch else "–" for batch in batches]
        values, gradients = apart.get(name, (float("nan"), float("nan")))
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {values:.0e} | {gradients:.0e} |")
    return "\n".join(lines)


def ratios(times: Times) -> str:
    """How many times longer the fastest rival takes, by batch."""
    lines = []
    for ours, rivals in RIVALS.items():
        found = []
        for batch, microseconds in times.get(ours, {}).items():
            theirs = [times[name][batch] for name in rivals if batch in times[name]]
            if theirs:
                found.append(f"{min(theirs) / microseconds:,.1f} at {batch}")
        if found:
            several = "the fastest of these" if len(rivals) > 1 else rivals[0]
            lines.append(f"- {ours}: {several} takes this many times as long, by batch: {', '.join(found)}")
    return "\n".join(lines)


# What is wanted at a batch: (ours, theirs, batch, times as long).
WANTED = (
    ("`laau.torch`", ("cvxpylayers + Moreau, torch", "Moreau, torch"), 10, 10.0),
    ("`laau.jax`, jit", ("Moreau, jax, jit",), 10, 3.0),
)


def targets(times: Times) -> str:
    """What is wanted, what was found, and whether that is enough."""
    lines = ["| target | wanted | found | |", "|---|---|---|---|"]
    for ours, theirs, batch, wanted in WANTED:
        rivals = [times[name][batch] for name in theirs if batch in times[name]]
        name = f"{ours} against the fastest Moreau, batch {batch}"
        if not rivals or batch not in times[ours]:
            lines.append(f"| {name} | ≥ {wanted:g}× | – | NOT MEASURED |")
            continue
        ratio = min(rivals) / times[ours][batch]
        lines.append(f"| {name} | ≥ {wanted:g}× | {ratio:.1f}× | {'met' if ratio >= wanted else 'MISSED'} |")
    everywhere = {
        f"{ours}, batch {batch}": times[name][batch] / microseconds
        for ours, rivals in RIVALS.items()
        for batch, microseconds in times.get(ours, {}).items()
        for name in rivals
        if batch in times.get(name, {})
    }
    if everywhere:
        where, least = min(everywhere.items(), key=lambda item: item[1])
        lines.append(f"| never slower, at any batch | > 1× | {least:.1f}× ({where}) | {'met' if least > 1 else 'MISSED'} |")
    return "\n".join(lines)


def overhead() -> str:
    """What a call costs beside the solves: the scalar layer in closed form, one row."""
    layer = laau.Layer(laau.Task())
    row = np.array([[0.5]]), np.array([[0.05]]), np.array([[30.0]])
    fastest = measure({"call": lambda: list(layer.forward(*row))}, 0.3, 3)["call"]
    return f"A call of `Layer.forward` with one row in closed form takes {fastest:.2f} µs: that is the call itself."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=0.4, help="of each way in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--longest", type=float, default=20.0, help="seconds of a call; a way that takes longer is left out")
    parser.add_argument("--write", action="store_true", help="into README.md, too")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
    except ImportError:
        pass
    try:
        import torch

        torch.set_default_dtype(torch.float64)
    except ImportError:
        pass
    batches = tuple(int(batch) for batch in given.batches.split(","))
    layers = compare(WAYS, batches, given)
    episodes = compare(EPISODES, batches, given)
    text = "\n\n".join(
        [
            table(*layers, batches),
            ratios(layers[0]),
            "An episode of 20 steps, its cost and the gradient in all prices, in the same run:",
            table(*episodes, batches),
            ratios(episodes[0]),
            overhead(),
            targets(layers[0]),
        ]
    )
    print(text)
    if given.write:
        readme.write("layers", text)


if __name__ == "__main__":
    main()
