"""RL4CO's side of `peers.py`, which starts it with a Python that has rl4co.

A step of learning is what its POMO does with a batch, but for logging; its own settings are left as they are.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

logging.disable(logging.WARNING)
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from rl4co.envs import CVRPEnv, TSPEnv  # noqa: E402
from rl4co.models import POMO  # noqa: E402
from rl4co.utils.ops import unbatchify  # noqa: E402

from workers import serve  # noqa: E402

ENVIRONMENTS = {"tsp": TSPEnv, "cvrp": CVRPEnv}


def low(device: str) -> torch.autocast:
    return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")


def learn(model: POMO, device: str) -> Callable[[Any, Any], object]:
    optimiser = torch.optim.Adam(model.policy.parameters(), lr=1e-4, weight_decay=1e-6)

    def step(env: Any, batch: Any) -> None:
        with low(device):
            td = env.reset(batch.clone())
            starts = env.get_num_starts(td)
            out = model.policy(td, env, phase="train", num_starts=starts)
            reward, likelihood = (unbatchify(out[name], (0, starts)) for name in ("reward", "log_likelihood"))
            model.calculate_loss(td, batch, out, reward, likelihood)
        optimiser.zero_grad()
        out["loss"].backward()
        optimiser.step()

    return step


def solve(model: POMO, device: str) -> Callable[[Any, Any], object]:
    model.eval()

    @torch.inference_mode()
    def step(env: Any, batch: Any) -> None:
        with low(device):
            td = env.reset(batch.clone())
            model.policy(td, env, phase="test", decode_type="multistart_greedy", num_starts=env.get_num_starts(td))

    return step


WORK = {"learn": learn, "solve": solve}


def main(name: str, problem: str, size: str, batch: str, device: str) -> None:
    if device == "cuda":
        torch.set_float32_matmul_precision("medium")  # as its trainer does
    envs = [ENVIRONMENTS[problem](generator_params={"num_loc": nodes}, device=device) for nodes in (int(size), 5)]
    step = WORK[name](POMO(envs[0]).to(device), device)
    large, small = (env.generator(count).to(device) for env, count in zip(envs, (int(batch), 2), strict=True))
    serve(lambda: step(envs[0], large), lambda: step(envs[1], small), device)


if __name__ == "__main__":
    main(*sys.argv[1:])
