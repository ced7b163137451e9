"""Online optimisation with strict budgets: learned prices, a convex layer, an exact ledger.

Decisions come one at a time, the future is unknown, and the budget must never be exceeded.

>>> import laau
>>> task = laau.Task("weighted-fairness")
>>> sets = laau.generate(task, horizon=5, split=(50, 20, 20), seed=1)
>>> policy = laau.train(task, sets.train, sets.validation, phases=[(2, 0.005)])
>>> safe = policy.guarded(laau.fit(task, "mw", sets.train, sets.validation), 0.95)
>>> episode = safe.begin(budgets=60.0)
>>> bool(episode.decide(0.31).remaining < 60.0)
True

`laau.torch`, `laau.jax`, `laau.gym` and `laau.client` are imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import Error, Overspend

if TYPE_CHECKING:
    from ._api import compare, fit, generate, learn, load, policy, train, untuned
    from ._laau import POLICIES, PROBLEMS, Episode, Episodes, Layer, Ledger, Observation, Policy, Task
    from ._laau import __version__ as __version__
    from ._types import Decision, Learned, Sets
else:
    # What computes is imported at its first use: `laau.client` needs neither numpy nor the extension.
    _PLACES = {
        "_api": ("compare", "fit", "generate", "learn", "load", "policy", "train", "untuned"),
        "_laau": (
            "POLICIES",
            "PROBLEMS",
            "Episode",
            "Episodes",
            "Layer",
            "Ledger",
            "Observation",
            "Policy",
            "Task",
            "__version__",
        ),
        "_types": ("Decision", "Learned", "Sets"),
    }
    _PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name not in _PLACE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_PLACE_OF[name]}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACE_OF})


__all__ = [
    "POLICIES",
    "PROBLEMS",
    "Decision",
    "Episode",
    "Episodes",
    "Error",
    "Layer",
    "Learned",
    "Ledger",
    "Observation",
    "Overspend",
    "Policy",
    "Sets",
    "Task",
    "compare",
    "fit",
    "generate",
    "learn",
    "load",
    "policy",
    "train",
    "untuned",
]
