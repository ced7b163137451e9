"""The commands of `laau` as functions."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import _laau
from ._errors import Error
from ._frames import make_frame
from ._laau import Episodes, Policy, Task
from ._options import to_json
from ._types import Learned, Sets

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import LearnOptions, TrainOptions, WorkloadOptions

Progress = Callable[[dict[str, Any]], object]


@overload
def generate(task: Task | str = ..., *, split: tuple[int, int, int], **options: Unpack[WorkloadOptions]) -> Sets: ...
@overload
def generate(task: Task | str = ..., *, split: None = ..., **options: Unpack[WorkloadOptions]) -> Episodes: ...
def generate(
    task: Task | str = "weighted-fairness",
    *,
    split: tuple[int, int, int] | None = None,
    **options: Any,
) -> Episodes | Sets:
    """Makes episodes of a problem's synthetic workload, as `laau generate` does.

    Options are the keys of `[workload]`: horizon, episodes, budget, seed, construction, part, episodes_per_vm, scale.
    With `split`, three sets that share no machine.

    >>> import laau
    >>> laau.generate(horizon=20, episodes=100, seed=1)
    Episodes(100 episodes, 20 steps, context of 1, 1 budgets)
    >>> laau.generate("wireless", horizon=5, split=(10, 5, 5)).test
    Episodes(5 episodes, 5 steps, context of 4, 2 budgets)
    """
    if split is not None:
        options["split"] = list(split)
    sets = _laau.generate(_task(task), to_json(options))
    return sets[0] if len(sets) == 1 else Sets(*sets)


def train(
    task: Task | str,
    train: Episodes,
    validation: Episodes,
    *,
    guard: str | Policy | None = None,
    guard_level: float = 0.95,
    progress: Progress | None = None,
    **options: Unpack[TrainOptions],
) -> Policy:
    """Trains a model, as `laau train` does, to the same bytes.

    Options are the keys of `[model]` and `[training]`; `progress` is called with every epoch. The policy is the model's;
    with `guard` it was trained behind that guard, and is meant to be put behind the same one: `policy.guarded(…)`.
    Ctrl-C ends it with `KeyboardInterrupt`.

    >>> import laau
    >>> sets = laau.generate(horizon=5, split=(50, 20, 20), seed=1)
    >>> policy = laau.train("weighted-fairness", sets.train, sets.validation, phases=[(2, 0.005)])
    >>> policy.about["ending"], len(policy.about["history"])
    ('completed', 2)
    """
    told = (lambda record: progress(json.loads(record))) if progress else None
    return _laau.train(_task(task), train, validation, to_json(options), guard, guard_level, told)


def learn(
    task: Task | str,
    episodes: Episodes,
    *,
    model: Policy | None = None,
    frame: str | None = None,
    **options: Unpack[LearnOptions],
) -> Learned:
    """Learns while it serves, as `laau learn` does: plays episode after episode, and takes a gradient step after each.

    >>> import laau
    >>> policy, rounds = laau.learn("weighted-fairness", laau.generate(horizon=5, episodes=20), frame="dict")
    >>> len(rounds["utility"])
    20
    """
    policy, rounds = _laau.learn(_task(task), episodes, model, to_json(options))
    return Learned(policy, make_frame(json.loads(rounds), frame))


def fit(
    task: Task | str,
    name: str,
    train: Episodes,
    validation: Episodes,
    **options: Unpack[TrainOptions],
) -> Policy:
    """Fits, tunes or trains a built-in policy, as `laau compare` does.

    >>> import laau
    >>> sets = laau.generate(horizon=5, split=(50, 20, 20), seed=1)
    >>> laau.fit("weighted-fairness", "mw", sets.train, sets.validation)
    Policy(mw, weighted-fairness)
    """
    return _laau.fit(_task(task), name, train, validation, to_json(options))


def policy(task: Task | str, source: Any, *, name: str | None = None) -> Policy:
    """A policy that is written in Python: a function of an `Observation`, an object with `decide`, or one whose `begin`
    opens such an object for every episode. It may have a `multiplier`, the price of each budget.

    >>> import laau
    >>> even = laau.policy("weighted-fairness", lambda seen: seen.available / (seen.steps_left + 1), name="even")
    >>> episode = even.begin(budgets=40.0, horizon=4)
    >>> episode.decide(0.5).action
    array([9.25])
    """
    name = name or getattr(source, "name", None) or getattr(source, "__name__", type(source).__name__)
    return _laau.scripted(_task(task), str(name), source)


def untuned(task: Task | str, name: str, *, budgets: Any, horizon: int, **parameters: float | Sequence[float]) -> Policy:
    """A built-in policy that needs no data, with given or sensible parameters, as `laau decide --policy` has it.

    >>> import laau
    >>> laau.untuned("weighted-fairness", "dgd", budgets=250.0, horizon=20).begin(250.0).decide(0.31).action
    array([12.5])
    """
    values = [(key.replace("_", "-"), np.atleast_1d(value).tolist()) for key, value in parameters.items()]
    return _laau.untuned(_task(task), name, horizon, np.atleast_1d(budgets).tolist(), values)


def load(path: str | PathLike[str]) -> Policy:
    """Reads a model or a policy file of the command line, or of `Policy.save`."""
    return _laau.load(path)


def compare(
    task: Task | str,
    sets: Sets | tuple[Episodes, Episodes, Episodes],
    policies: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    guard: str | Policy | None = None,
    guard_level: float = 0.95,
    timed: bool = False,
    frame: str | None = None,
    progress: Callable[[str, int, float, float], object] | None = None,
    **options: Unpack[TrainOptions],
) -> Any:
    """Fits and plays policies on the same episodes, as `laau compare` does; gives a frame with a row per policy.

    A policy is a built-in one by its name, a `Policy`, or one that is written in Python (see `laau.policy`); all are paid
    by the same exact ledger. Without any, all built-in ones that are for the problem. With `guard` they are also
    played behind it: NAME-guarded.


    >>> import laau
    >>> sets = laau.generate(horizon=5, split=(50, 20, 20), seed=1)
    >>> even = {"even": lambda seen: seen.available / (seen.steps_left + 1)}
    >>> table = laau.compare("weighted-fairness", sets, ["opt", "mw", even], frame="dict")
    >>> table["policy"], table["violations"]
    (['opt', 'mw', 'even'], [0, 0, 0])
    """
    text, _, words = _laau.compare(
        _task(task),
        tuple(sets),
        list(_entries(policies or [])),
        None if seeds is None else [int(seed) for seed in seeds],
        to_json(options),
        guard,
        guard_level,
        timed,
        progress,
    )
    for word in words:
        warnings.warn(word, stacklevel=2)
    report, names = json.loads(text)
    return make_frame(_report_columns(report, names), frame)


def _task(task: Task | str) -> Task:
    return Task(task) if isinstance(task, str) else task


def _entries(policies: Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    if isinstance(policies, str):
        policies = policies.split(",")
    if isinstance(policies, Mapping):
        return [(name, source) for name, source in policies.items()]
    entries: list[tuple[str, Any]] = []
    for entry in policies:
        if isinstance(entry, str):
            entries.append((entry, None))
        elif isinstance(entry, Mapping):
            entries.extend(entry.items())
        else:
            name = getattr(entry, "name", None) or getattr(entry, "__name__", None)
            if not isinstance(name, str):
                raise Error(f"a policy of type {type(entry).__name__} has no name", 'name it: {"mine": policy}')
            entries.append((name, entry))
    return entries


def _report_columns(report: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """A row per policy, in the order of the report."""
    rows = [report["policies"][name] for name in names]
    columns: dict[str, list[Any]] = {"policy": list(names)}

    def add(column: str, values: list[Any]) -> None:
        if any(value is not None for value in values):
            columns[column] = values

    for key in ("utility", "fraction_of_opt"):
        columns[key] = [row[key] for row in rows]
    remaining = [np.atleast_1d(row["remaining_percent"]).tolist() for row in rows]
    several = max((len(values) for values in remaining), default=1) > 1
    for budget in range(len(remaining[0]) if remaining else 0):
        key = f"remaining_percent_{budget}" if several else "remaining_percent"
        columns[key] = [values[budget] for values in remaining]
    for index, key in enumerate(("minimum", "lower_quartile", "median", "upper_quartile", "maximum")):
        columns[key] = [row["quantiles"][index] for row in rows]
    for key in ("violations", "failures", "projections", "unconverged"):
        columns[key] = [row[key] for row in rows]
    for key in ("exact", "approximate"):
        add(f"{key}_gradients", [(row["gradients"] or {}).get(key) for row in rows])
    add("microseconds_per_decision", [row["microseconds_per_decision"] for row in rows])
    for key in ("level", "margin", "share", "acted"):
        add(f"guard_{key}", [(row.get("guard") or {}).get(key) for row in rows])
    return columns
