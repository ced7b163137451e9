"""Training, learning, and how they are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import laau
import numpy as np
import pytest
from conftest import FEW


def test_training_is_the_same_every_time(task: laau.Task, sets: laau.Sets, trained: laau.Policy) -> None:
    epochs = []
    again = laau.train(task, sets.train, sets.validation, progress=epochs.append, **FEW)
    assert (again.play(sets.test)["actions"] == trained.play(sets.test)["actions"]).all()
    assert [epoch["epoch"] for epoch in epochs] == [0, 1]
    assert again.about["history"] == epochs
    gradients = again.about["summary"]["gradients"]
    assert gradients["exact"] + gradients["approximate"] > 0


def test_behind_a_guard(task: laau.Task, sets: laau.Sets) -> None:
    policy = laau.train(task, sets.train, sets.validation, guard="mw", form="residual", **FEW)
    mw = laau.fit(task, "mw", sets.train, sets.validation)
    assert np.nanmin(policy.guarded(mw).play(sets.test)["guard_share"]) >= 0.95
    with pytest.raises(laau.Error, match="cannot be an incumbent"):
        laau.train(task, sets.train, sets.validation, guard="opt", **FEW)
    with pytest.raises(laau.Error, match="between 0 and 1"):
        laau.train(task, sets.train, sets.validation, guard="mw", guard_level=2.0, **FEW)


def test_wrong_settings_have_words(task: laau.Task, sets: laau.Sets) -> None:
    for options, words in [
        ({"hiden": [10]}, "unknown option `hiden`"),
        ({"phases": [(2, -1.0)]}, "learning.rate|phases"),
        ({"horizons": "3..5"}, "episodes of 6 steps, horizons has 5"),
        ({"form": "plane"}, "plane"),
        ({"hidden": [10**9]}, "takes"),
    ]:
        with pytest.raises(laau.Error, match=words):
            laau.train(task, sets.train, sets.validation, **options)
    with pytest.raises(laau.Error):
        laau.train("wireless", sets.train, sets.validation)


def test_an_exception_in_progress_ends_the_training(task: laau.Task, sets: laau.Sets) -> None:
    def stop(epoch: dict) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        laau.train(task, sets.train, sets.validation, phases=[(10_000, 0.001)], progress=stop)


def test_learning(task: laau.Task, sets: laau.Sets, trained: laau.Policy) -> None:
    policy, rounds = laau.learn(task, sets.test, learning_rate=0.01, frame="dict")
    assert len(rounds["utility"]) == len(sets.test)
    assert rounds["running_utility"][-1] == pytest.approx(np.mean(rounds["utility"]))
    warm, _ = laau.learn(task, sets.test, model=trained, frame="dict")
    assert (warm.play(sets.test)["actions"] != policy.play(sets.test)["actions"]).any()
    with pytest.raises(laau.Error, match="first-look"):
        laau.learn(task, sets.test, first_look=0)


@pytest.fixture
def handled() -> Iterator[None]:
    """Handles Ctrl-C as a terminal has it: a process in the background may have been told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_soon(seconds: float = 0.5) -> threading.Timer:
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_stops_a_training(task: laau.Task, sets: laau.Sets, handled: None) -> None:
    began = time.monotonic()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        laau.train(task, sets.train, sets.validation, phases=[(10_000_000, 0.0001)])
    assert time.monotonic() - began < 10
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        laau.compare(task, sets, ["opt", "laau"], phases=[(10_000_000, 0.0001)])


def test_other_threads_run_meanwhile(task: laau.Task, sets: laau.Sets) -> None:
    ticks = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    laau.train(task, sets.train, sets.validation, phases=[(20_000, 0.001)], validate_every=1000)
    stop.set()
    thread.join()
    assert len(ticks) > 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_computes() -> None:
    script = """
import os, laau
task = laau.Task("wireless")
sets = laau.generate(task, horizon=4, split=(40, 20, 20))
laau.compare(task, sets, ["opt", "mw"], frame="dict")
child = os.fork()
if child == 0:
    laau.compare(task, sets, ["opt", "mw"], frame="dict")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)
