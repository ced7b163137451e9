"""Environments."""

from __future__ import annotations

import laau
import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
import laau.gym  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", laau.PROBLEMS)
def test_every_problem_is_an_environment(name: str) -> None:
    env = laau.gym.BudgetEnv(name, laau.generate(name, horizon=5, episodes=10, seed=1))
    check_env(env, skip_render_check=True)
    check_env(gymnasium.wrappers.RescaleAction(env, -1.0, 1.0).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", ["weighted-fairness", "power"])
def test_the_ledger_pays_whatever_the_agent_does(name: str) -> None:
    episodes = laau.generate(name, horizon=8, episodes=10, seed=1)
    env = laau.gym.BudgetEnv(name, episodes)
    for index in range(10):
        env.reset(options={"episode": index})
        done, steps = False, 0
        while not done:
            _, reward, done, _, info = env.step(env.action_space.high)
            steps += 1
            assert np.isfinite(reward)
            assert (info["remaining"] >= 0.0).all()
        assert steps == 8
    with pytest.raises(laau.Error, match="the episode is over"):
        env.step(env.action_space.low)


def test_a_guard_for_any_agent(task: laau.Task, sets: laau.Sets) -> None:
    mw = laau.fit(task, "mw", sets.train, sets.validation)
    env = laau.gym.Guard(laau.gym.BudgetEnv(task, sets.test), mw, 0.9)
    incumbent = mw.play(sets.test)
    lower = task.lower
    for index in range(len(sets.test)):
        env.reset(options={"episode": index})
        total, done = 0.0, False
        while not done:
            _, reward, done, _, info = env.step(env.action_space.high)
            total += reward
        contexts = sets.test.contexts[index]
        corner = sum(task.cost(lower, context) for context in contexts)
        assert total + corner >= 0.9 * (corner - incumbent["costs"][index].sum()) - 1e-9
        assert info["fallback"] is None
    with pytest.raises(TypeError, match="BudgetEnv"):
        laau.gym.Guard(gymnasium.make("CartPole-v1"), mw)


def test_an_agent_takes_part(task: laau.Task, sets: laau.Sets) -> None:
    class Agent:
        def predict(self, observation: np.ndarray, deterministic: bool) -> tuple[np.ndarray, None]:
            assert observation.shape == (4,)
            return np.array([12.0], dtype=np.float32), None

    agent = laau.gym.AgentPolicy(task, Agent(), name="twelve")
    table = laau.compare(task, sets, ["opt", agent], frame="dict")
    assert table["policy"] == ["opt", "twelve"]
    assert table["violations"] == [0, 0]
    # By the environment it earns the same.
    env = laau.gym.BudgetEnv(task, sets.test)
    total = 0.0
    for index in range(len(sets.test)):
        observation, _ = env.reset(options={"episode": index})
        done = False
        while not done:
            observation, reward, done, _, _ = env.step(agent.agent.predict(observation, True)[0])
            total += reward
    assert total / (len(sets.test) * sets.test.horizon) == pytest.approx(table["utility"][1])


def test_stable_baselines_trains_on_it(task: laau.Task, sets: laau.Sets) -> None:
    baselines = pytest.importorskip("stable_baselines3")
    env = laau.gym.BudgetEnv(task, sets.train)
    agent = baselines.PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu")
    agent.learn(64)
    table = laau.compare(task, sets, ["opt", laau.gym.AgentPolicy(task, agent)], guard="mw", frame="dict")
    assert table["policy"] == ["opt", "agent", "mw", "agent-guarded"]
    assert table["guard_share"][3] >= 0.95
