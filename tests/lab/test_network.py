from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.lab.networks import random_arrays, random_weights, sequences
from ttc_eval.errors import UserError
from ttc_eval.lab import weights as weights_module
from ttc_eval.lab.network import decode_step, next_logits, prefill, verifier_scores
from ttc_eval.lab.pages import PAGE, PagedCache
from ttc_eval.lab.tokens import CONTEXT, THINK_ID, positions
from ttc_eval.lab.weights import Weights, load_weights, weights_of

WEIGHTS = random_weights()


def decoded(weights: Weights, tokens: list[int], known: int) -> NDArray[np.float32]:
    """Logits after each token from `known` on, decoded alone."""
    cache = PagedCache(weights, 1)
    cache.join(prefill(weights, tokens[:known]))
    places = positions(tokens)
    steps = [decode_step(weights, cache, np.array([tokens[at]]), places[at : at + 1])[0] for at in range(known, len(tokens))]
    return np.array(steps)


def decoded_together(tokens: list[list[int]], known: list[int], max_rows: int, seed: int) -> list[NDArray[np.float32]]:
    """The same for several sequences, which join a batch in random order and at random times, and leave it as they end."""
    rng = np.random.default_rng(seed)
    cache, waiting, rows = PagedCache(WEIGHTS, max_rows), rng.permutation(len(tokens)).tolist(), []
    fed = list(known)
    found: list[list[NDArray[np.float32]]] = [[] for _ in tokens]
    while waiting or rows:
        while waiting and len(rows) < max_rows and (not rows or rng.random() < 0.4):
            rows.append(waiting.pop())
            cache.join(prefill(WEIGHTS, tokens[rows[-1]][: known[rows[-1]]]))
        places = np.array([positions(tokens[one])[fed[one]] for one in rows])
        logits = decode_step(WEIGHTS, cache, np.array([tokens[one][fed[one]] for one in rows]), places)
        for row, one in enumerate(rows):
            found[one].append(logits[row].copy())
            fed[one] += 1
        for row in range(len(rows) - 1, -1, -1):
            if fed[rows[row]] == len(tokens[rows[row]]):
                cache.leave(row)
                rows[row] = rows[-1]
                rows.pop()
    return [np.array(steps) for steps in found]


@pytest.mark.parametrize(("max_rows", "seed"), [(2, 0), (7, 1), (40, 2)])
def test_a_row_is_the_same_to_the_bit_whatever_it_is_batched_with(max_rows: int, seed: int) -> None:
    tokens = sequences(40, seed)
    known = [int(np.random.default_rng(at).integers(1, len(one))) for at, one in enumerate(tokens)]
    together = decoded_together(tokens, known, max_rows, seed)
    for one, start, found in zip(tokens, known, together, strict=True):
        assert np.array_equal(found, decoded(WEIGHTS, one, start))


@pytest.mark.parametrize("known", [1, 5, PAGE - 1, PAGE, PAGE + 1, 150])
def test_decoding_agrees_with_reading_the_whole(known: int) -> None:
    tokens = sequences(1, known)[0] + list(range(10)) * 20
    tokens = tokens[:200]
    assert np.allclose(decoded(WEIGHTS, tokens, known), next_logits(WEIGHTS, tokens)[known:], atol=2e-4)


def test_a_full_context_can_be_decoded() -> None:
    tokens = [place % 15 for place in range(CONTEXT)]
    assert np.allclose(decoded(WEIGHTS, tokens, CONTEXT - 2), next_logits(WEIGHTS, tokens)[CONTEXT - 2 :], atol=2e-4)
    with pytest.raises(ValueError, match="context is full"):
        prefill(WEIGHTS, [*tokens, 1])


def test_an_output_does_not_depend_on_what_comes_later() -> None:
    tokens = sequences(1, 3)[0]
    whole, half = next_logits(WEIGHTS, tokens), len(tokens) // 2
    assert np.allclose(next_logits(WEIGHTS, tokens[:half]), whole[:half], atol=2e-4)


def test_verifier_scores_are_probabilities_and_do_not_depend_on_the_other_sequences() -> None:
    tokens = sequences(9, 4)
    together = verifier_scores(WEIGHTS, tokens)
    for one, scores in zip(tokens, together, strict=True):
        assert scores.shape == (len(one),)
        assert ((scores >= 0) & (scores <= 1)).all()
        assert np.array_equal(scores, verifier_scores(WEIGHTS, [one])[0])
    without = {name: array for name, array in random_arrays().items() if not name.startswith("verifier")}
    with pytest.raises(ValueError, match="hold no verifier"):
        verifier_scores(weights_of(without), tokens)


def test_the_pages_of_rows_that_leave_are_used_again() -> None:
    cache = PagedCache(WEIGHTS, 4)
    for tokens in sequences(4, 5, longest=2 * PAGE + 1):
        cache.join(prefill(WEIGHTS, tokens))
    for _ in range(4):
        cache.leave(0)
    assert (cache.rows, cache.pages) == (0, 1), "only the page of nobody is left"
    size = len(cache.owner)
    for tokens in sequences(4, 5, longest=2 * PAGE + 1):
        cache.join(prefill(WEIGHTS, tokens))
    assert len(cache.owner) == size


def test_inference_computes_what_is_trained() -> None:
    torch = pytest.importorskip("torch")
    from ttc_eval.lab.training.network import LabNetwork, VerifierNetwork, arrays_of

    torch.manual_seed(0)
    network = LabNetwork()
    verifier = VerifierNetwork(network)
    with torch.no_grad():
        for weight in verifier.parameters():
            # What half precision holds exactly, so that both compute from the same numbers.
            weight.copy_(weight.normal_(std=0.1).half())
        for table in (network.place, network.step):
            table.weight.zero_()
        weights = weights_of(arrays_of(network) | {f"verifier.{name}": array for name, array in arrays_of(verifier).items()})
        for tokens in ([1, 2, 10, 3, 14, THINK_ID, *range(10)], *sequences(3, 6)):
            places = torch.from_numpy(positions(tokens))[None]
            expected = network(torch.tensor([tokens]), places)[0].numpy()
            assert np.allclose(next_logits(weights, tokens), expected, atol=1e-3)
            assert np.allclose(decoded(weights, tokens, 1), expected[1:], atol=1e-3)
            scores = verifier(torch.tensor([tokens]), places)[0].sigmoid().numpy()
            assert np.allclose(verifier_scores(weights, [tokens])[0], scores, atol=1e-4)


def test_changed_or_missing_weights_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.npz"
    monkeypatch.setattr(weights_module, "WEIGHTS_PATH", path)
    for content, complaint in ((None, "there is no such file; reinstall"), (b"other", r"expected .*reinstall")):
        if content is not None:
            path.write_bytes(content)
        weights_module.weights_identity.cache_clear()
        load_weights.cache_clear()
        with pytest.raises(UserError, match=complaint) as raised:
            load_weights()
        assert "\n" not in str(raised.value)
    weights_module.weights_identity.cache_clear()
    load_weights.cache_clear()


def test_other_weights_load_from_a_path_without_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, **random_arrays(3))  # type: ignore[arg-type]
    assert np.array_equal(load_weights(path).token, random_weights(3).token)
    path = tmp_path / "broken.npz"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(UserError, match="no weights of the lab model"):
        load_weights(path)
