"""The contract of every search with every kind of decoder: exact probabilities, full width, batching, bad input."""

import math
import random
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import isabstract
from itertools import product
from pkgutil import iter_modules
from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, randomize
from tests.decoding.tokens.reference import Toy
from torch import Tensor

from seqloom.decoding import tokens
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Hypothesis, Search, Step
from seqloom.decoding.tokens.search_record import SearchRecord
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder, DecoderStep
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.encoder_decoder import AttentionConfig, EncoderDecoder, build_decoder_layer

pytestmark = pytest.mark.sampled(2)

V, END, START, LENGTH = 4, 2, 1, 4
HIDDEN = 8
SENTENCES = torch.tensor([[1, 2, 3, 3], [3, 1, 0, 0], [2, 0, 0, 0]])
LENGTHS = [4, 2, 1]


class Case:
    """A model with three sources: its step and states, and the probabilities of all sequences."""

    def __init__(self, decoder: Decoder, start: Callable[[Tensor], Any]) -> None:
        self.decoder = decoder
        self.start = start  # indices of sources → state

    @property
    def step(self) -> Step:
        return DecoderStep(self.decoder)

    @cache  # noqa: B019  a few cases, as long as the tests
    def truth(self) -> list[dict[tuple[int, ...], float]]:
        """Every sequence of each source with its log-probability, by teacher forcing: no search, no step."""
        truths: list[dict[tuple[int, ...], float]] = [{} for _ in SENTENCES]
        sequences = list(product(range(V), repeat=LENGTH))
        read = torch.tensor([[START, *sequence[:-1]] for sequence in sequences])
        for row, truth in enumerate(truths):
            with torch.no_grad():
                logits, _ = self.decoder(read, self.start(torch.full((len(read),), row)))
            for sequence, each in zip(sequences, logits.log_softmax(dim=-1).tolist(), strict=True):
                ends = sequence.index(END) + 1 if END in sequence else LENGTH
                truth[sequence[:ends]] = math.fsum(each[place][sequence[place]] for place in range(ends))
        return truths


def language_model(recurrence: RecurrenceConfig) -> Case:
    decoder = Decoder(Embedding(V, HIDDEN), build_stack(PrenetConfig(), recurrence, HIDDEN, causal=True))
    randomize(decoder.eval())

    def start(rows: Tensor) -> Any:  # after the first token
        with torch.no_grad():
            return decoder(SENTENCES[rows, :1], decoder.start(None, len(rows)))[1]

    return Case(decoder, start)


def translator(recurrence: RecurrenceConfig, attention: AttentionConfig | None = None) -> Case:
    encoder = Encoder(
        Embedding(V, HIDDEN), build_stack(PrenetConfig(), recurrence.model_copy(update={"bidirectional": True}), HIDDEN)
    )
    layer = build_decoder_layer(
        recurrence,
        attention or AttentionConfig(),
        HIDDEN,
        encoder=encoder.layer,
        memory_size=encoder.size,
        bridge="linear",
    )
    model = EncoderDecoder(encoder, Decoder(Embedding(V, HIDDEN), layer))
    randomize(model.eval())

    def start(rows: Tensor) -> Any:
        with torch.no_grad():
            return model.start(SENTENCES[rows], make_mask(LENGTHS, SENTENCES.shape[1])[rows])

    return Case(model.decoder, start)


def recurrence(cell: str | tuple[str, ...], layers: int = 1, **options: Any) -> RecurrenceConfig:
    return RecurrenceConfig(cell=cell, hidden_size=HIDDEN, layers=layers, options=options)


BLOCK = {"heads": 2, "feed_forward": 8}

DECODERS: dict[str, Callable[[], Case]] = {
    "lstm": lambda: language_model(recurrence("lstm")),
    "gru-2": lambda: language_model(recurrence("gru", 2)),
    "transformer": lambda: language_model(recurrence("transformer", 2, **BLOCK)),
    "mixed": lambda: language_model(recurrence(("lstm", "transformer"), 2)),
    "attention-after": lambda: translator(recurrence("lstm")),
    "attention-before": lambda: translator(recurrence("gru"), AttentionConfig(style="bahdanau", score="additive")),
    "attention-local": lambda: translator(recurrence("lstm"), AttentionConfig(type="local", window=1, predictive=True)),
    "no-attention": lambda: translator(recurrence("lstm"), AttentionConfig(style="none", context="last")),
    "encoder-decoder-transformer": lambda: translator(recurrence("transformer", 2, **BLOCK)),
}

