"""The command `laau`, and the same numbers by both ways, to the last bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import laau
import numpy as np
import pytest

# The binary that Cargo built, where `cargo xtask python --check` names it; else the wheel's own command.
COMMAND = [os.environ["LAAU_COMMAND"]] if "LAAU_COMMAND" in os.environ else [sys.executable, "-m", "laau"]


def run(*arguments: object, given: str = "") -> str:
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["weighted-fairness", "wireless"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, laau.Sets]:
    folder = tmp_path_factory.mktemp("episodes")
    run(
        "generate",
        "--problem",
        request.param,
        "--horizon",
        6,
        "--split",
        "60,20,30",
        "--seed",
        1,
        "-o",
        folder,
    )
    sets = laau.Sets(*(laau.Episodes.read(folder / f"{name}.parquet") for name in laau.Sets._fields))
    return request.param, folder, sets


def files(folder: Path, *names: str) -> list[object]:
    return [word for name in names for word in (f"--{name}", folder / f"{name}.parquet")]


def test_generate(made: tuple[str, Path, laau.Sets], tmp_path: Path) -> None:
    problem, folder, sets = made
    ours = laau.generate(problem, horizon=6, split=(60, 20, 30), seed=1)
    assert ours == sets
    ours.train.write(tmp_path / "train.parquet")
    assert (tmp_path / "train.parquet").read_bytes() == (folder / "train.parquet").read_bytes()


@pytest.mark.parametrize("form", ["plain", "residual"])
def test_train_and_decide(made: tuple[str, Path, laau.Sets], tmp_path: Path, form: str) -> None:
    problem, folder, sets = made
    flags = ["--problem", problem, "--form", form, "--phases", "3:0.005", "--seed", 4]
    run("train", *files(folder, "train", "validation"), *flags, "-o", tmp_path / "theirs", "--quiet")
    policy = laau.train(problem, sets.train, sets.validation, form=form, phases=[(3, 0.005)], seed=4)
    policy.save(tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()

    contexts, budgets = sets.test.contexts[0], sets.test.budgets[0]
    given = "".join(json.dumps({"context": context.tolist()}) + "\n" for context in contexts)
    budget = ",".join(map(repr, budgets.tolist()))
    for guard in ([], ["--guard", "equal"]):
        lines = run("decide", "--model", tmp_path / "theirs", "--budget", budget, *guard, given=given)
        deployed = laau.load(tmp_path / "theirs")
        if guard:
            deployed = deployed.guarded(laau.untuned(problem, "equal", budgets=budgets, horizon=6))
        episode = deployed.begin(budgets)
        for line, context in zip(lines.splitlines(), contexts, strict=True):
            theirs, ours = json.loads(line), episode.decide(context)
            assert ours.action.tolist() == theirs["action"]
            assert ours.remaining.tolist() == theirs["remaining"]
            assert ours.guarded == theirs.get("guarded", False)


def test_compare(made: tuple[str, Path, laau.Sets], tmp_path: Path) -> None:
    problem, folder, sets = made
    flags = ["--problem", problem, "--phases", "2:0.005", "--seeds", "0,1", "--guard", "mw"]
    policies = ["opt", "equal", "mw", "ce", "laau"]
    sets_of = files(folder, "train", "validation", "test")
    text = run("compare", *sets_of, *flags, "--policies", ",".join(policies), "--format", "json", "--quiet")
    theirs = json.loads(text)["policies"]
    table = laau.compare(problem, sets, policies, phases=[(2, 0.005)], seeds=[0, 1], guard="mw", frame="dict")
    assert table["policy"] == list(theirs)
    for row, name in enumerate(table["policy"]):
        for key in ("utility", "fraction_of_opt", "violations", "failures", "projections"):
            assert table[key][row] == theirs[name][key], (name, key)
        assert table["median"][row] == theirs[name]["quantiles"][2]


def test_policy_files(made: tuple[str, Path, laau.Sets], tmp_path: Path) -> None:
    problem, folder, sets = made
    sets_of = files(folder, "train", "validation", "test")
    run("compare", *sets_of, "--problem", problem, "--policies", "mw,ce", "-o", tmp_path, "--quiet")
    for name in ("mw", "ce"):
        ours = laau.fit(problem, name, sets.train, sets.validation)
        ours.save(tmp_path / "ours")
        assert (tmp_path / "ours").read_bytes() == (tmp_path / f"{name}.policy").read_bytes()
        theirs = laau.load(tmp_path / f"{name}.policy")
        assert np.array_equal(ours.play(sets.test)["actions"], theirs.play(sets.test)["actions"])


def test_learn(made: tuple[str, Path, laau.Sets], tmp_path: Path) -> None:
    problem, folder, sets = made
    theirs = run("learn", "--episodes", folder / "test.parquet", "--problem", problem, "-o", tmp_path / "theirs")
    policy, rounds = laau.learn(problem, sets.test, frame="dict")
    policy.save(tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    lines = [line.split(",") for line in theirs.splitlines()[1:]]
    assert [float(line[1]) for line in lines] == rounds["utility"]


def test_the_command_has_the_binarys_statuses() -> None:
    def status(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "laau", *arguments], capture_output=True, text=True)
        return done.returncode, done.stderr

    assert status("--version")[0] == 0
    assert status("--wrong")[0] == 2
    code, said = status("decide", "--policy", "eqaul", "--budget", "250", "--horizon", "20")
    assert (code, said) == (1, "error: unknown policy `eqaul`\nhint: did you mean `equal`?\n")


def test_the_entry_point_is_installed() -> None:
    beside = Path(sys.executable).parent / "laau"
    command = str(beside) if beside.is_file() else shutil.which("laau")
    assert command is not None
    assert "weighted-fairness" in subprocess.run([command, "config", "--default"], capture_output=True, text=True).stdout


def test_the_import_is_quick_and_lazy() -> None:
    script = "import sys, time; t = time.perf_counter(); import laau; laau.Task; print(time.perf_counter() - t, *sys.modules)"
    times = []
    for _ in range(5):
        began = time.monotonic()
        words = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
        assert time.monotonic() - began < 60
        times.append(float(words[0]))
        assert not {"torch", "jax", "polars", "pandas", "gymnasium", "ray", "pyarrow"} & set(words)
    assert min(times) <= 0.3
