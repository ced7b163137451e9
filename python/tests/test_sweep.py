"""Sweeps: the tables of `laau experiment`, byte for byte, by cells and by Ray."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import laau
import pytest
from laau._laau import Sweep
from laau.sweep import Experiment, Job, Work, main, run, run_job

TINY = """
kind = "policies"
horizons = [4, 6]
constructions = ["consecutive", "interleaved"]
policies = ["opt", "equal", "mw", "laau"]
incumbents = ["mw"]
train = 40
validation = 20
test = 20
phases = [[2, 5e-3]]
"""

PROBLEM = """
kind = "problem"
horizons = [4]
construction = "consecutive"
policies = ["opt", "equal", "dp", "laau"]
train = 20
validation = 10
test = 10
phases = [[1, 5e-3]]
[problem]
name = "wireless"
"""

# Long enough for a node to be lost in the middle.
SLOW = TINY.replace("phases = [[2, 5e-3]]", "phases = [[400, 1e-3]]").replace("train = 40", "train = 400")


def sequential(text: str, folder: Path) -> dict[str, bytes]:
    """What the command line writes."""
    file = folder / "experiment.toml"
    file.write_text(text)
    command = [
        sys.executable,
        "-m",
        "laau",
        "experiment",
        file,
        "--seeds",
        "0,1",
        "-o",
        folder / "sequential",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return tables(folder / "sequential")


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def experiment(text: str, name: str = "tiny") -> Experiment:
    return Experiment(name, text, quick=False, trace=None, seeds=(0, 1))


@pytest.mark.parametrize("text", [TINY, PROBLEM], ids=["policies", "problem"])
def test_cells_in_any_order_give_the_same_tables(text: str, tmp_path: Path) -> None:
    expected = sequential(text, tmp_path)
    sweep = experiment(text).open()
    parts = {cell: sweep.run(cell) for cell in reversed(range(len(sweep.cells)))}
    Sweep.save(tmp_path / "cells", [parts[cell] for cell in sorted(parts)])
    assert tables(tmp_path / "cells") == expected
    with pytest.raises(laau.Error, match="no cell"):
        sweep.run(len(sweep.cells))


@pytest.mark.parametrize("text", [TINY, PROBLEM], ids=["policies", "problem"])
def test_policies_in_any_order_give_the_same_tables(text: str, tmp_path: Path) -> None:
    expected = sequential(text, tmp_path)
    sweep = experiment(text).open()
    assert sweep.pieces == (["opt", "equal", "mw", "laau"] if text is TINY else ["opt", "equal", "dp", "laau"])
    parts = []
    for cell in range(len(sweep.cells)):
        played = {piece: sweep.run_piece(cell, piece) for piece in reversed(range(len(sweep.pieces)))}
        parts.append(sweep.assemble(cell, [played[piece] for piece in sorted(played)]))
    Sweep.save(tmp_path / "pieces", parts)
    assert tables(tmp_path / "pieces") == expected
    for cell, piece, words in [(0, 9, "no piece 9"), (99, 0, "no cell 99")]:
        with pytest.raises(laau.Error, match=words):
            sweep.run_piece(cell, piece)
    with pytest.raises(laau.Error, match="not those of the cell"):
        sweep.assemble(0, ["", ""])


def test_finished_policies_are_kept(tmp_path: Path) -> None:
    work = Work([experiment(TINY)], tmp_path)
    jobs = work.waiting()
    assert len(jobs) == 8 * 4
    for job in jobs[:5]:
        work.finish(job, run_job(experiment(TINY), job, Sweep.machine()))
    again = Work([experiment(TINY)], tmp_path)
    assert again.waiting() == jobs[5:]
    # The first place of the grid has all its policies, and waits for its rows.
    assert again.complete() == [Job(0, 0)]
    # Another experiment, or another seed, is other work.
    assert len(Work([experiment(TINY.replace("test = 20", "test = 10"))], tmp_path).waiting()) == 8 * 4


def test_another_kind_of_node_is_refused() -> None:
    with pytest.raises(laau.Error, match="last bits would differ"):
        run_job(experiment(TINY), Job(0, 0, 0), "another machine")


def test_a_wrong_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("kind = 'polices'")
    assert main([str(file)]) == 1
    assert "hint:" in capsys.readouterr().err
    assert main([str(tmp_path / "nothing.toml")]) == 1


def test_a_lost_node_changes_nothing(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    expected = sequential(SLOW, tmp_path)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        said: list[str] = []

        # Both nodes have a cell at any time until the end: one is lost with the node.
        def say(words: str) -> None:
            said.append(words)
            if len(said) == 5:
                cluster.remove_node(second, allow_graceful=False)

        began = time.monotonic()
        run([experiment(SLOW)], tmp_path / "swept", say=say)
        print(f"swept in {time.monotonic() - began:.0f} s, a node lost after the fifth cell")
        # Each cell is told once, whether it was run once or again.
        assert len(said) == len(set(said)) == 32
        assert tables(tmp_path / "swept" / "tiny") == expected
        # Finished cells are kept: nothing is run again.
        said.append("again")
        run([experiment(SLOW)], tmp_path / "swept", say=said.append)
        assert said[-1] == "32 of 32 cells are kept from before"
        assert tables(tmp_path / "swept" / "tiny") == expected
    finally:
        ray.shutdown()
        cluster.shutdown()
