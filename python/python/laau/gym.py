"""Online problems with strict budgets as environments of gymnasium.

>>> import laau, laau.gym
>>> env = laau.gym.BudgetEnv("wireless", laau.generate("wireless", horizon=10, episodes=50))
>>> observation, _ = env.reset(seed=1)
>>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
>>> bool(terminated), sorted(info)
(False, ['action', 'fallback', 'guarded', 'projected', 'remaining', 'usage'])
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from . import _laau
from ._laau import Episode, Episodes, Observation, Policy, Task
from ._types import Array

Float32 = npt.NDArray[np.float32]


def _seen(context: Array, remaining: Array, budgets: Array, steps_left: int, horizon: int) -> Float32:
    share = remaining / np.where(budgets > 0.0, budgets, 1.0)
    parts = [context, share, budgets / horizon, np.array([(steps_left + 1) / horizon])]
    return np.concatenate(parts).astype(np.float32)


class BudgetEnv(gymnasium.Env[Float32, Float32]):
    """One problem on a set of episodes; the exact ledger pays every step.

    An observation has the context, the share that remains of each budget, each budget per step, and the share of steps
    that is left. An action is in the problem's box; one that cannot be paid is pulled in until it can (`projected` in
    the info). The reward is the utility of the step. `reset(options={"episode": 3})` chooses an episode.

    With `guard`, every action passes the guard: the episode gains at least a share of what the incumbent would have.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium's own declaration

    def __init__(
        self,
        task: Task | str,
        episodes: Episodes,
        *,
        guard: Policy | None = None,
        guard_level: float = 0.95,
    ) -> None:
        self.task = Task(task) if isinstance(task, str) else task
        self.episodes = episodes
        self._contexts, self._budgets = episodes.contexts, episodes.budgets
        _, budgets, context = self.task.sizes
        self.action_space = gymnasium.spaces.Box(
            self.task.lower.astype(np.float32), self.task.upper.astype(np.float32), dtype=np.float32
        )
        size = context + 2 * budgets + 1
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), dtype=np.float32)
        self._episode: Episode | None = None
        self._index = 0
        self._advised = self.task.lower
        self._guarded: Policy | None = None
        if guard is not None:
            self.guard_by(guard, guard_level)

    def guard_by(self, incumbent: Policy, level: float = 0.95) -> None:
        """Puts every later episode behind a guard."""
        advice = _laau.scripted(self.task, "agent", lambda _: self._advised)
        self._guarded = advice.guarded(incumbent, level)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Float32, dict[str, Any]]:
        """Opens an episode: the one that is asked for, or one drawn at random."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(len(self.episodes)))
        self._index = drawn if options is None else int(options.get("episode", drawn))
        opener = self.task if self._guarded is None else self._guarded
        self._episode = opener.begin(self._budgets[self._index], self.episodes.horizon)
        return self._observe(), {"episode": self._index}

    def _observe(self) -> Float32:
        episode = self._open()
        step = min(episode.step, episode.horizon - 1)
        context, budgets = self._contexts[self._index, step], self._budgets[self._index]
        return _seen(context, episode.remaining, budgets, episode.horizon - 1 - episode.step, episode.horizon)

    def _open(self) -> Episode:
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("reset the environment before its first step")
        return self._episode

    def step(self, action: Any) -> tuple[Float32, float, bool, bool, dict[str, Any]]:
        """Pays an action, or the nearest to it on the way to the lower corner that can be paid."""
        episode = self._open()
        context = self._contexts[self._index, min(episode.step, episode.horizon - 1)]
        wanted = np.asarray(action, dtype=np.float64).reshape(-1)
        before = episode.remaining
        payable = self.task.project(wanted, context, episode.observe(context).available)
        # The box of float32 is not that of float64: its last digits are no projection.
        projected = not np.allclose(payable, wanted, rtol=1e-6, atol=1e-6)
        fallback, guarded = None, False
        if self._guarded is None:
            episode.pay(context, payable)
        else:
            self._advised = payable
            decision = episode.decide(context)
            payable, fallback, guarded = decision.action, decision.fallback, decision.guarded
        reward = -self.task.cost(payable, context)
        info = {
            "action": payable,
            "usage": before - episode.remaining,
            "remaining": episode.remaining,
            "projected": projected,
            "fallback": fallback,
            "guarded": guarded,
        }
        return self._observe(), reward, episode.is_over, False, info


class Guard(gymnasium.Wrapper[Float32, Float32, Float32, Float32]):
    """Guards any agent: on every episode it gains at least a share of what the incumbent would have gained.

    The wrapped environment must be, or wrap, a `BudgetEnv`.
    """

    def __init__(self, env: gymnasium.Env[Float32, Float32], incumbent: Policy, level: float = 0.95) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, BudgetEnv):
            raise TypeError(f"expected an environment around a BudgetEnv, found {type(inner).__name__}")
        inner.guard_by(incumbent, level)


class AgentPolicy:
    """An agent with `predict`, as of stable-baselines3, as a policy for `laau.compare` and behind the guard.

    `action` turns what the agent says into an action of the problem, where it was trained on a rescaled one.
    """

    def __init__(self, task: Task, agent: Any, name: str = "agent", action: Any = None) -> None:
        self.task, self.agent, self.name = task, agent, name
        self._action = action or (lambda said: said)

    def decide(self, seen: Observation) -> Array:
        """What the agent does, pulled in until it can be paid."""
        observation = _seen(seen.context, seen.remaining, seen.budgets, seen.steps_left, seen.horizon)
        said, _ = self.agent.predict(observation, deterministic=True)
        wanted = np.asarray(self._action(said), dtype=np.float64).reshape(-1)
        return self.task.project(wanted, seen.context, seen.available)
