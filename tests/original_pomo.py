"""The original POMO, and Omni with its other norm, literally: names, steps one after the other, checkpoint files.

Shapes: B instances, P tours of each, N nodes, D width, H heads.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from dree.problems import Instances

CLIP = 10.0
ROOM = 1e-5  # a demand fits that exceeds the load by less


class Normalised(nn.Module):
    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        made = {"instance": nn.InstanceNorm1d, "batch": nn.BatchNorm1d, "batch-no-track": nn.BatchNorm1d}[kind]
        self.norm = made(width, affine=True, track_running_stats=kind == "batch")
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.uniform_(self.norm.bias, -0.5, 0.5)

    def forward(self, x: Tensor, change: Tensor) -> Tensor:
        total = x + change
        if isinstance(self.norm, nn.BatchNorm1d):
            flat: Tensor = self.norm(total.reshape(-1, total.shape[-1]))
            return flat.view(total.shape)
        normed: Tensor = self.norm(total.transpose(1, 2))
        return normed.transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.W1 = nn.Linear(width, hidden)
        self.W2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.W2(functional.relu(self.W1(x)))
        return result


def attention(query: Tensor, key: Tensor, value: Tensor, heads: int, mask_BPN: Tensor | None = None) -> Tensor:
    """Head after head: [B, P, D]."""
    size = query.shape[-1] // heads
    results = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(size)
        weights = (scores if mask_BPN is None else scores + mask_BPN).softmax(-1)
        results.append(weights @ value[..., part])
    return torch.cat(results, dim=-1)


class Layer(nn.Module):
    def __init__(self, problem: str, width: int, heads: int, hidden: int, norm: str) -> None:
        super().__init__()
        self.heads = heads
        self.Wq, self.Wk, self.Wv = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.multi_head_combine = nn.Linear(width, width)
        tsp = problem == "tsp"
        self.parts = (
            "addAndNormalization1" if tsp else "add_n_normalization_1",
            "feedForward" if tsp else "feed_forward",
            "addAndNormalization2" if tsp else "add_n_normalization_2",
        )
        made = (Normalised(width, norm), FeedForward(width, hidden), Normalised(width, norm))
        for name, part in zip(self.parts, made, strict=True):
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        norm1, feed_forward, norm2 = (self.get_submodule(name) for name in self.parts)
        attended = attention(self.Wq(x), self.Wk(x), self.Wv(x), self.heads)
        x = norm1(x, self.multi_head_combine(attended))
        result: Tensor = norm2(x, feed_forward(x))
        return result


class Encoder(nn.Module):
    def __init__(self, problem: str, width: int, heads: int, layers: int, hidden: int, norm: str) -> None:
        super().__init__()
        if problem == "tsp":
            self.embedding = nn.Linear(2, width)
        else:
            self.embedding_depot, self.embedding_node = nn.Linear(2, width), nn.Linear(3, width)
        self.layers = nn.ModuleList(Layer(problem, width, heads, hidden, norm) for _ in range(layers))

    def forward(self, instances: Instances) -> Tensor:
        if instances.demands is None or instances.capacity is None:
            x = self.embedding(instances.coords)
        else:
            share = instances.demands / instances.capacity[:, None]
            customers = torch.cat([instances.coords, share[..., None].to(instances.coords)], dim=-1)[:, 1:]
            x = torch.cat([self.embedding_depot(instances.coords[:, :1]), self.embedding_node(customers)], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


class Decoder(nn.Module):
    def __init__(self, problem: str, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        if problem == "tsp":
            self.Wq_first = nn.Linear(width, width, bias=False)
        self.Wq_last = nn.Linear(width if problem == "tsp" else width + 1, width, bias=False)
        self.Wk, self.Wv = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.multi_head_combine = nn.Linear(width, width)

    def forward(self, nodes: Tensor, query: Tensor, mask_BPN: Tensor) -> Tensor:
        attended = attention(query, self.Wk(nodes), self.Wv(nodes), self.heads, mask_BPN)
        scores = self.multi_head_combine(attended) @ nodes.transpose(1, 2) / math.sqrt(nodes.shape[-1])
        return (CLIP * torch.tanh(scores) + mask_BPN).softmax(-1)


class Original(nn.Module):
    """The network of the original, with random weights; Omni's has another norm than POMO's."""

    def __init__(
        self,
        problem: str,
        width: int = 16,
        heads: int = 8,
        layers: int = 2,
        hidden: int = 24,
        norm: str = "instance",
    ) -> None:
        super().__init__()
        self.encoder = Encoder(problem, width, heads, layers, hidden, norm)
        self.decoder = Decoder(problem, width, heads)

    @torch.no_grad()
    def rollout(self, instances: Instances, sampled: bool = False) -> tuple[Tensor, Tensor]:
        """Actions [B, P, T] from every start, as the original makes them, and the logarithm of their probability."""
        nodes = self.encoder(instances)
        if instances.demands is None:
            return self._tsp(nodes, sampled)
        assert instances.capacity is not None
        return self._cvrp(nodes, (instances.demands / instances.capacity[:, None]).to(nodes), sampled)

    def _tsp(self, nodes: Tensor, sampled: bool) -> tuple[Tensor, Tensor]:
        batch, size, _ = nodes.shape
        chosen = torch.arange(size).expand(batch, size)
        first = self.decoder.Wq_first(rows(nodes, chosen))
        mask = torch.zeros(batch, size, size).to(nodes)
        actions, log_prob = [chosen], torch.zeros(batch, size).to(nodes)
        for _ in range(size - 1):
            mask = mask.scatter(-1, chosen[..., None], -math.inf)
            policy = self.decoder(nodes, first + self.decoder.Wq_last(rows(nodes, chosen)), mask)
            chosen = choose(policy, sampled)
            log_prob = log_prob + policy.gather(-1, chosen[..., None])[..., 0].log()
            actions.append(chosen)
        return torch.stack(actions, dim=-1), log_prob

    def _cvrp(self, nodes: Tensor, demand_BN: Tensor, sampled: bool) -> tuple[Tensor, Tensor]:
        batch, size, _ = nodes.shape
        tours = size - 1
        load, log_prob = torch.ones(batch, tours).to(nodes), torch.zeros(batch, tours).to(nodes)
        visited = torch.zeros(batch, tours, size, dtype=torch.bool)
        done = torch.zeros(batch, tours, dtype=torch.bool)
        given = [torch.zeros(batch, tours, dtype=torch.int64), torch.arange(1, size).expand(batch, tours)]
        mask = torch.zeros(batch, tours, size).to(nodes)
        actions: list[Tensor] = []
        while not done.all():
            if len(actions) < 2:
                chosen = given[len(actions)]
            else:
                query = self.decoder.Wq_last(torch.cat([rows(nodes, actions[-1]), load[..., None]], dim=-1))
                policy = self.decoder(nodes, query, mask)
                chosen = choose(policy, sampled)
                log_prob = log_prob + policy.gather(-1, chosen[..., None])[..., 0].log()
            actions.append(chosen)
            home = chosen == 0
            load = torch.where(home, 1.0, load - demand_BN.gather(1, chosen))
            visited = visited.scatter(-1, chosen[..., None], True)
            visited[..., 0] = home
            blocked = visited | (demand_BN[:, None, :] > load[..., None] + ROOM)
            done = done | visited.all(-1)
            blocked[..., 0] &= ~done
            mask = torch.zeros_like(mask).masked_fill(blocked, -math.inf)
        return torch.stack(actions, dim=-1), log_prob


def rows(nodes: Tensor, index_BP: Tensor) -> Tensor:
    return torch.stack([nodes[row, index] for row, index in enumerate(index_BP)])


def choose(policy: Tensor, sampled: bool) -> Tensor:
    return policy.flatten(0, 1).multinomial(1).view(policy.shape[:2]) if sampled else policy.argmax(-1)


def save_original(path: Path, model: nn.Module, **changes: object) -> Path:
    """A checkpoint with all that the original's trainer puts into one."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-6)
    sum(each.sum() for each in model.parameters()).backward()  # so that the optimiser has a state
    optimizer.step()
    scheduler = {"milestones": Counter({3001: 1}), "gamma": 0.1, "last_epoch": 3, "_last_lr": [1e-4]}
    log = ({"train_score", "train_loss"}, {"train_score": [[1, 7.5], [2, 7.25]], "train_loss": [[1, -3.0]]})
    content = {
        "epoch": 2,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
        "scheduler_state_dict": scheduler,
        "result_log": log,
    }
    torch.save({**content, **changes}, path)
    return path
