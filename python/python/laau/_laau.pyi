"""The extension module."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from ._types import Decision

Array = npt.NDArray[np.float64]

__version__: str
POLICIES: list[str]
PROBLEMS: list[str]

class Episodes:
    """A set of episodes of one horizon: contexts (episodes, steps, context) and budgets (episodes, budgets).

    >>> import laau, numpy as np
    >>> laau.Episodes(np.full((3, 4), 0.5), np.full(3, 40.0))
    Episodes(3 episodes, 4 steps, context of 1, 1 budgets)
    """

    def __new__(cls, contexts: npt.ArrayLike, budgets: npt.ArrayLike) -> Episodes: ...
    @staticmethod
    def read(path: str | PathLike[str]) -> Episodes:
        """Reads an episodes table: Parquet, CSV, plain or gzip."""
    def write(self, path: str | PathLike[str]) -> None:
        """Writes an episodes table: Parquet or CSV, by the ending."""
    @staticmethod
    def from_frame(frame: Any) -> Episodes:
        """Takes a frame of polars, pandas or Arrow with the columns `episode`, `step`, `context…`, `budget…`."""
    def to_frame(self, frame: str | None = None) -> Any:
        """The same table as a frame: "polars", "pandas" or "dict"."""
    def select(self, positions: Sequence[int]) -> Episodes:
        """The episodes at the given positions, in that order."""
    @property
    def contexts(self) -> Array: ...
    @property
    def budgets(self) -> Array: ...
    @property
    def horizon(self) -> int: ...
    def __len__(self) -> int: ...

class Task:
    """A problem by its name, with parameters (the keys of `[problem]`) and its solver.

    `solver` may have tolerance, max_iterations and smoothing (the barrier of smoothed gradients at kinks).

    >>> import laau
    >>> laau.Task("power", energy=[1.0, 0.8])
    Task(power, 2 actions, 2 budgets, context of 3)
    """

    def __new__(cls, name: str = "weighted-fairness", *, solver: dict[str, Any] | None = None, **parameters: Any) -> Task: ...
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of actions, of budgets and of entries of a context."""
    @property
    def lower(self) -> Array: ...
    @property
    def upper(self) -> Array: ...
    @property
    def least_usage(self) -> Array:
        """What a step uses of each budget at least."""
    def cost(self, action: npt.ArrayLike, context: npt.ArrayLike) -> float:
        """The cost of an action; the utility is its negative."""
    def usage(self, action: npt.ArrayLike, context: npt.ArrayLike) -> Array:
        """What an action uses of each budget."""
    def project(self, action: npt.ArrayLike, context: npt.ArrayLike, available: npt.ArrayLike) -> Array:
        """The action itself if it can be paid, else one that can, on the way to the lower corner."""
    def begin(self, budgets: npt.ArrayLike, horizon: int) -> Episode:
        """Opens an episode without a policy: `pay` actions of your own."""