EVERY_SEARCH: list[Search] = [
    Greedy(),
    Sample(),
    Sample(temperature=0.7, top_k=3, top_p=0.9, min_p=0.01, count=3),
    Beam(size=1),
    Beam(size=4, nbest=3),
    Beam(size=4, length_penalty="gnmt", threshold=2.0, per_node=2, no_repeat_ngram=2, min_length=1, nbest=2),
    Beam(size=6, groups=3, diversity=0.7, length_penalty="length", nbest=4),
    Beam(size=20, nbest=5),
]
SEARCHES = pytest.mark.parametrize("search", EVERY_SEARCH, ids=lambda one: f"{one.name}{EVERY_SEARCH.index(one)}")


@cache
def case(name: str) -> Case:
    return DECODERS[name]()


def search_in(name: str, search: Search) -> list[list[Hypothesis]]:
    start = torch.full((len(SENTENCES),), START)
    return search(case(name).step, case(name).start(torch.arange(len(SENTENCES))), start, END, lengths=LENGTH)


def whole(one: Hypothesis) -> tuple[int, ...]:
    return (*one.tokens, END) if one.ended else tuple(one.tokens)


def test_every_search_is_tested() -> None:
    modules = [import_module(f"{tokens.__name__}.{entry.name}") for entry in iter_modules(tokens.__path__)]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Search) and not isabstract(value)
    }
    assert classes == {type(search) for search in EVERY_SEARCH}
    for kind in classes:
        assert kind.__module__ == f"{tokens.__name__}.{kind.model_fields['name'].default}"  # the file's name


@pytest.mark.parametrize("name", DECODERS)
@SEARCHES
def test_probabilities_are_exact_and_none_exceeds_the_best(name: str, search: Search) -> None:
    for hypotheses, truth in zip(search_in(name, search), case(name).truth(), strict=True):
        assert hypotheses
        ended = max(value for sequence, value in truth.items() if sequence[-1] == END)
        for one in hypotheses:
            assert one.log_probability == pytest.approx(truth[whole(one)], abs=1e-9)
            assert math.fsum(one.log_probabilities) == pytest.approx(one.log_probability, abs=1e-12)
            assert len(one.log_probabilities) == len(whole(one))
            assert not one.ended or one.log_probability <= ended + 1e-9
        key = [(not one.ended, -one.score) for one in hypotheses]
        assert key == sorted(key)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("penalty", ["none", "length", "gnmt"])
def test_full_width_is_exhaustive_search(name: str, penalty: str) -> None:
    beam = Beam.model_validate({"size": V**LENGTH, "nbest": 5, "length_penalty": penalty, "alpha": 0.7})
    divisors = {"none": (0, 1, 0.0), "length": (0, 1, 0.7), "gnmt": (5, 6, 0.7)}  # ((a + length) / b)^α
    more, scale, power = divisors[penalty]
    for hypotheses, truth in zip(search_in(name, beam), case(name).truth(), strict=True):
        scores = {sequence: value / ((more + len(sequence)) / scale) ** power for sequence, value in truth.items()}
        expected = sorted(scores, key=lambda sequence: (sequence[-1] != END, -scores[sequence]))[:5]
        assert [whole(one) for one in hypotheses] == expected
        assert [one.score for one in hypotheses] == pytest.approx([scores[sequence] for sequence in expected], abs=1e-9)


@pytest.mark.parametrize("name", DECODERS)
def test_a_beam_of_one_is_greedy_and_greedy_takes_the_best_token(name: str) -> None:
    greedy = search_in(name, Greedy())
    assert search_in(name, Beam(size=1, length_penalty="none")) == greedy
    assert search_in(name, Sample(temperature=0.0)) == greedy
    for (one,), truth in zip(greedy, case(name).truth(), strict=True):
        prefix: tuple[int, ...] = ()
        while prefix[-1:] != (END,) and len(prefix) < LENGTH:
            mass = {
                token: math.fsum(
                    math.exp(value) for other, value in truth.items() if other[: len(prefix) + 1] == (*prefix, token)
                )
                for token in range(V)
            }
            prefix = (*prefix, max(mass, key=lambda token: mass[token]))
        assert whole(one) == prefix


