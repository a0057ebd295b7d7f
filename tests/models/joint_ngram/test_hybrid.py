"""A network and an n-gram model together against the sum over all sequences of units."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.joint_ngram.toy import END, PAIRS, SOURCES, padded

from seqloom.layers.embedding import Embedding
from seqloom.models.classifier import TokenEmbedding
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.generation import teacher_forced_scores
from seqloom.models.joint_ngram import hybrid
from seqloom.models.joint_ngram.alignment import align
from seqloom.models.joint_ngram.hybrid import NETWORK_WEIGHT, NGRAM_WEIGHT, HybridTranslator, TableShapes
from seqloom.models.joint_ngram.unit_ngram import OFFSET

SIZES = {"sources": 8, "targets": 7, "end": END, "order": 3}


def estimated() -> TableShapes:
    aligned = align(PAIRS, longest_chunk=2)
    return TableShapes.estimate(aligned, order=SIZES["order"], sources=SIZES["sources"], end=END)


def build(tables: TableShapes, sizes: dict[str, int] = SIZES) -> Any:
    torch.manual_seed(3)
    embedding = TokenEmbedding(Embedding(sizes["sources"], 4), dropout=0)
    network = Encoder(embedding, build_stack(PrenetConfig(), RecurrenceConfig(hidden_size=6), 4))
    model = HybridTranslator(network, tables, **sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model.eval()


@pytest.fixture
def model() -> Any:
    return build(estimated())


def chunk(model: Any, unit: int) -> tuple[int, ...]:
    return tuple(token for token in model.units.units[unit, 1:].tolist() if token >= 0)


def sizes(model: Any, units: Sequence[int]) -> list[int]:
    """Target tokens of each unit, from the last: the larger one of equally probable alignments is taken."""
    return [len(chunk(model, unit)) for unit in reversed(units)]


def network_scores(model: Any, source: Sequence[int]) -> list[dict[int, float]]:
    """Of each source token, log p of its units: a softmax over their chunks."""
    with torch.no_grad():
        logits = model.output(model.network(*padded([source])).values)[0].double()
    tables = []
    for at, token in enumerate(source):
        units = np.flatnonzero(model.units.units[:, 0] == token).tolist()
        chunks = {unit: model.units.chunk_numbers[unit] for unit in units}
        total = math.log(sum(math.exp(logits[at, number]) for number in chunks.values())) if units else 0
        tables.append({unit: float(logits[at, number]) - total for unit, number in chunks.items()})
    return tables


def paths(model: Any, source: Sequence[int]) -> Iterator[tuple[float, float, tuple[int, ...]]]:
    """The weight of each sequence of units, the network's log-probability of it, and its target."""
    known = [scores for scores in network_scores(model, source) if scores]
    for choice in itertools.product(*known):
        (ngram,) = model.units.ngram.score([[unit + OFFSET for unit in choice]])
        own = sum(scores[unit] for scores, unit in zip(known, choice, strict=True))
        weight = math.exp(NGRAM_WEIGHT * ngram.sum() + NETWORK_WEIGHT * own)
        yield weight, own, tuple(token for unit in choice for token in chunk(model, unit))


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_probabilities_of_all_targets(model: Any, source: list[int]) -> None:
    expected: dict[tuple[int, ...], float] = defaultdict(float)
    for weight, _, target in paths(model, source):
        expected[target] += weight
    total, targets = sum(expected.values()), list(expected)
    assert (len(targets) > 1) == bool(source)
    memory = model.encoder(*padded([source] * len(targets)))
    scored = teacher_forced_scores(model.decoder, memory, padded(targets), end=END)
    for each, (log_probs, _) in zip(targets, scored, strict=True):
        assert math.exp(sum(log_probs)) == pytest.approx(expected[each] / total, rel=1e-4)


