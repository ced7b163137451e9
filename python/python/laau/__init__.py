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

`laau.torch`, `laau.jax` and `laau.gym` are imported when they are asked for.
"""

from __future__ import annotations

from . import _laau
from ._api import compare, fit, generate, learn, load, policy, train, untuned
from ._errors import Error, Overspend
from ._laau import POLICIES, PROBLEMS, Episode, Episodes, Layer, Ledger, Observation, Policy, Task
from ._types import Decision, Learned, Sets

__version__: str = _laau.__version__

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