def chosen(search: Search, toy: Toy, rows: list[int]) -> list[list[Hypothesis]]:
    return search(toy.step, toy.start(rows), torch.zeros(len(rows)).long(), 7, lengths=6, suppress=(6,))


@SEARCHES
def test_results_do_not_depend_on_the_batch(search: Search) -> None:
    toy, rows = Toy(8, seed=8), list(range(500))
    expected = dict(enumerate(chosen(search, toy, rows)))
    shuffled = random.Random(1).sample(rows, len(rows))  # noqa: S311
    for size, order in ((1, rows[:40]), (7, rows), (64, shuffled)):
        batches = [order[first : first + size] for first in range(0, len(order), size)]
        actual = [answer for batch in batches for answer in chosen(search, toy, batch)]
        assert actual == [expected[row] for row in order]


def fixed(*values: float) -> Step:
    return lambda tokens, state: (torch.tensor(values).expand(len(tokens), -1), state)


def run(search: Search, step: Step, rows: int = 3, **options: Any) -> list[list[Hypothesis]]:
    options = {"lengths": 5, **options}
    return search(step, torch.zeros(rows, 2), torch.zeros(rows).long(), 0, **options)


@SEARCHES
def test_no_possible_sequence_gives_no_hypothesis(search: Search) -> None:
    assert run(search, fixed(*[-math.inf] * 4)) == [[], [], []]
    assert run(search, fixed(0.0, -math.inf), suppress=(0,)) == [[], [], []]
    tree = PrefixTree([[1, 1, 1]], end=0)
    assert run(search, fixed(-1.0, -1.0), tree=tree, lengths=3) == [[], [], []]  # with its end it is too long
    assert run(search, fixed(-1.0, -1.0), tree=tree, lengths=0) == [[], [], []]


@SEARCHES
@pytest.mark.parametrize("value", [math.nan, math.inf, 0.5])
def test_invalid_log_probabilities_are_reported(search: Search, value: float) -> None:
    def later(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.tensor([-math.inf, -1.0, -1.1, -1.2, -1.3]).repeat(len(tokens), 1)
        scores[state[:, 0] == 2, 3] = value
        return scores, state + 1

    message = f"the step returned a log-probability of {value:g} for token 3 of row 0, expected at most 0"
    with pytest.raises(ValueError, match=message):
        run(search, later)


@SEARCHES
def test_without_an_end_token_outputs_have_the_maximum_length(search: Search) -> None:
    lengths = torch.tensor([20, 0, 3])
    step = fixed(-math.inf, *torch.full((21,), 1 / 21).log().tolist())
    for hypotheses, length in zip(run(search, step, lengths=lengths), lengths.tolist(), strict=True):
        assert hypotheses
        assert all(not one.ended and len(one.tokens) == length == len(one.log_probabilities) for one in hypotheses)
    (empty,) = run(search, step, rows=1, lengths=0)
    assert empty[0] == Hypothesis([], 0.0, 0.0, [], ended=False)


@SEARCHES
def test_an_empty_batch(search: Search) -> None:
    assert run(search, fixed(0.0, 0.0), rows=0) == []
    assert run(search, fixed(0.0, 0.0), rows=0, lengths=torch.zeros(0).long(), record=SearchRecord()) == []


@SEARCHES
def test_a_single_allowed_sequence_is_returned(search: Search) -> None:
    tree = PrefixTree([[3, 1, 2]], end=0)
    step = fixed(*torch.tensor([0.1, 0.2, 0.3, 0.4]).double().log().tolist())
    for hypotheses in run(search, step, tree=tree):
        assert {tuple(one.tokens) for one in hypotheses} == {(3, 1, 2)}
        assert hypotheses[0].ended
        assert hypotheses[0].log_probability == pytest.approx(math.log(0.4 * 0.2 * 0.3 * 0.1), abs=1e-6)


@SEARCHES
def test_recording_changes_nothing(search: Search) -> None:
    toy = Toy(5, seed=8)
    start = torch.zeros(9).long()
    without = search(toy.step, toy.start(range(9)), start, 4, lengths=6)
    assert search(toy.step, toy.start(range(9)), start, 4, lengths=6, record=SearchRecord()) == without
