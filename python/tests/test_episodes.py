"""Episodes from arrays, frames and files."""

from __future__ import annotations

from pathlib import Path

import laau
import numpy as np
import pytest


def test_arrays_come_back(sets: laau.Sets) -> None:
    episodes = laau.Episodes(sets.test.contexts, sets.test.budgets)
    assert episodes == sets.test
    assert episodes.contexts.shape == (30, 6, 1)
    assert len(episodes.select([2, 2])) == 2


def test_other_arrays_are_converted() -> None:
    contexts = np.full((4, 3), 0.5)
    expected = laau.Episodes(contexts, np.full(4, 40.0))
    assert laau.Episodes(contexts.astype(np.float32), np.full(4, 40)) == expected
    assert laau.Episodes(np.full((3, 4), 0.5).T, [40, 40, 40, 40]) == expected
    assert laau.Episodes(np.full((8, 3), 0.5)[::2], np.full((4, 1), 40.0)) == expected


@pytest.mark.parametrize(
    ("contexts", "budgets", "words"),
    [
        (np.zeros((4, 3)), np.zeros(5), r"expected budgets of shape \(4,\)"),
        (np.zeros(4), np.zeros(4), r"expected contexts of shape \(episodes, steps\)"),
        (np.zeros((0, 3)), np.zeros(0), "at least one episode"),
        (np.zeros((4, 0)), np.zeros(4), "at least one step"),
        (np.full((1, 2), np.nan), np.ones(1), r"finite value for contexts\[0\]"),
        (np.zeros((1, 2)), [-1.0], r"non-negative value for budgets\[0\]"),
        (np.zeros((1, 2), dtype=complex), np.ones(1), "found an array of complex128"),
        ([["a", "b"]], np.ones(1), "expected numbers for contexts"),
        ([[1.0], [1.0, 2.0]], np.ones(2), "expected numbers for contexts"),
        (np.ma.masked_array(np.zeros((1, 2)), [[True, False]]), np.ones(1), "masked"),
        (None, np.ones(1), "expected numbers for contexts"),
    ],
)
def test_wrong_arrays_are_refused_with_a_word(contexts: object, budgets: object, words: str) -> None:
    with pytest.raises(laau.Error, match=words):
        laau.Episodes(contexts, budgets)


@pytest.mark.parametrize("kind", ["polars", "pandas", "dict", "pyarrow"])
def test_frames_come_back(sets: laau.Sets, kind: str) -> None:
    if kind != "dict":
        pytest.importorskip(kind)
    frame = sets.test.to_frame("polars" if kind == "pyarrow" else kind)
    if kind == "pyarrow":
        frame = frame.to_arrow()
    assert laau.Episodes.from_frame(frame) == sets.test


def test_frames_of_several_columns() -> None:
    episodes = laau.generate("wireless", horizon=4, episodes=5)
    frame = episodes.to_frame("dict")
    assert list(frame) == ["episode", "step", "context_0", "context_1", "context_2", "context_3", "budget_0", "budget_1"]
    assert laau.Episodes.from_frame(frame) == episodes


def test_a_frame_out_of_order_is_refused(sets: laau.Sets) -> None:
    frame = sets.test.to_frame("dict")
    with pytest.raises(laau.Error, match="not sorted"):
        laau.Episodes.from_frame({name: column[::-1] for name, column in frame.items()})
    with pytest.raises(laau.Error, match="no column `step`"):
        laau.Episodes.from_frame({name: column for name, column in frame.items() if name != "step"})
    with pytest.raises(laau.Error, match="no episodes"):
        laau.Episodes.from_frame({name: column[:0] for name, column in frame.items()})
    with pytest.raises(laau.Error, match="is not a frame"):
        laau.Episodes.from_frame(3)
    with pytest.raises(laau.Error, match="budgets differ"):
        laau.Episodes.from_frame(frame | {"budget": np.arange(len(frame["budget"]), dtype=float)})


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_come_back(sets: laau.Sets, tmp_path: Path, ending: str) -> None:
    place = tmp_path / f"test.{ending}"
    sets.test.write(place)
    assert laau.Episodes.read(place) == sets.test
    with pytest.raises(laau.Error, match="no such file"):
        laau.Episodes.read(tmp_path / "nothing.parquet")
    with pytest.raises(laau.Error, match="ending"):
        sets.test.write(tmp_path / "test.txt")


def test_polars_reads_what_is_written(sets: laau.Sets, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    place = tmp_path / "test.parquet"
    sets.test.write(place)
    assert laau.Episodes.from_frame(polars.read_parquet(place)) == sets.test
    assert laau.Episodes.from_frame(polars.scan_parquet(place)) == sets.test


@pytest.mark.parametrize("name", laau.PROBLEMS)
def test_every_problem_generates(name: str) -> None:
    task = laau.Task(name)
    episodes = laau.generate(task, horizon=4, episodes=3, seed=2)
    actions, budgets, context = task.sizes
    assert episodes.contexts.shape == (3, 4, context)
    assert episodes.budgets.shape == (3, budgets)
    assert task.lower.shape == (actions,)


def test_wrong_options_are_refused_with_the_nearest() -> None:
    with pytest.raises(laau.Error, match="unknown option `horizn`") as error:
        laau.generate(horizn=4)
    assert error.value.hint == "did you mean `horizon`?"
    with pytest.raises(laau.Error, match="memory|take"):
        laau.generate(episodes=10**12)
    with pytest.raises(laau.Error, match="`horizon`"):
        laau.generate(horizon=float("nan"))
    with pytest.raises(laau.Error, match="cannot be"):
        laau.generate(horizon=object())
    with pytest.raises(laau.Error):
        laau.generate(horizon=-1)
