"""What tests share."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import laau
import pytest

FEW = {"phases": [(2, 0.005)], "seed": 3}


@pytest.fixture(scope="session")
def task() -> laau.Task:
    return laau.Task("weighted-fairness")


@pytest.fixture(scope="session")
def sets(task: laau.Task) -> laau.Sets:
    return laau.generate(task, horizon=6, split=(60, 20, 30), seed=1)


@pytest.fixture(scope="session")
def trained(task: laau.Task, sets: laau.Sets) -> laau.Policy:
    return laau.train(task, sets.train, sets.validation, **FEW)


def tests_of(file: Path) -> int:
    """How many tests a file defines: a file that is skipped as a whole counts once for pytest."""
    functions = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]
    return sum(function.name.startswith("test_") for function in functions)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was skipped, and why; also to the list that the continuous integration prints."""
    lines, count = [], 0
    for report in terminalreporter.stats.get("skipped", []):
        file = Path(__file__).parent.parent / report.nodeid
        tests = tests_of(file) if file.suffix == ".py" and file.is_file() else 1
        count += tests
        several = f" ({tests} tests)" if tests > 1 else ""
        lines.append(f"skipped: python/{report.nodeid}{several}: {report.longrepr[2].removeprefix('Skipped: ')}")
    for line in lines:
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"{count} tests skipped for want of what they need")
    place = os.environ.get("LAAU_SKIPPED_LOG")
    if place:
        with open(place, "a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in lines)
