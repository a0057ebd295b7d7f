"""The translation benchmark with tiny models: what is compared, and that all peers compute the same."""

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

from benchmarks import child_process, translate
from benchmarks.__main__ import main
from benchmarks.measure import Timing
from benchmarks.peers import ctranslate2, translation
from benchmarks.peers.translation import BEGIN, END, FIRST, LENGTHS, PAD, UNKNOWN, Batch, Sizes

KEYS = {"case", "unit", "threads", "ours", "peer", "peer_name", "ratio", "goal", "limit"}
SMALL = Sizes(vocabulary=9, width=8, heads=2, layers=1, feed_forward=16, dropout=0.0, label_smoothing=0.0, tokens=64)
MODULES = {
    "torch_nn": "torch",
    "seqloom_models": "torch",
    "transformers": "transformers",
    "opennmt": "onmt",
    "joeynmt": "joeynmt",
}
"""The module that each file of benchmarks/peers needs."""
FREE = {"transformers": {UNKNOWN, BEGIN}, "opennmt": {UNKNOWN, BEGIN}, "joeynmt": {UNKNOWN}, "torch_nn": {UNKNOWN}}
"""Special tokens that a search may generate."""


def build_peer(file: str, kind: str, sizes: Sizes = SMALL) -> Any:
    if find_spec(MODULES[file]) is None:
        pytest.skip(f"{MODULES[file]} is not installed")
    make = getattr(importlib.import_module(f"benchmarks.peers.{file}"), kind, None)
    if make is None:
        pytest.skip(f"{file} has no {kind} model")
    torch.manual_seed(3)
    return make(sizes)


def words(file: str) -> list[int]:
    return sorted(FREE.get(file, set())) + list(range(FIRST, SMALL.vocabulary))


def log_probability(peer: Any, source: torch.Tensor, tokens: tuple[int, ...]) -> float:
    batch = Batch(
        source, torch.tensor([source.shape[1]]), torch.tensor([[BEGIN, *tokens[:-1]]]), torch.tensor([tokens])
    )
    with torch.no_grad():
        return -len(tokens) * float(peer.loss(batch))


def interleave_once(calls: Mapping[str, Any], **_: int) -> dict[str, Timing]:
    """Without a clock: each call is slower than the one before it."""
    for call in calls.values():
        call()
    return {name: Timing(2.0 + index, 1.0 + index) for index, name in enumerate(calls)}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "SIZES": SMALL._replace(dropout=0.1),
        "ROWS": (1, 2),
        "LENGTH": 3,
        "SAMPLED": 3,
        "WORDS": 11,
        "HIDDEN": 8,
    }
    for name, value in settings.items():
        monkeypatch.setattr(translate, name, value)
    monkeypatch.setattr(translate, "interleave", interleave_once)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(translate, "peak", lambda threads: 1e9 * threads)
    monkeypatch.setattr(translate, "LIBRARIES", {})
    monkeypatch.setattr(ctranslate2, "installed", lambda: True)
    monkeypatch.setattr(ctranslate2, "name", lambda: "CTranslate2")
    monkeypatch.setattr(ctranslate2, "measure", lambda *_, threads, **__: Timing(threads * 1e3, 5e2))
    monkeypatch.setattr(child_process, "run", lambda _, size: 3.0 + 2 * size)


def test_lengths_are_those_of_multi30k() -> None:
    assert statistics.mean(source for source, _ in LENGTHS) == pytest.approx(13.13, abs=0.2)
    assert statistics.mean(target for _, target in LENGTHS) == pytest.approx(12.61, abs=0.2)


def test_batches_are_full() -> None:
    sizes = Sizes()
    batches = translation.random_batches(sizes, count=3)
    assert [batch.target.shape[1] for batch in batches] == sorted(batch.target.shape[1] for batch in batches)
    for batch in batches:
        assert 0.9 * sizes.tokens < batch.target.numel() <= sizes.tokens
        assert torch.equal(batch.mask.sum(dim=1), batch.lengths)
        assert torch.equal(batch.lengths, batch.lengths.sort(descending=True).values)
        assert (batch.decoder_input[:, 0] == BEGIN).all()
        for before, target in zip(batch.decoder_input.tolist(), batch.target.tolist(), strict=True):
            words = before[1 : before.index(PAD) if PAD in before else None]
            assert target[: len(words) + 1] == [*words, END]
            assert all(FIRST <= word < sizes.vocabulary for word in words)
        assert batch.tokens == int((batch.target != PAD).sum())


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("file", list(MODULES))
def test_a_beam_without_pruning_finds_the_best_translation(file: str, kind: str) -> None:
    peer = build_peer(file, kind)
    peer.model.eval()
    source = torch.tensor([[4, 8, 6, 5]])
    generated = peer.generate(source, torch.tensor([4]), beam_size=81, length=2)
    best = max(itertools.product(words(file), repeat=2), key=partial(log_probability, peer, source))
    assert tuple(generated[0].tolist()) == best


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("file", list(MODULES))
def test_greedy_search_takes_the_most_probable_word(file: str, kind: str) -> None:
    peer = build_peer(file, kind)
    peer.model.eval()
    source, lengths = torch.tensor([[4, 8, 6, 5], [7, 5, PAD, PAD]]), torch.tensor([4, 2])
    generated = peer.generate(source, lengths, beam_size=1, length=3)
    assert generated.shape == (2, 3)
    for row, length in zip(range(2), lengths.tolist(), strict=True):
        best: tuple[int, ...] = ()
        for _ in range(3):
            further = [(*best, word) for word in words(file)]
            best = max(further, key=partial(log_probability, peer, source[row, None, :length]))
        assert tuple(generated[row].tolist()) == best


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
@pytest.mark.parametrize("file", list(MODULES))
def test_training_overfits_a_batch(file: str, kind: str) -> None:
    peer = build_peer(file, kind)
    batches = translation.random_batches(SMALL, count=1)
    losses = []
    for _ in zip(range(30), translation.updates(peer, batches, learning_rate=0.01), strict=False):
        with torch.no_grad():
            losses.append(float(peer.loss(batches[0])))
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_operations_are_those_of_the_matrix_products(kind: str) -> None:
    sizes = SMALL._replace(width=64, vocabulary=300)
    words = torch.full((2, 3), FIRST)
    batch = Batch(words, torch.tensor([3, 3]), words, words)
    if kind == "recurrent":
        cell, read, other = 2 * 4 * 64 * 128, 2 * 64 * 128, 2 * 64 * 64
        expected = 3 * (2 * cell + cell + read + 3 * other + 2 * 64 * 300)
        assert translate.operations(kind, sizes, [batch]) == expected
        return
    peer = build_peer("torch_nn", kind, sizes)
    with FlopCounterMode(display=False) as counter:
        peer.loss(batch).backward()
    # The products of attention scores are not counted: they are negligible for short sentences.
    assert counter.get_total_flops() / batch.tokens == pytest.approx(
        translate.operations(kind, sizes, [batch]), rel=0.02
    )


