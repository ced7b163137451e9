"""The options of the command line, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class WorkloadOptions(TypedDict, total=False):
    """The keys of `[workload]`."""

    horizon: int
    episodes: int
    budget: tuple[float, float] | Sequence[tuple[float, float]]
    seed: int
    construction: Literal["consecutive", "interleaved"]
    part: Literal["train", "validation", "test"]
    episodes_per_vm: int
    scale: float


class ModelOptions(TypedDict, total=False):
    """The keys of `[model]`."""

    network: Literal["mlp", "linear"]
    hidden: Sequence[int]
    form: Literal["plain", "residual"]
    features: Literal["paper", "history"]
    output_function: Literal["softplus", "exp"]
    spectral_bound: float
    norm_bound: float


class TrainOptions(ModelOptions, total=False):
    """The keys of `[model]` and `[training]`."""

    phases: Sequence[tuple[int, float]]
    batch: int
    seed: int
    optimiser: Literal["adam", "sgd"]
    first_decay: float
    second_decay: float
    epsilon: float
    engine: Literal["fused", "candle"]
    validate_every: int
    patience: int
    gradient_clip: float
    divergence_factor: float
    checkpoint_every: int
    horizons: str


class LearnOptions(ModelOptions, total=False):
    """The keys of `[model]` and `[learning]`."""

    optimiser: Literal["adam", "sgd"]
    learning_rate: float
    engine: Literal["fused", "candle"]
    gradient_clip: float
    seed: int
    first_look: int
