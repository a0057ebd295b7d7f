"""The benchmark of translation on models so small that it takes a moment: what is compared, and that all do alike."""

import importlib
import itertools
import json
import statistics
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from seqloom.bench import peers, peers_ctranslate2, peers_torch, process, translate
from seqloom.bench.measure import Timing
from seqloom.bench.peers import BEGIN, END, FIRST, LENGTHS, PAD, UNKNOWN, Pairs, Sizes

KEYS = {"case", "unit", "threads", "ours", "peer", "peer_name", "ratio", "goal", "limit"}
SMALL = Sizes(vocabulary=9, width=8, heads=2, layers=1, feed_forward=16, dropout=0.0, smoothing=0.0, tokens=64)
NEEDS = {"torch": "torch", "seqloom": "torch", "transformers": "transformers", "opennmt": "onmt", "joeynmt": "joeynmt"}
FREE = {"transformers": {UNKNOWN, BEGIN}, "opennmt": {UNKNOWN, BEGIN}, "joeynmt": {UNKNOWN}, "torch": {UNKNOWN}}
"""What else than words a search may choose."""


def contestant(file: str, kind: str, sizes: Sizes = SMALL) -> Any:
    if find_spec(NEEDS[file]) is None:
        pytest.skip(f"{NEEDS[file]} is not installed")
    make = getattr(importlib.import_module(f"seqloom.bench.peers_{file}"), kind, None)
    if make is None:
        pytest.skip(f"{file} has no {kind} model")
    torch.manual_seed(3)
    return make(sizes)


def words(file: str) -> list[int]:
    return sorted(FREE.get(file, set())) + list(range(FIRST, SMALL.vocabulary))


def log_probability(peer: Any, source: torch.Tensor, said: tuple[int, ...]) -> float:
    pairs = Pairs(source, torch.tensor([source.shape[1]]), torch.tensor([[BEGIN, *said[:-1]]]), torch.tensor([said]))
    with torch.no_grad():
        return -len(said) * float(peer.loss(pairs))


def take_turns_once(contestants: Mapping[str, Any], **_: int) -> dict[str, Timing]:
    """Without a clock: later ones are slower."""
    for contestant in contestants.values():
        contestant()
    return {name: Timing(2.0 + index, 1.0 + index) for index, name in enumerate(contestants)}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"SIZES": SMALL._replace(dropout=0.1), "ROWS": (1, 2), "LENGTH": 3, "SAMPLED": 3, "WORDS": 11, "HIDDEN": 8}
    for name, value in given.items():
        monkeypatch.setattr(translate, name, value)
    monkeypatch.setattr(translate, "take_turns", take_turns_once)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(translate, "peak", lambda threads: 1e9 * threads)
    monkeypatch.setattr(translate, "find", lambda kind, sizes: {"plain torch": getattr(peers_torch, kind)(sizes)})
    monkeypatch.setattr(peers_ctranslate2, "installed", lambda: True)
    monkeypatch.setattr(peers_ctranslate2, "name", lambda: "CTranslate2")
    monkeypatch.setattr(peers_ctranslate2, "measure", lambda *_, threads, **__: Timing(threads * 1e3, 5e2))
    monkeypatch.setattr(process, "child", lambda _, width: 3.0 + 2 * width)


def test_lengths_are_those_of_multi30k() -> None:
    assert statistics.mean(source for source, _ in LENGTHS) == pytest.approx(13.13, abs=0.2)
    assert statistics.mean(target for _, target in LENGTHS) == pytest.approx(12.61, abs=0.2)


def test_batches_are_full_and_whole() -> None:
    sizes = Sizes()
    batches = peers.pairs(sizes, count=3)
    assert [batch.target.shape[1] for batch in batches] == sorted(batch.target.shape[1] for batch in batches)
    for batch in batches:
        assert 0.9 * sizes.tokens < batch.target.numel() <= sizes.tokens
        assert torch.equal(batch.mask.sum(dim=1), batch.lengths)
        assert torch.equal(batch.lengths, batch.lengths.sort(descending=True).values)
        assert (batch.before[:, 0] == BEGIN).all()
        for before, target in zip(batch.before.tolist(), batch.target.tolist(), strict=True):
            words = before[1 : before.index(PAD) if PAD in before else None]
            assert target[: len(words) + 1] == [*words, END]
            assert all(FIRST <= word < sizes.vocabulary for word in words)
        assert batch.tokens == int((batch.target != PAD).sum())


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("file", list(NEEDS))
def test_a_beam_that_drops_nothing_finds_the_best_of_all(file: str, kind: str) -> None:
    peer = contestant(file, kind)
    peer.model.eval()
    source = torch.tensor([[4, 8, 6, 5]])
    found = peer.generate(source, torch.tensor([4]), width=81, length=2)
    best = max(itertools.product(words(file), repeat=2), key=partial(log_probability, peer, source))
    assert tuple(found[0].tolist()) == best


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("file", list(NEEDS))
def test_greedy_takes_the_most_probable_word(file: str, kind: str) -> None:
    peer = contestant(file, kind)
    peer.model.eval()
    source, lengths = torch.tensor([[4, 8, 6, 5], [7, 5, PAD, PAD]]), torch.tensor([4, 2])
    found = peer.generate(source, lengths, width=1, length=3)
    assert found.shape == (2, 3)
    for row, length in zip(range(2), lengths.tolist(), strict=True):
        best: tuple[int, ...] = ()
        for _ in range(3):
            further = [(*best, word) for word in words(file)]
            best = max(further, key=partial(log_probability, peer, source[row, None, :length]))
        assert tuple(found[row].tolist()) == best


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("file", list(NEEDS))
def test_training_learns_a_batch_by_heart(file: str, kind: str) -> None:
    peer = contestant(file, kind)
    batches = peers.pairs(SMALL, count=1)
    losses = []
    for _ in zip(range(30), peers.updates(peer, batches, rate=0.01), strict=False):
        with torch.no_grad():
            losses.append(float(peer.loss(batches[0])))
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_operations_are_the_products_of_a_program(kind: str) -> None:
    sizes = SMALL._replace(width=64, vocabulary=300)
    words = torch.full((2, 3), FIRST)
    pairs = Pairs(words, torch.tensor([3, 3]), words, words)
    if kind == "recurrent":
        cell, read, other = 2 * 4 * 64 * 128, 2 * 64 * 128, 2 * 64 * 64
        expected = 3 * (2 * cell + cell + read + 3 * other + 2 * 64 * 300)
        assert translate.operations(kind, sizes, [pairs]) == expected
        return
    peer = contestant("torch", kind, sizes)
    with FlopCounterMode(display=False) as counter:
        peer.loss(pairs).backward()
    # The products of attention itself are left out: short sentences have next to none.
    assert counter.get_total_flops() / pairs.tokens == pytest.approx(
        translate.operations(kind, sizes, [pairs]), rel=0.02
    )


