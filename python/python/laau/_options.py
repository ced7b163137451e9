"""Keyword arguments as the options of the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import Error

if TYPE_CHECKING:
    from ._laau import Task


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, range):
        return list(value)
    raise Error(f"`{key}` cannot be {type(value).__name__}", "give a number, a word or a list")


def to_json(options: Mapping[str, Any]) -> str:
    """Options as JSON by the keys of the configuration: `most_load` is `most-load` there."""
    texts = []
    for name, value in options.items():
        key = name.replace("_", "-")
        try:
            text = json.dumps(value, allow_nan=False, default=partial(_plain, name))
        except ValueError as reason:
            if isinstance(reason, Error):
                raise
            raise Error(f"`{name}` is not a finite number", "give a finite number") from None
        texts.append(f"{json.dumps(key)}: {text}")
    return "{" + ", ".join(texts) + "}"


def restore_task(parameters: dict[str, Any], solver: dict[str, Any] | None) -> Task:
    """A task from what it was pickled as."""
    from ._laau import Task

    given = {key.replace("-", "_"): value for key, value in parameters.items() if value is not None}
    return Task(given.pop("name"), solver=solver, **given)
