"""Whatever is handed over: an exception with words, and the interpreter lives on."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import laau
import numpy as np
import pytest

# Each line is tried in one process, one after the other: the exception that it must raise, words of it, and the line.
# What is not a number may come back as such from a gradient: there any answer is right but a crash.
TRIED = """
Error :: finite :: laau.Episodes([[float("nan")]], [1.0])
Error :: finite :: laau.Episodes([[float("inf")]], [1.0])
Error :: found an array of object :: laau.Episodes(np.array([[None]]), [1.0])
Error :: found an array of datetime64 :: laau.Episodes(np.zeros((1, 1), "M8[s]"), [1.0])
Error :: found an array of <U :: laau.Episodes([["1"]], [1.0])
Error :: found an array of longdouble|found an array of float128 :: laau.Episodes(np.zeros((1, 1), np.longdouble), [1.0])
Error :: shape :: laau.Episodes(np.zeros((1, 1, 1, 1)), [1.0])
Error :: shape :: laau.Episodes(0.5, 1.0)
Error :: at least one :: laau.Episodes(np.zeros((3, 4, 0)), np.ones(3))
Error :: at least one :: laau.Episodes(np.zeros((3, 4)), np.zeros((3, 0)))
MemoryError :: allocate :: laau.Episodes(np.broadcast_to(0.5, (10**7, 10**7)), np.ones(10**7))
Error :: no episode 60 :: sets.train.select([60])
OverflowError :: negative :: sets.train.select([-1])
Error :: at least one :: sets.train.select([])
Error :: memory :: laau.generate(horizon=10**6, episodes=10**9)
Error :: memory|too|at most :: laau.generate(horizon=10**9, episodes=10**15)
Error :: memory|too|at most :: laau.generate(horizon=2**62, episodes=2**62)
Error :: at least 1 :: laau.generate(horizon=0, episodes=5)
Error :: integer|positive|invalid|at least :: laau.generate(horizon=-3, episodes=5)
Error :: finite|budget :: laau.generate(horizon=3, episodes=5, budget=(float("nan"), 1.0))
Error :: finite :: laau.Ledger([float("nan")])
Error :: shape|length|expected :: laau.Ledger([1.0]).spend([[0.5, 0.5], [0.1, 0.1]])
Error :: budget :: task.begin(float("nan"), 4)
Error :: budget :: task.begin(-1.0, 4)
Error :: shape :: task.begin([1.0, 2.0], 4)
Error :: step :: task.begin(40.0, 0)
OverflowError ::  :: task.begin(40.0, -1)
OverflowError ::  :: task.begin(40.0, 2**70)
Error :: steps|horizon|reserve|budget :: task.begin(40.0, 2**62)
Error :: context :: task.begin(40.0, 4).observe(float("nan"))
Error :: shape :: task.begin(40.0, 4).observe([[0.5, 0.5]])
Error :: no policy :: task.begin(40.0, 4).decide(0.5)
Overspend :: budget 0 :: task.begin(40.0, 4).pay(0.5, 39.0)
Error :: action :: task.begin(40.0, 4).pay(0.5, float("nan"))
Error :: finite|action :: task.cost(float("nan"), 0.5)
Error :: finite|action :: task.usage(float("inf"), 0.5)
Error :: finite|available|action :: task.project(float("nan"), 0.5, 40.0)
Error :: finite|available|action :: task.project(1.0, 0.5, float("nan"))
Error :: unknown problem :: laau.Task("")
Error :: unknown :: laau.Task("wireless", wrong=1)
Error :: tolerance :: laau.Task("wireless", solver={"tolerance": float("nan")})
Error :: iteration :: laau.Task("wireless", solver={"max_iterations": 0})
Error :: unknown option :: laau.Task("wireless", solver={"speed": 1})
TypeError ::  :: laau.Task("wireless", solver={1: 2})
TypeError ::  :: laau.Task("wireless", solver={"tolerance": "small"})
TypeError ::  :: laau.Task(3)
Error :: at least one row :: layer.forward(np.zeros((0, 1)), np.zeros((0, 1)), np.zeros((0, 1)))
Error :: shape :: layer.forward(0.5, 0.1, 30.0)
Error :: shape :: layer.forward(np.zeros((2, 1)), np.zeros((2, 3)), np.zeros((2, 1)))
Error :: row 1 :: layer.forward([[0.5], [np.nan]], [[0.1], [0.1]], [[30.0], [30.0]])
Error :: row 0 :: layer.forward([[0.5]], [[np.inf]], [[30.0]])
Error :: row 0 :: layer.forward([[0.5]], [[0.1]], [[-5.0]])
Error :: shape :: layer.backward([[0.5]], [[0.1]], [[30.0]], [[1.0, 2.0]], [[0.0] * 4], [[1.0]], True)
- ::  :: layer.backward([[0.5]], [[0.1]], [[30.0]], [[np.nan]], [[np.nan] * 4], [[1.0]], True)
- ::  :: layer.backward([[0.5]], [[0.1]], [[30.0]], [[5.0]], [[0.0, 0.0, 0.0, 1.0]], [[np.nan]], True)
Error :: multipliers :: layer.episode(np.full((1, 4, 1), 0.5), [[40.0]], np.zeros((1, 3, 1)))
Error ::  :: layer.episode(np.full((1, 4, 1), np.nan), [[40.0]], np.full((1, 4, 1), 0.1))
Error ::  :: layer.episode(np.full((1, 4, 1), 0.5), [[np.nan]], np.full((1, 4, 1), 0.1))
Error ::  :: layer.episode(np.zeros((0, 4, 1)), np.zeros((0, 1)), np.zeros((0, 4, 1)))
Error :: weights :: laau.train(task, sets.train, sets.validation, hidden=[2**40, 2**40])
Error :: takes|memory :: laau.train(task, sets.train, sets.validation, hidden=[2**17, 2**17])
Error :: batch :: laau.train(task, sets.train, sets.validation, batch=0)
Error :: finite :: laau.train(task, sets.train, sets.validation, phases=[(1, float("nan"))])
TypeError ::  :: laau.train(task, sets.train.contexts, sets.validation)
Error :: another problem|context :: laau.train("wireless", sets.train, sets.validation)
Error :: cannot decide step by step :: laau.fit(task, "opt", sets.train, sets.validation)
Error :: unknown policy :: laau.fit(task, "optt", sets.train, sets.validation)
Error :: between 0 and 1|level :: policy.guarded(policy, 7.0)
Error :: between 0 and 1|level :: policy.guarded(policy, float("nan"))
TypeError ::  :: policy.guarded("mw")
Error :: another problem :: policy.guarded(laau.untuned("wireless", "equal", budgets=[10.0, 10.0], horizon=6))
Error ::  :: policy.play(laau.generate("wireless", horizon=6, episodes=3))
Error :: 6 to 6 steps, not of 9 :: policy.play(laau.generate(task, horizon=9, episodes=3))
Error :: 6 to 6 steps, not of 9 :: policy.begin(90.0, 9)
Error :: 6 to 6 steps, not of 9 :: laau.compare(task, longer, {"mine": policy})
Error :: 6 to 6 steps, not of 9 :: laau.compare(task, longer, ["equal"], guard=policy)
Error :: 6 to 6 steps, not of 9 :: laau.train(task, longer.train, longer.validation, guard=policy)
Error :: named twice :: laau.compare(task, sets, ["mw", "mw"])
Error :: has no name :: laau.compare(task, sets, [object()])
Error :: does not decide :: laau.compare(task, sets, {"mine": 3})
Error :: unknown kind of frame :: laau.compare(task, sets, ["equal"], frame="excel")
Error :: seed :: laau.compare(task, sets, ["equal"], seeds=[])
OverflowError ::  :: laau.compare(task, sets, ["equal"], seeds=[-1])
Error :: cannot be :: laau.compare(task, sets, ["laau"], hidden=object())
Error :: no such file|os error|No such file :: laau.load("/nowhere/at/all")
Error :: not a policy file|expected :: laau.load(__file__)
Error :: no such file :: laau.Episodes.read("/nowhere/at/all.parquet")
TypeError :: abstract|cannot create|No constructor :: laau.Policy()
TypeError :: cannot be pickled :: pickle.dumps(laau.policy(task, lambda seen: 1.0))
TypeError :: pickle :: pickle.dumps(task.begin(40.0, 4))
"""

SCRIPT = """
import json, pickle, sys
import numpy as np
import laau

