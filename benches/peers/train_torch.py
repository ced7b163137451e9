"""The paper's training in PyTorch, eager, one thread: what a user would write."""
import os

from protocol import FOLDER, attempt, case, instances, serve

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
sizes = instances()["train"]
n, N, BATCH = sizes["episodes"], sizes["steps"], sizes["batch"]
raw = torch.from_numpy(np.fromfile(os.path.join(FOLDER, "training.f64"), "<f8"))
contexts, budgets = raw[: n * N].reshape(n, N), raw[n * N:]
LOWER, UPPER = 1.0, 40.0
low, high = 1e-6, 10.0
for _ in range(60):
    mid = (low * high) ** 0.5
    spends = float((contexts / mid).clamp(LOWER, UPPER).sum(1).mean()) > float(budgets.mean())
    low, high = (mid, high) if spends else (low, mid)
UNIT = (low * high) ** 0.5 / np.log(2.0)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 1))
for module in net:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
optimiser = torch.optim.Adam(net.parameters(), lr=5e-3, fused=True)


def decide(b, c, t):
    r = N - 1 - t
    price = UNIT * F.softplus(net(torch.stack([b / (12.5 * N), c, torch.full_like(c, r / N)], 1))[:, 0])
    x = torch.minimum(torch.clamp(c / price.clamp_min(1e-6), max=UPPER), b - r * LOWER)
    return torch.clamp(x, min=LOWER)


def utility(c, B):
    b, total = B, 0.0
    for t in range(N - 1):
        x = decide(b, c[:, t], t)
        total = total + (c[:, t] * torch.log(x)).sum()
        b = b - x
    return (total + (c[:, -1] * torch.log(b.clamp(max=UPPER))).sum()) / c.numel()


held = [torch.randperm(n), 0]


def minibatch():
    if held[1] + BATCH > n:
        held[:] = [torch.randperm(n), 0]
    index = held[0][held[1]:held[1] + BATCH]
    held[1] += BATCH
    optimiser.zero_grad(set_to_none=True)
    (-utility(contexts[index], budgets[index])).backward()
    optimiser.step()


def train():
    for _ in range(n // BATCH):
        minibatch()
    with torch.no_grad():
        reached = float(utility(contexts, budgets))
    case("torch", "train", "eager", minibatch, utility=reached)


def decision():
    b, c = torch.tensor([250.0]), torch.tensor([0.3])

    def some():
        with torch.no_grad():
            for _ in range(20):
                decide(b, c, 0)
    case("torch", "decision", "eager", some, units=20)


attempt("torch", "train", "eager", train)
attempt("torch", "decision", "eager", decision)
serve(torch=torch.__version__)
