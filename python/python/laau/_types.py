"""What calls give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ._laau import Episodes, Policy

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided and paid in a step."""

    step: int
    """The step, from 0."""
    action: Array
    """What was done."""
    multiplier: Array | None
    """The price of each budget behind it, if the policy has prices."""
    remaining: Array
    """What remains of each budget, rounded down."""
    fallback: str | None = None
    """Why the action is the least one and not the policy's, if it is."""
    guarded: bool = False
    """Whether a guard changed it."""


class Sets(NamedTuple):
    """Episodes for training, validation and test."""

    train: Episodes
    validation: Episodes
    test: Episodes


class Learned(NamedTuple):
    """What online training gives: the policy after the last round, and a frame with a row per round."""

    policy: Policy
    rounds: Any
