"""Decisions, payments, guards, and policies of one's own."""

from __future__ import annotations

import pickle
import threading
from fractions import Fraction
from pathlib import Path

import laau
import numpy as np
import pytest
from conftest import FEW


def even(seen: laau.Observation) -> np.ndarray:
    return seen.available / (seen.steps_left + 1)


class Counting:
    """Opens an agent per episode, which has prices."""

    name = "counting"

    def begin(self) -> Counting.Agent:
        return Counting.Agent()

    class Agent:
        def __init__(self) -> None:
            self.steps = 0
            self.multiplier = None

        def decide(self, seen: laau.Observation) -> float:
            assert seen.step == self.steps
            assert seen.contexts.shape == (seen.step + 1, 1)
            self.steps += 1
            self.multiplier = [0.1]
            return min(12.0, float(seen.available[0]))


def greedy(seen: laau.Observation) -> float:
    return 40.0


def broken(seen: laau.Observation) -> float:
    raise RuntimeError("no more ideas")


def test_a_ledger_is_exact() -> None:
    ledger = laau.Ledger([0.3, 1.0])
    ledger.spend([0.1, 0.0])
    ledger.spend([0.1, 0.5])
    with pytest.raises(laau.Overspend, match="budget 0"):
        ledger.spend([0.1, 0.0])
    assert ledger.remaining.tolist() == [0.09999999999999998, 0.5]
    for wrong in ([0.1], [np.nan, 0.0], [-1.0, 0.0]):
        with pytest.raises(laau.Error):
            ledger.spend(wrong)


@pytest.mark.parametrize("name", laau.PROBLEMS)
def test_every_problem_is_decided(name: str) -> None:
    task = laau.Task(name)
    sets = laau.generate(task, horizon=4, split=(12, 6, 5), seed=2)
    policy = laau.fit(task, "mw", sets.train, sets.validation)
    played = policy.play(sets.test)
    assert played["violations"] == 0
    spent = np.apply_along_axis(lambda uses: float(sum(map(Fraction, uses.tolist()))), 1, played["usages"])
    assert (spent <= sets.test.budgets).all()
    episode = policy.begin(sets.test.budgets[0])
    for step, context in enumerate(sets.test.contexts[0]):
        decision = episode.decide(context)
        assert decision.action.tolist() == played["actions"][0, step].tolist()
    assert episode.is_over
    assert episode.remaining.tolist() == played["remaining"][0].tolist()
    with pytest.raises(laau.Error, match="the episode is over"):
        episode.decide(sets.test.contexts[0, 0])


def test_payments_of_ones_own(task: laau.Task) -> None:
    episode = task.begin(10.0, 2)
    assert episode.observe(0.3).available.tolist() == [9.0]
    assert episode.pay(0.3, 7.0).tolist() == [7.0]
    with pytest.raises(laau.Overspend, match="4 asked, 3 available"):
        episode.pay(0.8, 4.0)
    with pytest.raises(laau.Error, match=r"action"):
        episode.pay(0.8, 0.5)
    with pytest.raises(laau.Error, match="no policy to decide"):
        episode.decide(0.8)
    episode.pay([0.8], [3.0])
    assert episode.remaining.tolist() == [0.0]


def test_a_policy_sees_what_is_paid_for_it(task: laau.Task) -> None:
    episode = laau.policy(task, Counting()).begin(60.0, 4)
    episode.decide(0.5)
    episode.pay(0.5, 5.0)
    assert episode.decide(0.5).multiplier.tolist() == [0.1]
    assert episode.step == 3


def test_wrong_inputs_have_words(task: laau.Task, trained: laau.Policy) -> None:
    for budgets, horizon, words in [
        ([1.0, 2.0], 6, r"expected budgets of shape \(1,\), found \(2,\)"),
        (np.nan, 6, "finite"),
        (3.0, 6, "below 6"),
        (60.0, 7, "6 to 6 steps, not of 7"),
    ]:
        with pytest.raises(laau.Error, match=words):
            trained.begin(budgets, horizon)
    with pytest.raises(laau.Error, match="number of steps is not known"):
        laau.policy(task, even).begin(60.0)
    episode = trained.begin(60.0)
    for context in ([0.1, 0.2], np.nan, -1.0, "x", None):
        with pytest.raises(laau.Error):
            episode.decide(context)
    assert episode.step == 0
    with pytest.raises(laau.Error, match="unknown problem `wirless`"):
        laau.Task("wirless")
    with pytest.raises(laau.Error, match="unknown option"):
        laau.Task("wireless", chanels=3)
    with pytest.raises(laau.Error, match="unknown option `x` of the solver"):
        laau.Task("wireless", solver={"x": 1})
    with pytest.raises(laau.Error):
        laau.Task("wireless", solver={"tolerance": -1.0})
    with pytest.raises(laau.Error, match="does not decide"):
        laau.policy(task, 3, name="three")


def test_a_policy_in_python_takes_part(task: laau.Task, sets: laau.Sets) -> None:
    table = laau.compare(task, sets, ["opt", "equal", {"even": even}, Counting(), greedy], frame="dict", **FEW)
    row = {name: index for index, name in enumerate(table["policy"])}
    assert list(row) == ["opt", "equal", "even", "counting", "greedy"]
    assert table["violations"][row["even"]] == 0
    assert 0.5 < table["fraction_of_opt"][row["counting"]] <= 1.0
    # What cannot be paid is refused, and counted.
    assert table["violations"][row["greedy"]] > 0


