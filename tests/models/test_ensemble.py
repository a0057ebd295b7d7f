"""Ensembles against the mean of their models' probabilities; a search with two models against brute force."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.registry import make_mask, randomize
from tests.decoding.tokens.reference import Limits, Toy, everything
from torch import Tensor, nn

from seqloom import state as states
from seqloom.data.batch import Batch, Padded
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.search import Step
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.models.crf import CRF
from seqloom.models.decoder import Decoder, step
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.encoder_decoder import AttentionConfig, EncoderDecoder, build_decoder_layer
from seqloom.models.ensemble import (
    ClassifierEnsemble,
    Ensemble,
    LanguageModelEnsemble,
    TaggerEnsemble,
    TranscriberEnsemble,
    ensemble_step,
)
from seqloom.models.ngram.ngram_decoder import NGramDecoder
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.models.tagger import FrameEmbedding, SoftmaxOutput, Tagger
from seqloom.models.transcription.transcriber import Transcriber

VOCAB_SIZE, SIZE = 7, 6


def build(cell: str, seed: int) -> EncoderDecoder:
    encoder_layer = build_stack(PrenetConfig(), RecurrenceConfig(cell=cell, hidden_size=SIZE, options={}), SIZE)
    layer = build_decoder_layer(
        RecurrenceConfig(cell=cell, hidden_size=SIZE),
        AttentionConfig(),
        SIZE,
        encoder=encoder_layer,
        memory_size=SIZE,
        bridge="linear",
    )
    encoder = Encoder(Embedding(VOCAB_SIZE, SIZE), encoder_layer)
    model = EncoderDecoder(encoder, Decoder(Embedding(VOCAB_SIZE, SIZE), layer))
    randomize(model, seed=seed)
    return model.eval()


@pytest.fixture
def models() -> list[EncoderDecoder]:
    return [build("gru", 1), build("lstm", 2), build("elman", 3)]


@torch.no_grad()
def test_probabilities_are_averaged_at_every_step(models: list[EncoderDecoder]) -> None:
    source, mask = torch.tensor([[2, 3, 4], [5, 6, 0]]), make_mask([3, 2], 3)
    ensemble = Ensemble(models).eval()
    tokens_by_step = torch.tensor([[2, 5], [3, 3], [4, 2]])
    state = ensemble.start(ensemble.encoder(source, mask), 2)
    probabilities: list[Tensor] = []
    for tokens in tokens_by_step:
        scores, state = step(ensemble, tokens, state)
        probabilities.append(scores.exp())
    alone = [model.decoder(tokens_by_step.t(), model.start(source, mask))[0].softmax(dim=-1) for model in models]
    expected = torch.stack(alone).mean(dim=0)  # (B, T, V)
    torch.testing.assert_close(torch.stack(probabilities, dim=1), expected, rtol=0, atol=1e-13)
    features, _ = ensemble.features(tokens_by_step.t(), ensemble.start(ensemble.encoder(source, mask), 2))
    values, correct = ensemble.score_tokens(features[0], torch.tensor([1, 2, 3]))
    torch.testing.assert_close(values.exp(), expected[0, [0, 1, 2], [1, 2, 3]], rtol=0, atol=1e-13)
    assert correct.tolist() == (expected[0].argmax(dim=1) == torch.tensor([1, 2, 3])).tolist()


@torch.no_grad()
def test_each_transcriber_keeps_its_frames() -> None:
    models = []
    for seed, cell in enumerate(("gru", "lstm")):
        layer = build_stack(PrenetConfig(), RecurrenceConfig(cell=cell, hidden_size=SIZE, options={}), 3)
        models.append(Transcriber(FrameEncoder([layer], size=SIZE), vocab_size=VOCAB_SIZE).eval())
        randomize(models[-1], seed=seed)
    ensemble, mask = TranscriberEnsemble(models).eval(), make_mask([5, 3], 5)
    values = torch.randn(2, 5, 3, dtype=torch.float64)
    memory = ensemble.encoder(values, mask)
    assert torch.equal(memory.mask, mask)
    for model, logits in zip(models, ensemble.member_logits(memory), strict=True):
        torch.testing.assert_close(logits[mask], model(values, mask)[0][mask], rtol=0, atol=0)
    with pytest.raises(ValueError, match="a stream needs one model: the CTC models of an ensemble"):
        ensemble.require_single("a stream")
    assert models[0].require_single("a stream") is models[0]


def test_probabilities_of_classifiers_and_numbers_are_averaged() -> None:
    models = [nn.Linear(3, 4, dtype=torch.float64) for _ in range(3)]
    x = torch.randn(2, 3, dtype=torch.float64)
    outputs = torch.stack([model(x) for model in models])
    labels = ClassifierEnsemble(models, numbers=False)(x)
    torch.testing.assert_close(labels.exp(), outputs.softmax(dim=-1).mean(dim=0), rtol=0, atol=1e-13)
    torch.testing.assert_close(ClassifierEnsemble(models, numbers=True)(x), outputs.mean(dim=0), rtol=0, atol=1e-13)


@torch.no_grad()
def test_probabilities_of_language_models_are_averaged_whole_and_in_parts() -> None:
    ngram = NGramDecoder(lambda text: text, ["<pad>", "<unk>", "</s>", *"abcd"], order=3, end=2)
    ngram.count([[3, 4, 5], [4, 6], [5, 3, 4, 6]])
    models = [Decoder(Embedding(VOCAB_SIZE, SIZE), build_language_layer(cell)) for cell in ("gru", "lstm")]
    for seed, model in enumerate(models):
        randomize(model, seed=seed)
    together = LanguageModelEnsemble([*models, ngram]).eval()
    tokens = torch.tensor([[2, 3, 4, 5, 2, 4, 6], [2, 4, 4, 2, 3, 6, 5]])
    inputs, target = tokens[:, :-1], tokens[:, 1:]
    members: list[Any] = [*models, ngram]
    whole = [model(inputs, model.start(None, 2))[0].double().log_softmax(dim=-1) for model in members]
    expected = torch.stack(whole).exp().mean(dim=0)  # (B, T, V)
    actual, _ = together(inputs, together.start(None, 2))
    torch.testing.assert_close(actual.exp(), expected, rtol=0, atol=1e-12)
    state, scores = None, list[Tensor]()
    for part in (slice(2), slice(2, None)):
        columns = Padded(inputs[:, part], torch.ones_like(inputs[:, part], dtype=torch.bool))
        result = together.score_texts(Batch(columns, target[:, part], columns.values.numel(), state=state))
        state, scores = result.state, [*scores, torch.tensor(result.forward, dtype=torch.float64)]
    chosen = expected.gather(2, target.unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(
        torch.cat(scores, dim=1).exp(), chosen, rtol=0, atol=1e-7
    )  # scores have single precision


def build_language_layer(cell: str) -> Layer:
    return build_stack(PrenetConfig(), RecurrenceConfig(cell=cell, hidden_size=SIZE), SIZE, causal=True)


def build_tagger(seed: int, output: CRF | SoftmaxOutput) -> Tagger:
    layer = build_stack(PrenetConfig(), RecurrenceConfig(cell="gru", hidden_size=SIZE), SIZE)
    model = Tagger(Encoder(FrameEmbedding(SIZE), layer), 3, output)
    randomize(model, seed=seed)
    return model.double().eval()


@torch.no_grad()
def test_what_needs_one_encoder_is_refused() -> None:
    for ensemble in (ClassifierEnsemble([nn.Identity()], numbers=False), TaggerEnsemble([nn.Identity()])):
        with pytest.raises(ValueError, match="with one of its models"):
            _ = ensemble.encoder


def test_taggers_are_averaged() -> None:
    """Linear outputs against the mean of their probabilities, CRFs against the geometric mean over all sequences."""
    inputs = Padded(torch.randn(2, 3, SIZE, dtype=torch.float64), make_mask([3, 3], 3))
    models = [build_tagger(seed, SoftmaxOutput()) for seed in (1, 2)]
    scores, _ = TaggerEnsemble(models)(inputs)
    expected = torch.stack([model(inputs)[0].softmax(dim=2) for model in models]).mean(dim=0)
    torch.testing.assert_close(scores.softmax(dim=2), expected, rtol=0, atol=1e-12)
    chains = [build_tagger(seed, CRF(3)) for seed in (1, 2, 3)]
    ensemble = TaggerEnsemble(chains)
    scores, states = ensemble(inputs)
    labels = torch.tensor(list(itertools.product(range(3), repeat=3)))  # all sequences of three labels
    repeated = Padded(inputs.values[:1].expand(len(labels), -1, -1), make_mask([3] * len(labels), 3))
    log_probs = [-model.output(model(repeated)[0], repeated.mask, labels) for model in chains]
    product = torch.stack(log_probs).mean(dim=0).softmax(dim=0)
    assert ensemble.decode(scores, inputs.mask)[0].tolist() == labels[product.argmax()].tolist()
    marginals = torch.stack([((labels == label).double() * product[:, None]).sum(dim=0) for label in range(3)], dim=1)
    torch.testing.assert_close(ensemble.marginals(scores, inputs.mask)[0], marginals, rtol=0, atol=1e-12)
    first = Padded(inputs.values[:, :2], inputs.mask[:, :2])
    rest = Padded(inputs.values[:, 2:], inputs.mask[:, 2:])
    torch.testing.assert_close(ensemble(rest, ensemble(first)[1])[0], scores[:, 2:], rtol=0, atol=1e-12)
    assert len(states) == 3
    with pytest.raises(ValueError, match="must all have a CRF, or all a linear output"):
        TaggerEnsemble([models[0], chains[0]])


@torch.no_grad()
def test_rows_of_a_state_can_be_selected(models: list[EncoderDecoder]) -> None:
    source, mask = torch.tensor([[2, 3], [5, 6]]), make_mask([2, 2], 2)
    ensemble = Ensemble(models).eval()
    first, state = step(ensemble, torch.tensor([2, 3]), ensemble.start(ensemble.encoder(source, mask), 2))
    rows = torch.tensor([1, 1, 0])
    moved, _ = step(ensemble, torch.tensor([4, 5, 6]), states.select(state, rows))
    plain, _ = step(ensemble, torch.tensor([6, 4]), state)
    torch.testing.assert_close(moved[[2, 0]], plain, rtol=0, atol=1e-13)
    assert first.shape == (2, VOCAB_SIZE)


def test_an_ensemble_needs_encoder_decoders(models: list[EncoderDecoder]) -> None:
    with pytest.raises(TypeError, match="an ensemble needs encoder-decoder models, found Linear"):
        Ensemble([*models, nn.Linear(1, 1)])


def fixed(scores: Tensor) -> Step:
    return lambda tokens, state: (scores[: len(tokens)], state + 1)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 5.0]])
def test_the_mean_of_probabilities(weights: list[float] | None) -> None:
    random = torch.Generator().manual_seed(1)
    log_probs = [torch.randn(4, 6, generator=random, dtype=torch.float64).log_softmax(dim=1) for _ in range(3)]
    log_probs[0][0, 0] = log_probs[1][0, 0] = log_probs[2][0, 0] = -torch.inf
    log_probs[0][1, 1] = -torch.inf
    step = ensemble_step([fixed(scores) for scores in log_probs], weights)
    actual, state = step(torch.zeros(4).long(), (torch.zeros(4), torch.ones(4), torch.zeros(4)))
    expected = np.average([np.exp(scores.numpy()) for scores in log_probs], axis=0, weights=weights)
    assert actual.exp().numpy() == pytest.approx(expected, abs=1e-15)
    assert actual[0, 0] == -math.inf
    assert [part[0].item() for part in state] == [1.0, 2.0, 1.0]


class MeanToy(Toy):
    """The mean of two models, for brute force."""

    def __init__(self, first: Toy, second: Toy) -> None:
        super().__init__(first.vocabulary)
        self.toys = first, second

    def values(self, row: int, prefix: tuple[int, ...], start: int = 0) -> list[float]:
        pairs = zip(*(toy.values(row, prefix, start) for toy in self.toys), strict=True)
        return [math.log((math.exp(first) + math.exp(second)) / 2) for first, second in pairs]


def test_a_search_with_two_models_is_exhaustive_at_full_width() -> None:
    first, second = Toy(3, seed=1), Toy(3, seed=2)
    beam, limits = Beam(size=81, nbest=3, length_penalty="gnmt"), Limits(2, 4)
    state = (first.start(range(5)), second.start(range(5)))
    rows = beam(ensemble_step([first.step, second.step]), state, torch.zeros(5).long(), 2, lengths=4)
    for row, hypotheses in enumerate(rows):
        expected = everything(beam, MeanToy(first, second), row, limits)[:3]
        assert [left.tokens for left in hypotheses] == [right.tokens for right in expected]
        assert [left.score for left in hypotheses] == pytest.approx([right.score for right in expected], abs=1e-12)


def test_one_model_is_an_ensemble() -> None:
    toy = Toy(4, seed=3)
    start = torch.zeros(3).long()
    alone = Beam()(toy.step, toy.start(range(3)), start, 3, lengths=6)
    assert Beam()(ensemble_step([toy.step]), (toy.start(range(3)),), start, 3, lengths=6) == alone


@pytest.mark.parametrize(
    ("steps", "weights", "message"),
    [
        (0, None, "found 0 models and 0 weights"),
        (2, [1.0], "found 2 models and 1 weights"),
        (2, [1.0, 0.0], r"must be positive numbers, found \[1.0, 0.0\]"),
        (1, [math.nan], "must be positive numbers"),
    ],
)
def test_invalid_weights_are_rejected(steps: int, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ensemble_step([fixed(torch.zeros(1, 2))] * steps, weights)


def test_models_must_share_a_vocabulary() -> None:
    step = ensemble_step([fixed(torch.zeros(1, 2)), fixed(torch.zeros(1, 3))])
    with pytest.raises(ValueError, match="must share a vocabulary, found vocabularies of 2, 3 tokens"):
        step(torch.zeros(1).long(), (torch.zeros(1), torch.zeros(1)))
    with pytest.raises(ValueError, match="a tuple of 2 states"):
        step(torch.zeros(1).long(), torch.zeros(1))
