"""Models that answer as one, against the mean of what each says alone."""

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

SYMBOLS, SIZE = 7, 6


def made(cell: str, seed: int) -> EncoderDecoder:
    reading = build_stack(PrenetConfig(), RecurrenceConfig(cell=cell, hidden_size=SIZE, options={}), SIZE)
    layer = build_decoder_layer(
        RecurrenceConfig(cell=cell, hidden_size=SIZE),
        AttentionConfig(),
        SIZE,
        encoder=reading,
        memory_size=SIZE,
        bridge="linear",
    )
    encoder = Encoder(Embedding(SYMBOLS, SIZE), reading)
    found = EncoderDecoder(encoder, Decoder(Embedding(SYMBOLS, SIZE), layer))
    randomize(found, seed=seed)
    return found.eval()


@pytest.fixture
def models() -> list[EncoderDecoder]:
    return [made("gru", 1), made("lstm", 2), made("elman", 3)]


@torch.no_grad()
def test_probabilities_are_averaged_at_every_step(models: list[EncoderDecoder]) -> None:
    source, mask = torch.tensor([[2, 3, 4], [5, 6, 0]]), make_mask([3, 2], 3)
    together = Ensemble(models).eval()
    said = torch.tensor([[2, 5], [3, 3], [4, 2]])
    state = together.start(together.encoder(source, mask), 2)
    found: list[Tensor] = []
    for tokens in said:
        scores, state = step(together, tokens, state)
        found.append(scores.exp())
    alone = [model.decoder(said.t(), model.start(source, mask))[0].softmax(dim=-1) for model in models]
    wanted = torch.stack(alone).mean(dim=0)  # (B, T, V)
    torch.testing.assert_close(torch.stack(found, dim=1), wanted, rtol=0, atol=1e-13)
    features, _ = together.features(said.t(), together.start(together.encoder(source, mask), 2))
    values, right = together.judge(features[0], torch.tensor([1, 2, 3]))
    torch.testing.assert_close(values.exp(), wanted[0, [0, 1, 2], [1, 2, 3]], rtol=0, atol=1e-13)
    assert right.tolist() == (wanted[0].argmax(dim=1) == torch.tensor([1, 2, 3])).tolist()


@torch.no_grad()
def test_rows_of_a_state_can_be_moved(models: list[EncoderDecoder]) -> None:
    source, mask = torch.tensor([[2, 3], [5, 6]]), make_mask([2, 2], 2)
    together = Ensemble(models).eval()
    first, state = step(together, torch.tensor([2, 3]), together.start(together.encoder(source, mask), 2))
    rows = torch.tensor([1, 1, 0])
    moved, _ = step(together, torch.tensor([4, 5, 6]), states.select(state, rows))
    plain, _ = step(together, torch.tensor([6, 4]), state)
    torch.testing.assert_close(moved[[2, 0]], plain, rtol=0, atol=1e-13)
    assert first.shape == (2, SYMBOLS)


def test_only_encoder_decoders_go_together(models: list[EncoderDecoder]) -> None:
    with pytest.raises(TypeError, match="only models of an encoder and a decoder go together, found Linear"):
        Ensemble([*models, nn.Linear(1, 1)])