class Observation:
    """What a policy may observe: the past and the current step, never the future."""

    @property
    def step(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def steps_left(self) -> int: ...
    @property
    def contexts(self) -> Array:
        """The contexts so far, (step + 1, context)."""
    @property
    def context(self) -> Array: ...
    @property
    def budgets(self) -> Array: ...
    @property
    def remaining(self) -> Array: ...
    @property
    def available(self) -> Array:
        """What this step may use: what remains less the reserve of the steps to come."""

class Episode:
    """An episode in progress: contexts in, actions out, paid by the exact ledger."""

    def decide(self, context: npt.ArrayLike) -> Decision:
        """Decides the next step, and pays it."""
    def pay(self, context: npt.ArrayLike, action: npt.ArrayLike) -> Array:
        """Pays an action of your own, all or nothing (`Overspend`); gives its usage."""
    def observe(self, context: npt.ArrayLike) -> Observation:
        """What a policy would observe in a context; spends nothing."""
    @property
    def remaining(self) -> Array: ...
    @property
    def step(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def certificate(self) -> dict[str, Any] | None:
        """What a guard kept of its promise so far."""

class Policy:
    """A policy for a task, ready to decide."""

    @property
    def name(self) -> str: ...
    @property
    def task(self) -> Task: ...
    @property
    def horizon(self) -> int | None: ...
    @property
    def about(self) -> dict[str, Any]:
        """What is known about its fit: parameters, history, numbers of exact and approximate gradients."""
    def begin(self, budgets: npt.ArrayLike, horizon: int | None = None) -> Episode:
        """Opens an episode; of as many steps as it was fitted on, if `horizon` is not given."""
    def guarded(self, incumbent: Policy, level: float = ...) -> Policy:
        """The same behind a guard: on every input it gains at least a share of what the incumbent would have gained."""
    def play(self, episodes: Episodes) -> dict[str, Any]:
        """Plays all episodes: actions, usages, costs, remaining, utility, multipliers, violations, failures."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the file that the command line would write."""

class Ledger:
    """Pays usage out of budgets, exactly.

    >>> import laau
    >>> ledger = laau.Ledger([0.3])
    >>> ledger.spend([0.1]); ledger.spend([0.1])
    >>> ledger.spend([0.1])
    Traceback (most recent call last):
    ...
    laau._errors.Overspend: budget 0: 0.1 asked, 0.09999999999999998 available
    """

    def __new__(cls, budgets: npt.ArrayLike) -> Ledger: ...
    def spend(self, usage: npt.ArrayLike) -> None: ...
    @property
    def remaining(self) -> Array: ...

class Layer:
    """The convex layer of a task for batches; `laau.torch` and `laau.jax` build on it."""

    def __new__(cls, task: Task) -> Layer: ...
    @property
    def task(self) -> Task: ...
    @property
    def gradients(self) -> tuple[int, int]:
        """How many gradients were exact, and how many approximate (at kinks, where there is none)."""
    def forward(self, contexts: npt.ArrayLike, multipliers: npt.ArrayLike, available: npt.ArrayLike) -> tuple[Array, Array]: ...
    def backward(
        self,
        contexts: npt.ArrayLike,
        multipliers: npt.ArrayLike,
        available: npt.ArrayLike,
        actions: npt.ArrayLike,
        state: npt.ArrayLike,
        upstream: npt.ArrayLike,
        with_contexts: bool,
    ) -> tuple[Array, Array, Array | None]: ...
    def episode(
        self, contexts: npt.ArrayLike, budgets: npt.ArrayLike, multipliers: npt.ArrayLike
    ) -> tuple[Array, Array, Array]: ...

class Sweep:
    """An experiment in cells that may be run anywhere and in any order."""

    def __new__(
        cls,
        file: str | PathLike[str],
        quick: bool = False,
        trace: str | None = None,
        seeds: Sequence[int] = ...,
        data: str | PathLike[str] | None = None,
    ) -> Sweep: ...
    @property
    def cells(self) -> list[str]: ...
    def run(self, cell: int) -> dict[str, str]: ...
    @property
    def pieces(self) -> list[str]: ...
    def run_piece(self, cell: int, piece: int) -> str: ...
    def assemble(self, cell: int, pieces: Sequence[str]) -> dict[str, str]: ...
    @staticmethod
    def save(folder: str | PathLike[str], cells: Sequence[Mapping[str, str]]) -> None: ...
    @staticmethod
    def machine() -> str: ...

def run_command(arguments: Sequence[str]) -> int: ...
def generate(task: Task, options: str) -> list[Episodes]: ...
def train(
    task: Task,
    train: Episodes,
    validation: Episodes,
    options: str,
    guard: str | Policy | None,
    level: float,
    progress: Callable[[str], object] | None,
) -> Policy: ...
def learn(task: Task, episodes: Episodes, warm: Policy | None, options: str) -> tuple[Policy, str]: ...
def fit(task: Task, name: str, train: Episodes, validation: Episodes, options: str) -> Policy: ...
def compare(
    task: Task,
    sets: Any,
    policies: Sequence[tuple[str, Any]],
    seeds: Sequence[int] | None,
    options: str,
    guard: str | Policy | None,
    level: float,
    timed: bool,
    progress: Callable[[str, int, float, float], object] | None,
) -> tuple[str, str, list[str]]: ...
def restore_policy(file: bytes, name: str, task: Task, about: str) -> Policy: ...
def restore_episodes(
    contexts: Any, budgets: Any, scaling: str | None, series: Sequence[str] | None, problem: str | None
) -> Episodes: ...
def load(path: str | PathLike[str]) -> Policy: ...
def untuned(
    task: Task,
    name: str,
    horizon: int,
    budgets: Sequence[float],
    parameters: Sequence[tuple[str, Sequence[float]]],
) -> Policy: ...
def scripted(task: Task, name: str, object: Any) -> Policy: ...