@pytest.mark.usefixtures("small")
def test_json_has_the_agreed_keys_and_every_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    translate.main(quick=False, as_json=True)
    results = json.loads(capsys.readouterr().out)
    assert all(result.keys() >= KEYS for result in results)
    found = {(result["case"], result["peer_name"], result["threads"], result["goal"]) for result in results}
    for title in ("Transformer", "bi-LSTM and LSTM with attention"):
        assert (f"{title}: training", "plain torch", 2, 1.3) in found
        for search, rows, threads in itertools.product(("greedy", "beam 5"), (1, 2), (1, 2)):
            assert (f"{title}: {search}, batch {rows}", "plain torch", threads, 1.5) in found
    for threads in (1, 2):
        assert ("LSTM 2 × 8, 11 words: sampling 3", "a loop over nn.LSTM", threads, 3.0) in found
    assert ("Transformer: memory of a beam of 32, batch 2", "2 × a beam of 16", 1, 0.9) in found
    against = [result for result in results if result["peer_name"] == "CTranslate2, 1 thread"]
    assert [result["goal"] for result in against] == [1.0] * 4
    for result in results:
        memory = result["unit"] == "MB"
        better = result["peer"] / result["ours"] if memory else result["ours"] / result["peer"]
        assert result["ratio"] == pytest.approx(better)
        assert memory or result["unit"] == "tokens/s"


def test_memory_in_proportion_to_the_width_is_as_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "child", lambda _, width: 7.0 * width)
    assert [result.ratio for result in translate.memory()] == [1.0] * 5
    monkeypatch.setattr(process, "child", lambda _, width: 7.0 * width**2)
    assert [result.ratio for result in translate.memory()] == [0.5] * 5


@pytest.mark.usefixtures("small")
def test_memory_of_a_beam_is_measured() -> None:
    assert translate.beam_memory(4) >= 0


def test_who_is_far_behind_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []

    def turns(contestants: Mapping[str, Any], *, repetitions: int, warm_up: int) -> dict[str, Timing]:
        rounds.append((set(contestants), repetitions))
        seconds = {"ours": 9.0, "quick": 1.0, "near": 2.9, "slow": 3.1}
        return {name: Timing(seconds[name] / repetitions, 0.0) for name in contestants}

    monkeypatch.setattr(translate, "take_turns", turns)
    found = translate.race(dict.fromkeys(("ours", "quick", "near", "slow"), lambda: None), repetitions=2)
    assert rounds == [({"ours", "quick", "near", "slow"}, 1), ({"ours", "quick", "near"}, 2)]
    assert {name: timing.median for name, timing in found.items()} == {
        "ours": 4.5,
        "quick": 0.5,
        "near": 1.45,
        "slow": 3.1,
    }


def test_only_the_best_peer_is_a_goal() -> None:
    timings = {"ours": Timing(1.0, 0.5), "slow": Timing(4.0, 4.0), "quick": Timing(2.0, 1.0)}
    slow, quick = translate.rates("case", 10, timings, threads=1, goal=1.5, limit=20.0)
    assert (slow.ours, slow.peer, slow.ratio, slow.goal) == (10.0, 2.5, 4.0, None)
    assert (quick.ours_best, quick.peer_best, quick.ratio, quick.goal, quick.limit) == (20.0, 10.0, 2.0, 1.5, 20.0)


def test_a_peer_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def load(name: str) -> Any:
        if name.endswith("torch"):
            return peers_torch
        raise ModuleNotFoundError("No module named it")

    monkeypatch.setattr(importlib, "import_module", load)
    assert list(peers.find("transformer", SMALL)) == ["plain torch"]
    said = capsys.readouterr().err.splitlines()
    assert said == [f"Not compared with {name}: No module named it" for name in peers.INSTALLED.values()]


def test_ctranslate2_translates() -> None:
    pytest.importorskip("ctranslate2")
    timing = peers_ctranslate2.measure(SMALL[:5], [[4, 8, 6]], width=2, length=3, threads=1, repetitions=2)
    assert 0 < timing.minimum <= timing.median
