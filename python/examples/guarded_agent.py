"""A learned price, an agent of stable-baselines3 and a rule of one's own, with and without a guard.

`python examples/guarded_agent.py [--quick] [--output guarded_agent.png]`; needs `pip install 'laau[full]'`.
Read it from top to bottom, as a notebook.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import laau
import laau.gym
import matplotlib.pyplot as plt
import numpy as np
from gymnasium.wrappers import RescaleAction
from stable_baselines3 import PPO

parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
parser.add_argument("--quick", action="store_true", help="little data and training: a minute")
parser.add_argument("--output", type=Path, default=Path("guarded_agent.png"))
given = parser.parse_args()

# %% Episodes: readings of virtual machines, a budget of cores per episode.
task = laau.Task("weighted-fairness")
split = (300, 100, 200) if given.quick else (5000, 1000, 2000)
sets = laau.generate(task, horizon=20, split=split, seed=1)

# %% LAAU: a small network prices the budget, the convex layer decides.
phases = [(6, 0.005), (2, 0.0025)] if given.quick else [(50, 0.005), (30, 0.0025)]
trained = laau.train(task, sets.train, sets.validation, form="residual", phases=phases)

# %% An agent that learns by reinforcement, on the same episodes and the same ledger.
env = RescaleAction(laau.gym.BudgetEnv(task, sets.train), -1.0, 1.0)
ppo = PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=1000, batch_size=100, gamma=1.0)
ppo.learn(4_000 if given.quick else 300_000)
lower, upper = task.lower, task.upper
agent = laau.gym.AgentPolicy(task, ppo, "ppo", action=lambda said: lower + (said + 1.0) / 2.0 * (upper - lower))


# %% A rule of one's own: what is left, evenly.
def even(seen: laau.Observation) -> np.ndarray:
    return seen.available / (seen.steps_left + 1)


# %% All of them against the optimum, and behind a guard of MW: at least 95 % of its gain in every episode.
frame = laau.compare(task, sets, ["opt", {"laau": trained}, agent, even, "mw"], guard="mw", guard_level=0.95, frame="dict")
for row, name in enumerate(frame["policy"]):
    print(f"{name:14} {frame['fraction_of_opt'][row]:.4f}  violations {frame['violations'][row]}")

# %% The figure: fractions of the optimum, and what the guard promised.
figure, axes = plt.subplots(figsize=(7, 3.5))
names = [name for name in frame["policy"] if name != "opt"]
fractions = [frame["fraction_of_opt"][frame["policy"].index(name)] for name in names]
colours = ["tab:orange" if name.endswith("-guarded") else "tab:blue" for name in names]
axes.barh(names, fractions, color=colours)
axes.axvline(0.95 * fractions[names.index("mw")], color="black", linestyle=":", label="95 % of MW's utility")
axes.set_xlim(min(fractions) - 0.05, 1.0)
axes.set_xlabel("fraction of the offline optimum")
axes.invert_yaxis()
axes.legend(loc="lower left")
figure.tight_layout()
figure.savefig(given.output, dpi=150)
print(f"{given.output} is drawn")