def test_the_loss_is_that_of_the_best_alignment_of_each_pair(model: Any) -> None:
    pairs = [*PAIRS, ([3, 7, 4], [3, 4])]  # token 7 stands for nothing
    unit_scores = model.tables.get_buffer(hybrid.UNIT_SCORES).tolist()
    expected = 0.0
    for source, spelled in pairs:
        scores = network_scores(model, source)
        known = [each for each in scores if each]
        aligned = [
            choice
            for choice in itertools.product(*known)
            if [token for unit in choice for token in chunk(model, unit)] == spelled
        ]
        best = max(aligned, key=lambda choice: (sum(unit_scores[unit] for unit in choice), sizes(model, choice)))
        expected -= sum(each[unit] for each, unit in zip(known, best, strict=True))
    inputs, target = padded([source for source, _ in pairs]), padded([target for _, target in pairs])
    assert float(model.alignment_loss(inputs, target).detach()) == pytest.approx(expected, rel=1e-5)


def test_the_network_learns_the_alignments_of_the_ngram_model(model: Any) -> None:
    aligned = align(PAIRS, longest_chunk=2)
    inputs, target = padded([source for source, _ in PAIRS]), padded([target for _, target in PAIRS])
    units, impossible = model.align_units(inputs, target)
    assert impossible == 0
    for (source, _), row, expected in zip(PAIRS, units.tolist(), aligned.texts, strict=True):
        assert row[: len(source)] == expected.tolist()
        assert set(row[len(source) :]) <= {-1}


def test_a_pair_without_alignment_has_a_loss_without_gradient(model: Any) -> None:
    loss = model.alignment_loss(padded([[3]]), padded([[6, 6, 6]]))
    assert float(loss.detach()) == pytest.approx(4 * math.log(7))
    loss.backward()
    assert all(not parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def test_smoothing_spreads_over_the_chunks_of_a_token(model: Any) -> None:
    inputs, target = padded([[4, 5]]), padded([[4, 5, 5]])
    plain, smooth = (float(model.alignment_loss(inputs, target, smoothing=each).detach()) for each in (0.0, 0.2))
    spread = sum(sum(each.values()) / len(each) for each in network_scores(model, [4, 5]))
    assert smooth == pytest.approx(0.8 * plain - 0.2 * spread, rel=1e-5)


def test_tables_are_part_of_the_weights(model: Any) -> None:
    again = build(TableShapes.model_validate_json(estimated().model_dump_json()))
    with pytest.raises(ValueError, match="have not been loaded yet"):
        again.encoder(*padded([[3]]))
    again.load_state_dict(model.state_dict())
    inputs = padded(SOURCES)
    tokens = torch.full((len(SOURCES), 1), END)
    first, second = (each.decoder(tokens, each.start(*inputs))[0] for each in (model, again))
    assert first.equal(second)


def test_damaged_tables_are_refused(model: Any) -> None:
    again, weights = build(estimated()), model.state_dict()
    units = weights["tables.units"].clone()
    units[0, 0] = 7
    with pytest.raises(ValueError, match="sorted by their source token"):
        again.load_state_dict(weights | {"tables.units": units})
    units = weights["tables.units"].clone()
    units[:, 1:] = units[0, 1:]
    with pytest.raises(ValueError, match=r"expected units with \d+ different chunks"):
        again.load_state_dict(weights | {"tables.units": units})
    again.tables.register_buffer(hybrid.UNIT_SCORES, torch.zeros(2))
    with pytest.raises(ValueError, match=r"unit_log_probabilities: expected one value for each of \d+ units"):
        again.load_state_dict(weights | {f"tables.{hybrid.UNIT_SCORES}": torch.zeros(2)})


def test_each_token_has_its_own_units() -> None:
    count = 5000
    pairs = [([token], [token]) for token in range(3, count)]
    tables = TableShapes.estimate(align(pairs, longest_chunk=1), order=1, sources=count, end=END)
    model = build(tables, {"sources": count, "targets": count, "end": END, "order": 1})
    inputs = padded([[7, 8], [9]])
    log_probs, _, counts, _ = model.candidates(model.network(*inputs).values, inputs.values)
    assert counts.tolist() == [[1, 1, 0], [1, 0, 0]]
    assert log_probs.tolist() == [0, 0, 0]
