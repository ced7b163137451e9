"""Frames of polars, pandas and Arrow; none of them is imported before it is needed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import to_array
from ._errors import Error
from ._types import Array

if TYPE_CHECKING:
    from ._laau import Episodes


def make_frame(columns: Mapping[str, Any], kind: str | None = None) -> Any:
    """A frame of the kind that is asked for, or of what is installed: polars, pandas, else a dictionary."""
    installed = [name for name in ("polars", "pandas") if importlib.util.find_spec(name)]
    kind = kind or (installed[0] if installed else "dict")
    if kind == "polars":
        import polars

        return polars.DataFrame(dict(columns), strict=False)
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(dict(columns))
    if kind == "dict":
        return dict(columns)
    raise Error(f"unknown kind of frame `{kind}`", 'there are "polars", "pandas" and "dict"')


def _columns(frame: Any) -> tuple[list[str], Any]:
    """The names of a frame's columns, and something to look them up in."""
    if isinstance(frame, Mapping):
        return [str(name) for name in frame], frame
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):  # a lazy frame of polars
        frame = frame.collect()
    names: Iterable[Any] | None = getattr(frame, "column_names", None)  # Arrow
    if names is None:
        names = getattr(frame, "columns", None)  # polars, pandas
    if names is None and hasattr(frame, "__arrow_c_stream__"):
        import pyarrow

        frame = pyarrow.table(frame)
        names = frame.column_names
    if names is None:
        raise Error(
            f"{type(frame).__name__} is not a frame",
            "give one of polars, pandas or Arrow, or a dictionary of columns",
        )
    return [str(name) for name in names], frame


def _numbered(names: list[str], word: str) -> list[str]:
    """`context`, or `context_0`, `context_1`, …"""
    if word in names:
        return [word]
    found: list[str] = []
    while f"{word}_{len(found)}" in names:
        found.append(f"{word}_{len(found)}")
    if not found:
        raise Error(f"no column `{word}` or `{word}_0`", f"the columns are {', '.join(names)}")
    return found


def tables_of(frame: Any) -> tuple[Array, Array]:
    """Contexts and budgets of an episodes table: `episode`, `step`, `context`, `budget`."""
    names, frame = _columns(frame)

    def column(name: str) -> Array:
        if name not in names:
            raise Error(f"no column `{name}`", f"the columns are {', '.join(names)}")
        values = frame[name]
        values = values.to_numpy() if hasattr(values, "to_numpy") else values
        return to_array(f"column `{name}`", values)

    episode, step = column("episode"), column("step")
    contexts = np.stack([column(name) for name in _numbered(names, "context")], axis=1)
    budgets = np.stack([column(name) for name in _numbered(names, "budget")], axis=1)
    if len(episode) == 0:
        raise Error("the table holds no episodes", "make some with `laau.generate`")
    starts = np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))
    horizon = len(episode) // len(starts)
    in_order = np.all(np.diff(episode) >= 0) and len(episode) == horizon * len(starts)
    if not in_order or not np.array_equal(step, np.tile(np.arange(horizon), len(starts))):
        raise Error(
            "rows are not sorted by episode and step, or episodes have different numbers of steps",
            'sort the frame by ["episode", "step"]; steps are counted from 0',
        )
    per_episode = budgets.reshape(len(starts), horizon, -1)
    if not np.array_equal(per_episode, np.broadcast_to(per_episode[:, :1], per_episode.shape), equal_nan=True):
        raise Error("the budgets differ within an episode", "an episode has one value per budget on all its rows")
    return contexts.reshape(len(starts), horizon, -1), np.ascontiguousarray(per_episode[:, 0])


def frame_of(episodes: Episodes, kind: str | None) -> Any:
    """The episodes table."""
    contexts, budgets = episodes.contexts, episodes.budgets
    count, horizon, width = contexts.shape
    columns: dict[str, Any] = {
        "episode": np.repeat(np.arange(count, dtype=np.uint32), horizon),
        "step": np.tile(np.arange(horizon, dtype=np.uint32), count),
    }
    for word, table in [
        ("context", contexts.reshape(count * horizon, width)),
        ("budget", np.repeat(budgets, horizon, axis=0)),
    ]:
        several = table.shape[1] > 1
        for index in range(table.shape[1]):
            columns[f"{word}_{index}" if several else word] = np.ascontiguousarray(table[:, index])
    return make_frame(columns, kind)
