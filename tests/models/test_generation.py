"""Search and teacher forcing over a memory, against steps made one by one."""

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

SIZE, SYMBOLS, END = 6, 7, 2


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
    found = Decoder(Embedding(SYMBOLS, 4), layer)
    for parameter in found.parameters():
        nn.init.normal_(parameter, std=0.7)
    return found.eval()


def memory(lengths: list[int]) -> Memory:
    values = torch.randn(len(lengths), max(lengths), SIZE, generator=torch.Generator().manual_seed(3))
    mask = torch.arange(values.shape[1]) < torch.tensor(lengths).unsqueeze(1)
    return Memory(values, mask, ())


def row(of: Memory, index: int) -> Memory:
    length = int(of.mask[index].sum())
    return Memory(of.values[index : index + 1, :length], of.mask[index : index + 1, :length], ())


def test_the_symbols_before() -> None:
    target = pad([[5, 3, END], [END]], dtype="int64")
    assert shift_right(target, END).tolist() == [[END, 5, 3], [END, END, 0]]


@torch.no_grad()
def test_forced_symbols_are_judged_as_step_by_step() -> None:
    model, source = decoder(), memory([4, 2])
    target: Padded = pad([[5, 3, END], [4, END]], dtype="int64")
    found = teacher_forced_scores(model, source, target, end=END)
    for index, (values, right) in enumerate(found):
        symbols = target.values[index, : len(values)].tolist()
        state: Any = model.start(row(source, index), 1)
        last = END
        for symbol, value, most in zip(symbols, values, right, strict=True):
            scores, state = step(model, torch.tensor([last]), state)
            assert value == pytest.approx(float(scores[0, symbol]), abs=1e-5)
            assert most is (int(scores.argmax()) == symbol)
            last = symbol


@torch.no_grad()
def test_each_row_has_its_own_length_and_symbols_that_are_never_said() -> None:
    model, source = decoder(), memory([4, 2, 3])
    found = generate(model, source, Greedy(), end=END, lengths=torch.tensor([1, 5, 9]), suppress=(0, 1, END))
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [1, 5, 9]
    assert all(symbol > END for hypotheses in found for symbol in hypotheses[0].tokens)


@torch.no_grad()
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_padding_is_not_to_be_covered(weight: float) -> None:
    model, search = decoder(), Beam(size=3, nbest=3, coverage_penalty=weight)
    narrow = memory([3, 3])
    wide = Memory(nn.functional.pad(narrow.values, (0, 0, 0, 4)), nn.functional.pad(narrow.mask, (0, 4)), ())
    plain, padded = (generate(model, each, search, end=END, lengths=6) for each in (narrow, wide))
    for one, other in zip(plain, padded, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-4)
    if weight:  # some element of the source was looked at less than once
        assert all(each.score < each.log_probability for hypotheses in plain for each in hypotheses)
