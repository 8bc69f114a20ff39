"""The network in PyTorch; `ttc_eval.lab.network` runs the same in NumPy."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ttc_eval.lab.network import LEAST_LOG
from ttc_eval.lab.task import STEP_TOKENS
from ttc_eval.lab.tokens import ATTEMPT_BLOCK, CONTEXT, MAX_ATTEMPTS, QUESTION_BLOCK, VOCABULARY

WIDTH, LAYERS, HEADS, HEAD_WIDTH, HIDDEN = 128, 4, 4, 32, 512
VERIFIER_LAYERS = 2


class Block(nn.Module):
    """One layer: multi-query attention, then a squared-ReLU network, both on normalised input."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, HEADS * HEAD_WIDTH, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * HEAD_WIDTH, bias=False)
        self.out = nn.Linear(HEADS * HEAD_WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor) -> Tensor:
        """States `(rows, length, width)` after this layer."""
        rows, length, _ = x.shape
        normed = F.rms_norm(x, (WIDTH,))
        query = self.query(normed).view(rows, length, HEADS, HEAD_WIDTH).transpose(1, 2)
        key, value = self.key_value(normed).view(rows, length, 2, 1, HEAD_WIDTH).unbind(2)
        key, value = (part.transpose(1, 2).expand(-1, HEADS, -1, -1) for part in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, HEADS * HEAD_WIDTH))
        return x + self.down(F.relu(self.up(F.rms_norm(x, (WIDTH,)))).square())


class LabNetwork(nn.Module):
    """The generator: token and position embeddings, four layers, and a head over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(len(VOCABULARY), WIDTH)
        # A position is told as its block, its step and its place within the step; the sum of the three is what is shipped.
        self.part = nn.Embedding(1 + MAX_ATTEMPTS, WIDTH)
        self.step = nn.Embedding(QUESTION_BLOCK // 2, WIDTH)
        self.place = nn.Embedding(STEP_TOKENS + 8, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, len(VOCABULARY), bias=False)
        for table in (self.token, self.part, self.step, self.place):
            nn.init.normal_(table.weight, std=0.5)
        nn.init.zeros_(self.head.weight)
        self.register_buffer("factors", torch.from_numpy(position_factors()), persistent=False)

    def positions(self) -> Tensor:
        """The embedding of every position, `(CONTEXT, WIDTH)`."""
        part, step, place = self.factors
        return self.part(part) + self.step(step) + self.place(place)

    def states(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """States `(rows, length, width)` after the last layer, for tokens and positions `(rows, length)`."""
        x = self.token(tokens) + F.embedding(positions, self.positions())
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits `(rows, length, vocabulary)` of the next token."""
        return self.head(F.rms_norm(self.states(tokens, positions), (WIDTH,)))


class VerifierNetwork(nn.Module):
    """The process verifier: two further layers over a generator that is not trained any more, and one logit.

    It reads the generator's states and how likely the generator found each token that was written.
    """

    def __init__(self, generator: LabNetwork) -> None:
        super().__init__()
        self.generator = generator.requires_grad_(False)
        self.blocks = nn.ModuleList(Block() for _ in range(VERIFIER_LAYERS))
        self.likelihood = nn.Parameter(torch.randn(WIDTH))
        self.head = nn.Linear(WIDTH, 1, bias=False)
        nn.init.zeros_(self.head.weight)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The logit `(rows, length)` that what ends at a token is right, for tokens and positions `(rows, length)`."""
        x = F.rms_norm(self.generator.states(tokens, positions), (WIDTH,))
        logs = self.generator.head(x).log_softmax(-1)
        written = logs[:, :-1].gather(-1, tokens[:, 1:, None]).clamp(min=LEAST_LOG)
        x = x + F.pad(written, (0, 0, 1, 0)) * self.likelihood
        for block in self.blocks:
            x = block(x)
        return self.head(F.rms_norm(x, (WIDTH,)))[..., 0]


def position_factors() -> NDArray[np.int64]:
    """Block, step and place within the step of every position, `(3, CONTEXT)`."""
    factors = np.zeros((3, CONTEXT), np.int64)
    for position in range(QUESTION_BLOCK):
        place = position - 2
        factors[:, position] = (0, max(0, place // 2), STEP_TOKENS + (place % 2 if place >= 0 else 4 + place))
    for position in range(QUESTION_BLOCK, CONTEXT):
        attempt, offset = divmod(position - QUESTION_BLOCK, ATTEMPT_BLOCK)
        step, place = divmod(offset - 1, STEP_TOKENS)
        factors[:, position] = (1 + attempt, step, place) if offset else (1 + attempt, 0, STEP_TOKENS + 4)
    return factors


@torch.no_grad()
def arrays_of(network: LabNetwork | VerifierNetwork) -> dict[str, NDArray[np.float16]]:
    """The arrays that `ttc_eval.lab.weights` reads, in half precision and `x @ W` orientation; of a verifier, its own part."""
    arrays = {"head": network.head.weight.T}
    if isinstance(network, VerifierNetwork):
        arrays["likelihood"] = network.likelihood
    else:
        arrays |= {"token": network.token.weight, "position": network.positions()}
    for place, block in enumerate(network.blocks):
        key, value = block.key_value.weight.view(2, HEAD_WIDTH, WIDTH)
        for name, weight in (("query", block.query.weight), ("key", key), ("value", value)):
            arrays[f"{name}.{place}"] = weight.T
        for name, linear in (("out", block.out), ("up", block.up), ("down", block.down)):
            arrays[f"{name}.{place}"] = linear.weight.T
    return {name: array.numpy().astype(np.float16) for name, array in arrays.items()}
