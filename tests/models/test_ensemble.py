"""Ensembles against the mean of their models' probabilities."""

import pytest
import torch
from tests.contracts.registry import make_mask, randomize
from torch import Tensor, nn

from seqloom import state as states
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder, step
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.encoder_decoder import AttentionConfig, EncoderDecoder, build_decoder_layer
from seqloom.models.ensemble import Ensemble

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
