"""What tests share."""

from __future__ import annotations

import os

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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds what was skipped, and why, to the list that the continuous integration prints."""
    place = os.environ.get("LAAU_SKIPPED_LOG")
    if place:
        with open(place, "a", encoding="utf-8") as log:
            for report in terminalreporter.stats.get("skipped", []):
                _, _, why = report.longrepr
                log.write(f"python: {report.nodeid}: {why}\n")