task = laau.Task("weighted-fairness")
sets = laau.generate(task, horizon=6, split=(60, 20, 30), seed=1)
policy = laau.train(task, sets.train, sets.validation, phases=[(1, 0.005)])
longer = laau.generate(task, horizon=9, split=(60, 20, 30), seed=1)
layer = laau.Layer(task)
__file__ = sys.executable
for line in sys.stdin:
    line = line.strip()
    print(json.dumps(line), flush=True)
    try:
        answer = eval(line)
        print(json.dumps(["nothing was raised", repr(answer)[:200]]), flush=True)
    except BaseException as error:
        print(json.dumps([type(error).__name__, str(error)]), flush=True)
"""


def test_hostile_inputs_have_words() -> None:
    tried = [[part.strip() for part in line.split("::", 2)] for line in TRIED.strip().splitlines()]
    given = "\n".join(line for _, _, line in tried)
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=given, capture_output=True, text=True, timeout=300)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (answers[-1], done.stderr)
    wrong = []
    for (kind, words, line), asked, (raised, said) in zip(tried, answers[::2], answers[1::2], strict=True):
        assert asked == line
        fits = any(word.strip() in said for word in words.split("|"))
        if (kind != "-" and (raised != kind or not fits)) or "mistake in laau" in said:
            wrong.append(f"{line}\n    expected {kind}: {words}\n    found {raised}: {said}")
    assert not wrong, "\n".join(wrong)


def test_arrays_of_any_layout_are_the_same_numbers() -> None:
    layer = laau.Layer(laau.Task("wireless"))
    episodes = laau.generate("wireless", horizon=4, episodes=8)
    contexts, prices, available = episodes.contexts[:, 0], np.full((8, 2), 0.1), episodes.budgets / 4
    expected, _ = layer.forward(contexts, prices, available)

    def spread(array: np.ndarray) -> np.ndarray:
        wide = np.full((2 * len(array), 2 * array.shape[1]), np.nan)
        wide[::2, ::2] = array
        return wide[::2, ::2]

    frozen = contexts.copy()
    frozen.flags.writeable = False
    backwards = contexts[::-1][::-1]
    big_endian = contexts.astype(">f8")
    unaligned = np.frombuffer(b"x" + contexts.tobytes(), np.uint8)[1:].view(np.float64).reshape(contexts.shape)
    for same in (spread(contexts), np.asfortranarray(contexts), frozen, backwards, big_endian, unaligned, contexts.tolist()):
        assert np.array_equal(layer.forward(same, prices, available)[0], expected)
    assert np.array_equal(layer.forward(contexts, spread(prices), spread(available))[0], expected)


def test_several_threads_share_everything(task: laau.Task, sets: laau.Sets, trained: laau.Policy) -> None:
    layer = laau.Layer(laau.Task("wireless"))
    episodes = laau.generate("wireless", horizon=4, episodes=300)
    given = episodes.contexts[:, 0], np.full((300, 2), 0.1), episodes.budgets / 4
    actions, _ = layer.forward(*given)
    played = trained.play(sets.test)["actions"]
    even = laau.policy(task, lambda seen: seen.available / (seen.steps_left + 1))
    evenly = even.play(sets.test)["actions"]
    failed: list[object] = []

    def work() -> None:
        try:
            for _ in range(5):
                assert np.array_equal(layer.forward(*given)[0], actions)
                assert np.array_equal(trained.play(sets.test)["actions"], played)
                assert np.array_equal(even.play(sets.test)["actions"], evenly)
                again = laau.train(task, sets.train, sets.validation, phases=[(2, 0.005)], seed=3)
                assert np.array_equal(again.play(sets.test)["actions"], played)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not failed


def run(script: str, **environment: str) -> str:
    """Runs a script that must come to its end."""
    known = os.environ | environment
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120, env=known)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_policy_in_python_may_call_us(threads: str) -> None:
    script = """