@pytest.mark.usefixtures("small")
def test_json_has_the_agreed_keys_and_every_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    main(["translate", "--json"])
    results = json.loads(capsys.readouterr().out)
    assert all(result.keys() >= KEYS for result in results)
    compared = {(result["case"], result["peer_name"], result["threads"], result["goal"]) for result in results}
    for title in ("Transformer", "bi-LSTM and LSTM with attention"):
        assert (f"{title}: training", "plain PyTorch", 2, 1.3) in compared
        for search, rows, threads in itertools.product(("greedy", "beam 5"), (1, 2), (1, 2)):
            assert (f"{title}: {search}, batch {rows}", "plain PyTorch", threads, 1.5) in compared
    for threads in (1, 2):
        assert ("LSTM 2 × 8, 11 words: sampling 3 tokens", "a loop over nn.LSTM", threads, 3.0) in compared
    assert ("Transformer: memory at beam size 32, batch 2", "2 × beam size 16", 1, 0.9) in compared
    against = [result for result in results if result["peer_name"] == "CTranslate2, 1 thread"]
    assert [result["goal"] for result in against] == [1.0] * 4
    for result in results:
        memory = result["unit"] == "MB"
        better = result["peer"] / result["ours"] if memory else result["ours"] / result["peer"]
        assert result["ratio"] == pytest.approx(better)
        assert memory or result["unit"] == "tokens/s"


def test_memory_is_compared_with_linear_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "run", lambda _, size: 7.0 * size)
    assert [result.ratio for result in translate.memory()] == [1.0] * 5
    monkeypatch.setattr(child_process, "run", lambda _, size: 7.0 * size**2)
    assert [result.ratio for result in translate.memory()] == [0.5] * 5


@pytest.mark.usefixtures("small")
def test_beam_memory_is_measured() -> None:
    assert translate.beam_memory(4) >= 0


def test_slow_peers_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []

    def interleave(calls: Mapping[str, Any], *, repetitions: int, warm_up: int) -> dict[str, Timing]:
        rounds.append((set(calls), repetitions))
        seconds = {"ours": 9.0, "quick": 1.0, "near": 2.9, "slow": 3.1}
        return {name: Timing(seconds[name] / repetitions, 0.0) for name in calls}

    monkeypatch.setattr(translate, "interleave", interleave)
    timings = translate.time_models(dict.fromkeys(("ours", "quick", "near", "slow"), lambda: None), repetitions=2)
    assert rounds == [({"ours", "quick", "near", "slow"}, 1), ({"ours", "quick", "near"}, 2)]
    assert {name: timing.median for name, timing in timings.items()} == {
        "ours": 4.5,
        "quick": 0.5,
        "near": 1.45,
        "slow": 3.1,
    }


def test_the_goal_applies_to_the_fastest_peer() -> None:
    timings = {"ours": Timing(1.0, 0.5), "slow": Timing(4.0, 4.0), "quick": Timing(2.0, 1.0)}
    slow, quick = translate.compare_peers("case", 10, timings=timings, threads=1, goal=1.5, limit=20.0)
    assert (slow.ours, slow.peer, slow.ratio, slow.goal) == (10.0, 2.5, 4.0, None)
    assert (quick.ours_best, quick.peer_best, quick.ratio, quick.goal, quick.limit) == (20.0, 10.0, 2.0, 1.5, 20.0)


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def load(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", load)
    assert list(translate.installed_peers("transformer", SMALL)) == ["plain PyTorch"]
    assert capsys.readouterr().err.splitlines() == [
        f"Not compared with {library.name}: No module named 'benchmarks.peers.{file}'"
        for file, library in translate.LIBRARIES.items()
    ]


def test_ctranslate2_translates() -> None:
    pytest.importorskip("ctranslate2")
    timing = ctranslate2.measure(SMALL[:5], [[4, 8, 6]], beam_size=2, length=3, threads=1, repetitions=2)
    assert 0 < timing.minimum <= timing.median