def test_a_policy_that_fails_is_counted_and_told(task: laau.Task, sets: laau.Sets) -> None:
    with pytest.warns(UserWarning, match="no more ideas"):
        table = laau.compare(task, sets, ["opt", broken], frame="dict")
    assert table["failures"] == [0, 180]
    assert laau.policy(task, broken).begin(60.0, 4).decide(0.5).fallback.endswith("no more ideas")
    with pytest.warns(UserWarning, match="expected action of shape"):
        laau.compare(task, sets, ["opt", {"wrong": lambda seen: [1.0, 2.0]}], frame="dict")


def test_what_cannot_be_decided_or_paid_is_the_lower_corner(task: laau.Task) -> None:
    def hasty(seen: laau.Observation) -> float:
        if seen.step == 1:
            raise RuntimeError("no more ideas")
        return 41.0 if seen.step == 2 else 40.0

    episode = laau.policy(task, hasty).begin(50.0, 4)
    decided = [episode.decide(0.5) for _ in range(4)]
    assert [decision.action[0] for decision in decided] == [40.0, 1.0, 1.0, 1.0]
    assert [decision.remaining[0] for decision in decided] == [10.0, 9.0, 8.0, 7.0]
    assert [decision.fallback for decision in decided] == [
        None,
        "policy `hasty`: RuntimeError: no more ideas",
        "action[0] is 41, outside its box [1, 40]",
        "budget 0: 40 asked, 8 available",
    ]


def test_a_guard_keeps_its_promise_whatever_the_advice(task: laau.Task, sets: laau.Sets) -> None:
    mw = laau.fit(task, "mw", sets.train, sets.validation)
    for advice in (greedy, broken, even, lambda seen: task.lower):
        guarded = laau.policy(task, advice, name="advice").guarded(mw, 0.9)
        played = guarded.play(sets.test)
        assert np.nanmin(played["guard_share"]) >= 0.9
        assert played["violations"] == 0
    episode = laau.policy(task, greedy).guarded(mw).begin(60.0, 6)
    assert episode.decide(0.5).guarded in (True, False)
    assert episode.certificate["level"] == 0.95
    # A policy in Python may be the incumbent, too.
    played = mw.guarded(laau.policy(task, even), 0.95).play(sets.test)
    assert np.nanmin(played["guard_share"]) >= 0.95
    with pytest.raises(laau.Error, match="another problem"):
        mw.guarded(laau.policy("trading", even))
    with pytest.raises(laau.Error):
        mw.guarded(mw, 1.5)


def test_guarded_rows_of_a_comparison(task: laau.Task, sets: laau.Sets, trained: laau.Policy) -> None:
    table = laau.compare(task, sets, ["opt", {"mine": trained}, {"even": even}], guard="mw", frame="dict")
    assert table["policy"] == ["opt", "mine", "even", "mw", "mine-guarded", "even-guarded"]
    assert table["guard_share"][4] >= 0.95
    mw = laau.fit(task, "mw", sets.train, sets.validation)
    with_policy = laau.compare(task, sets, {"opt": None, "even": even}, guard=mw, frame="dict")
    assert with_policy["policy"] == ["opt", "even", "incumbent", "even-guarded"]
    assert with_policy["utility"][3] == table["utility"][5]


def test_files_come_back(task: laau.Task, sets: laau.Sets, trained: laau.Policy, tmp_path: Path) -> None:
    for policy in (trained, laau.fit(task, "ce", sets.train, sets.validation)):
        place = tmp_path / policy.name
        policy.save(place)
        back = laau.load(place)
        assert back.task == task
        assert (back.play(sets.test)["actions"] == policy.play(sets.test)["actions"]).all()
    (tmp_path / "broken").write_bytes(b"x" * 100)
    for name in ("broken", "nothing"):
        with pytest.raises(laau.Error):
            laau.load(tmp_path / name)
    with pytest.raises(laau.Error, match="cannot be stored"):
        laau.policy(task, even).save(tmp_path / "even")
    with pytest.raises(laau.Error, match="sees the whole episode"):
        laau.fit(task, "opt", sets.train, sets.validation)


def test_tasks_and_errors_can_be_pickled() -> None:
    task = laau.Task("log-utility", actions=3, solver={"tolerance": 1e-8})
    assert pickle.loads(pickle.dumps(task)) == task
    with pytest.raises(laau.Error) as error:
        laau.Task("x")
    back = pickle.loads(pickle.dumps(error.value))
    assert (str(back), back.hint) == (str(error.value), error.value.hint)


def test_an_episode_is_for_one_thread_at_a_time(task: laau.Task) -> None:
    inside, go = threading.Event(), threading.Event()

    def slow(seen: laau.Observation) -> float:
        inside.set()
        go.wait()
        return 5.0

    episode = laau.policy(task, slow).begin(60.0, 4)
    thread = threading.Thread(target=lambda: episode.decide(0.5))
    thread.start()
    inside.wait()
    with pytest.raises(laau.Error, match="in use by another call"):
        episode.decide(0.5)
    go.set()
    thread.join()
    assert episode.step == 1