import laau
task = laau.Task("weighted-fairness")
sets = laau.generate(task, horizon=4, split=(20, 10, 10), seed=1)
mw = laau.fit(task, "mw", sets.train, sets.validation)

def nested(seen):
    mw.play(sets.validation)
    laau.fit(task, "equal", sets.train, sets.validation)
    return seen.available / (seen.steps_left + 1)

table = laau.compare(task, sets, [{"one": nested, "two": lambda seen: nested(seen)}], guard="mw", frame="dict")
print(table["violations"])
"""
    assert run(script, RAYON_NUM_THREADS=threads, POLARS_MAX_THREADS=threads) == "[0, 0, 0, 0, 0]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_reads_files_or_says_why_not(tmp_path: Path) -> None:
    script = f"""
import os, laau
place = {str(tmp_path / "episodes.parquet")!r}
episodes = laau.generate("wireless", horizon=4, split=(40, 20, 20)).train
episodes.write(place)
laau.Episodes.read(place)
child = os.fork()
if child == 0:
    import signal
    signal.alarm(60)
    try:
        assert laau.Episodes.read(place) == episodes
        episodes.write(place + ".parquet")
        laau.generate("wireless", horizon=4, split=(40, 20, 20))
    except laau.Error as error:
        assert "forked" in str(error), error
    os._exit(0)
