"""How the networks are trained: Muon for the matrices of `blocks`, AdamW for the rest, and a running average of the weights."""

from __future__ import annotations

from copy import deepcopy
from typing import Generic, TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


class Trainer(Generic[Network]):
    """Steps the weights of `network` that want a gradient, and keeps `average`, the exponential moving average of its weights.

    The average is what is used.

    Muon is `torch.optim.Muon` (Jordan et al. 2024); rates rise linearly over `warmup` steps.
    """

    def __init__(self, network: Network, *, muon_rate: float, adam_rate: float, warmup: int, averaging: float) -> None:
        self.network, self.average = network, deepcopy(network)
        trained = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
        layers = [weight for name, weight in trained.items() if name.startswith("blocks.")]
        others = [weight for name, weight in trained.items() if not name.startswith("blocks.")]
        self._optimizers = (
            torch.optim.Muon(layers, lr=muon_rate, momentum=0.95, weight_decay=0.0),
            torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.98), weight_decay=0.0),
        )
        self._rates = (muon_rate, adam_rate)
        self._warmup, self._averaging, self.steps = warmup, averaging, 0

    @torch.no_grad()
    def step(self) -> None:
        """Apply the gradients that were gathered since the last step."""
        self.steps += 1
        for optimizer, rate in zip(self._optimizers, self._rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * min(1.0, self.steps / self._warmup)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        # Early weights are far from anything: the average forgets them faster.
        kept = min(self._averaging, self.steps / (self.steps + 10))
        for average, weight in zip(self.average.parameters(), self.network.parameters(), strict=True):
            average.lerp_(weight, 1 - kept)
