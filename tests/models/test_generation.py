"""Search and teacher forcing with a memory, against single steps."""

from typing import Any

import pytest
import torch
from torch import nn

from seqloom.data.batch import Padded, pad
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Memory
from seqloom.models.decoder import Decoder, step
from seqloom.models.encoder import RecurrenceConfig
from seqloom.models.encoder_decoder import AttentionConfig, build_decoder_layer
from seqloom.models.generation import generate, shift_right, teacher_forced_scores

SIZE, VOCAB_SIZE, END = 6, 7, 2


def decoder() -> Decoder:
    torch.manual_seed(1)
    layer = build_decoder_layer(
        RecurrenceConfig(cell="gru", hidden_size=5),
        AttentionConfig(),
        4,
        encoder=None,
        memory_size=SIZE,
        bridge="linear",
    )
    model = Decoder(Embedding(VOCAB_SIZE, 4), layer)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


def memory(lengths: list[int]) -> Memory:
    values = torch.randn(len(lengths), max(lengths), SIZE, generator=torch.Generator().manual_seed(3))
    mask = torch.arange(values.shape[1]) < torch.tensor(lengths).unsqueeze(1)
    return Memory(values, mask, ())


def row(of: Memory, index: int) -> Memory:
    length = int(of.mask[index].sum())
    return Memory(of.values[index : index + 1, :length], of.mask[index : index + 1, :length], ())


def test_shift_right() -> None:
    target = pad([[5, 3, END], [END]], dtype="int64")
    assert shift_right(target, END).tolist() == [[END, 5, 3], [END, END, 0]]


@torch.no_grad()
def test_teacher_forced_scores_match_single_steps() -> None:
    model, source = decoder(), memory([4, 2])
    target: Padded = pad([[5, 3, END], [4, END]], dtype="int64")
    results = teacher_forced_scores(model, source, target, end=END)
    for index, (values, correct) in enumerate(results):
        tokens = target.values[index, : len(values)].tolist()
        state: Any = model.start(row(source, index), 1)
        last = END
        for token, value, most in zip(tokens, values, correct, strict=True):
            scores, state = step(model, torch.tensor([last]), state)
            assert value == pytest.approx(float(scores[0, token]), abs=1e-5)
            assert most is (int(scores.argmax()) == token)
            last = token


@torch.no_grad()
def test_maximum_lengths_and_suppressed_tokens() -> None:
    model, source = decoder(), memory([4, 2, 3])
    results = generate(model, source, Greedy(), end=END, lengths=torch.tensor([1, 5, 9]), suppress=(0, 1, END))
    assert [len(hypotheses[0].tokens) for hypotheses in results] == [1, 5, 9]
    assert all(token > END for hypotheses in results for token in hypotheses[0].tokens)


@torch.no_grad()
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_padding_need_not_be_covered(weight: float) -> None:
    model, search = decoder(), Beam(size=3, nbest=3, length_penalty="none", coverage_penalty=weight)
    narrow = memory([3, 3])
    wide = Memory(nn.functional.pad(narrow.values, (0, 0, 0, 4)), nn.functional.pad(narrow.mask, (0, 4)), ())
    plain, padded = (generate(model, source, search, end=END, lengths=6) for source in (narrow, wide))
    for actual, expected in zip(padded, plain, strict=True):
        assert [left.tokens for left in actual] == [right.tokens for right in expected]
        assert [left.score for left in actual] == pytest.approx([right.score for right in expected], abs=1e-4)
    if weight:  # some source position got a total attention below 1
        assert all(hypothesis.score < hypothesis.log_probability for row in plain for hypothesis in row)