status = os.waitpid(child, 0)[1]
assert status == 0, status
"""
    run(script)


def test_episodes_policies_and_layers_can_be_pickled(
    task: laau.Task, sets: laau.Sets, trained: laau.Policy, tmp_path: Path
) -> None:
    assert pickle.loads(pickle.dumps(sets.test)) == sets.test
    mw = laau.fit(task, "mw", sets.train, sets.validation)
    foreign = pickle.loads(pickle.dumps(laau.generate("trading", horizon=sets.test.horizon, split=(4, 4, 4)).test))
    with pytest.raises(laau.Error, match="made for problem `trading`"):
        mw.play(foreign)
    safe = trained.guarded(mw, 0.9)
    for policy in (trained, mw, safe):
        again = pickle.loads(pickle.dumps(policy))
        assert (again.name, again.horizon, again.about) == (policy.name, policy.horizon, policy.about)
        expected = policy.play(sets.test)
        assert np.array_equal(again.play(sets.test)["actions"], expected["actions"])
        policy.save(tmp_path / "kept")
        loaded = laau.load(tmp_path / "kept").play(sets.test)
        assert np.array_equal(loaded["actions"], expected["actions"])
    assert np.nanmin(expected["guard_share"]) >= 0.9
    with pytest.raises(laau.Error, match="cannot be stored"):
        safe.guarded(mw).save(tmp_path / "twice")
    layer = copy.deepcopy(laau.Layer(laau.Task("wireless", solver={"tolerance": 1e-6})))
    assert layer.task.name == "wireless"


def test_a_module_of_torch_can_be_copied_and_saved(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import laau.torch

    module = torch.nn.Sequential(torch.nn.Linear(1, 1), laau.torch.Layer("weighted-fairness"))
    assert copy.deepcopy(module)[1].task == module[1].task
    torch.save(module, tmp_path / "module")
    loaded = torch.load(tmp_path / "module", weights_only=False)
    assert loaded[1].task.name == "weighted-fairness"
