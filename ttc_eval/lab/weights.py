"""The weights of the lab model and of its process verifier: one file of half-precision arrays, checked by its hash.

The arrays are stored in `x @ W` orientation under the names `token`, `position`, `query.0` … `down.3` and `head`. The verifier
has two further layers, a head and a vector for the likelihood of what was written, `verifier.query.0` …
`verifier.likelihood`. Every size follows from the arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ttc_eval.errors import UserError

Floats = NDArray[np.float32]

WEIGHTS_PATH = Path(__file__).with_name("weights.npz")
WEIGHTS_SHA256 = "74aa7036425d426cc4a54c651dce9e20d61462bafe64064e27a7ae1671fb889c"

_VERIFIER = "verifier."


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One block, ready to run.

    `query_key_value` `(width, heads * head_width + 2 * head_width)` is the three projections side by side, the query
    scaled by `1 / sqrt(head_width)`; `out` `(heads * head_width, width)`, `up` `(width, hidden)`, `down` `(hidden, width)`.
    """

    query_key_value: Floats
    out: Floats
    up: Floats
    down: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Verifier:
    """What the verifier adds to the generator: `layers` over its states, and `head` `(width,)`, which makes a logit.

    `likelihood` `(width,)` is added to a token's normalised state as many times as the generator's log-probability of that token says.
    """

    layers: tuple[Layer, ...]
    head: Floats
    likelihood: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The generator, float32, and its verifier.

    `token` `(vocabulary, width)`, `position` `(context, width)`, `head` `(width, vocabulary)`.
    """

    token: Floats
    position: Floats
    layers: tuple[Layer, ...]
    head: Floats
    head_width: int
    verifier: Verifier | None = None

    @property
    def width(self) -> int:
        """Size of a state."""
        return len(self.head)

    @property
    def heads(self) -> int:
        """Query heads; they share one key and one value."""
        return len(self.layers[0].out) // self.head_width


@lru_cache(maxsize=4)
def load_weights(path: Path | None = None) -> Weights:
    """The shipped weights, or those of `path`, which no hash is asked of.

    Raises `UserError` when the shipped file is missing or is not the one that this version was measured with, or when
    `path` holds no such arrays.
    """
    if path is None:
        weights_identity()
    return _read(path or WEIGHTS_PATH)


@lru_cache(maxsize=1)
def weights_identity() -> str:
    """SHA-256 of the shipped weights, in hex. Raises `UserError` when they are missing or changed."""
    _require(WEIGHTS_PATH)
    found = file_identity(WEIGHTS_PATH)
    if found != WEIGHTS_SHA256:
        raise UserError(f"{WEIGHTS_PATH}: sha256 {found[:16]}…, expected {WEIGHTS_SHA256[:16]}…; reinstall ttc_eval to mend it")
    return found


def file_identity(path: Path) -> str:
    """SHA-256 of a file of weights, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def weights_of(arrays: Mapping[str, NDArray[np.floating]]) -> Weights:
    """The network that named arrays make. Raises `KeyError` when one is missing; the verifier's may all be."""
    named = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    head_width = named["key.0"].shape[1]
    generator = Weights(named["token"], named["position"], _layers(named, head_width), named["head"], head_width)
    own = {name.removeprefix(_VERIFIER): array for name, array in named.items() if name.startswith(_VERIFIER)}
    if not own:
        return generator
    return replace(generator, verifier=Verifier(_layers(own, head_width), own["head"].reshape(-1), own["likelihood"]))


def _layers(named: Mapping[str, Floats], head_width: int) -> tuple[Layer, ...]:
    count = sum(name.startswith("query.") for name in named)
    return tuple(_layer(named, place, head_width) for place in range(count))


def _layer(named: Mapping[str, Floats], place: int, head_width: int) -> Layer:
    query = named[f"query.{place}"] * np.float32(head_width**-0.5)
    parts = np.concatenate([query, named[f"key.{place}"], named[f"value.{place}"]], axis=1)
    return Layer(np.ascontiguousarray(parts), named[f"out.{place}"], named[f"up.{place}"], named[f"down.{place}"])


def _read(path: Path) -> Weights:
    _require(path)
    try:
        # NumPy leaves a file that it opened itself open when it is no archive.
        with path.open("rb") as stream, np.load(stream) as file:
            return weights_of(dict(file))
    except (KeyError, ValueError, OSError, EOFError, BadZipFile) as error:
        raise UserError(f"{path}: no weights of the lab model ({error})") from None


def _require(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; reinstall ttc_eval, or train weights with ttc_eval.lab.train")
