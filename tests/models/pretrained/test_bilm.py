"""Both directions of a bidirectional language model against each other and against brute force."""

from typing import Any

import pytest
import torch
from torch import nn

from seqloom.data.text.tokenizers import TextConfig
from seqloom.data.text.vocabulary import END, build_vocabulary
from seqloom.models.character_encoder import CharacterConfig, CharacterInput
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.pretrained.bilm import BiLM, BiLMConfig, BiLMEncoder, reverse_padded
from seqloom.models.pretrained.contextual import LMVocabulary

BOUNDARY = 2  # id of END
RECURRENCES: dict[str, dict[str, Any]] = {
    "one layer": {"cell": "gru", "hidden_size": 5},
    "residual": {"cell": "lstm", "hidden_size": 6, "layers": 2, "connection": "residual"},
    "dense": {"cell": "gru", "hidden_size": 4, "layers": 3, "connection": "dense"},
    "transformer": {"cell": "transformer", "hidden_size": 8, "layers": 2, "options": {"heads": 2}},
    "mixed": {"cell": ("gru", "transformer"), "hidden_size": 8, "layers": 2, "options": {"heads": 2}},
}


def build(name: str = "residual", *, spelled: bool = False, prenet: int = 0, tied: bool = True) -> BiLM:
    vocabulary = bilm_vocabulary(spelled=spelled)
    config = BiLMConfig(
        embedding_size=6,
        tie_embeddings=tied,
        input_dropout=0.3,
        characters=CharacterConfig(layers=int(spelled), hidden_size=3, embedding_size=4),
        prenet=PrenetConfig(layers=prenet, size=7, window=2),
        decoder=RecurrenceConfig(**RECURRENCES[name], dropout=0.3),
    )
    torch.manual_seed(1)
    model = config.build(vocabulary)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval().double()


def bilm_vocabulary(*, spelled: bool = False) -> LMVocabulary:
    encoding = TextConfig().fit(["a b cd é eff g"], specials=(END,))
    return LMVocabulary(text=encoding, characters=build_vocabulary("abcdéefg", specials=(END,)) if spelled else None)


def text(*rows: list[int], spelled: bool = False) -> CharacterInput:
    """Word ids after the boundary; zeros at the end of a row are padding."""
    words = torch.tensor([[BOUNDARY, *row] for row in rows])
    tokens = bilm_vocabulary().text.vocabulary.tokens
    vocabulary = bilm_vocabulary(spelled=spelled)
    characters = torch.stack(
        [torch.from_numpy(vocabulary.to_characters([tokens[word] for word in row])) for row in words]
    )
    return CharacterInput(words, characters, words != 0)


@pytest.mark.parametrize("name", RECURRENCES)
@pytest.mark.parametrize("spelled", [False, True])
def test_the_backward_direction_is_the_forward_one_of_the_reversed_text(name: str, spelled: bool) -> None:
    model = build(name, spelled=spelled)
    model.encoder.backward_layer.load_state_dict(model.encoder.forward_layer.state_dict())
    model.bridges[1].load_state_dict(model.bridges[0].state_dict())
    rows, reversed_rows = [[3, 4, 5, 6, 7], [8, 1, 3]], [[7, 6, 5, 4, 3], [3, 1, 8]]
    for row, reversed_row in zip(rows, reversed_rows, strict=True):
        inputs, other = text(row, spelled=spelled), text(reversed_row, spelled=spelled)
        torch.testing.assert_close(model.log_probabilities(inputs)[1], model.log_probabilities(other)[0])
        for level, of_other in zip(model.encoder.levels(inputs)[1:], model.encoder.levels(other)[1:], strict=True):
            half = level.shape[2] // 2
            torch.testing.assert_close(level[:, 1:, half:], of_other[:, 1:, :half].flip(1))
            torch.testing.assert_close(level[:, 0, half:], of_other[:, 0, :half])


@pytest.mark.parametrize("name", RECURRENCES)
def test_no_direction_sees_what_it_predicts(name: str) -> None:
    model = build(name, prenet=2)
    first, second = text([3, 4, 5, 6, 7]), text([3, 4, 8, 6, 7])  # they differ at position 3
    for level, changed in zip(model.encoder.levels(first)[1:], model.encoder.levels(second)[1:], strict=True):
        half = level.shape[2] // 2
        same = (level == changed)[0]
        assert same[:3, :half].all()  # before it, forward
        assert same[4:, half:].all()  # after it, backward
        assert same[0, half:].all()  # the boundary comes first in both directions
        assert not same[3, :half].all()
        assert not same[3, half:].all()


@pytest.mark.parametrize("spelled", [False, True])
def test_padding_and_other_rows_are_invisible(spelled: bool) -> None:
    model = build(spelled=spelled)
    short, long = [3, 4], [5, 6, 7, 8]
    together = text([*short, 0, 0], long, spelled=spelled)
    alone = text(short, spelled=spelled)
    for level, expected in zip(model.encoder.levels(together), model.encoder.levels(alone), strict=True):
        torch.testing.assert_close(level[0, :3], expected[0])
    both = [model.loss(*model.features(text(row, spelled=spelled))) for row in (short, long)]
    torch.testing.assert_close(model.loss(*model.features(together)), both[0] + both[1])


def test_the_loss_is_that_of_two_language_models_by_brute_force() -> None:
    model = build(tied=False)
    row = [3, 4, 1, 6]
    forward, backward = model.log_probabilities(text(row))
    logits, _ = model(torch.tensor([[BOUNDARY, *row]]))
    expected = logits[0].log_softmax(dim=1)[range(5), [*row, BOUNDARY]]
    torch.testing.assert_close(forward, expected)
    model.encoder.forward_layer.load_state_dict(model.encoder.backward_layer.state_dict())
    logits, _ = model(torch.tensor([[BOUNDARY, *row[::-1]]]))
    torch.testing.assert_close(backward, logits[0].log_softmax(dim=1)[range(5), [*row[::-1], BOUNDARY]])
    model = build(tied=False)
    torch.testing.assert_close(model.loss(*model.features(text(row))), -(forward.sum() + backward.sum()))


@pytest.mark.parametrize("spelled", [False, True])
def test_single_steps_of_the_forward_direction_match_the_whole(spelled: bool) -> None:
    model = build(spelled=spelled)
    whole, _ = model(torch.tensor([[BOUNDARY, 3, 4, 1]]))
    state = model.start(None, 1)
    for step, token in enumerate([BOUNDARY, 3, 4, 1]):
        logits, state = model(torch.tensor([[token]]), state)
        torch.testing.assert_close(logits[0, 0], whole[0, step])


@pytest.mark.parametrize("name", RECURRENCES)
def test_the_highest_level_is_what_the_softmax_reads(name: str) -> None:
    encoder = build(name, prenet=1).encoder
    inputs = text([3, 4, 5])
    levels = encoder.levels(inputs)
    forward, backward = encoder(inputs)
    torch.testing.assert_close(levels[-1], torch.cat([forward, reverse_padded(backward, inputs.mask)], dim=2))
    assert encoder.sizes == [level.shape[2] for level in levels]
    layers = len(RECURRENCES[name]["cell"]) if name == "mixed" else RECURRENCES[name].get("layers", 1)
    assert len(levels) == 1 + 1 + layers  # word vectors, the prenet, the recurrence


def test_the_lowest_level_is_the_word_vector_twice() -> None:
    encoder: BiLMEncoder = build().encoder  # as wide as the word vectors
    inputs = text([3, 4])
    vectors = encoder.embed(inputs.words)
    torch.testing.assert_close(encoder.levels(inputs)[0], torch.cat([vectors, vectors], dim=2))
    narrow = build("one layer").encoder
    assert narrow.sizes == [6, 10]


def test_reversing_twice_is_the_identity() -> None:
    mask = torch.tensor([[True] * 4, [True, True, True, False], [True, False, False, False]])
    values = torch.arange(12).view(3, 4)
    assert reverse_padded(values, mask).tolist() == [[0, 3, 2, 1], [4, 6, 5, 7], [8, 9, 10, 11]]
    assert torch.equal(reverse_padded(reverse_padded(values, mask), mask), values)


def test_the_boundary_and_the_unknown_token_have_characters() -> None:
    vocabulary = bilm_vocabulary(spelled=True)
    assert vocabulary.characters is not None
    rows = vocabulary.to_characters([END, "<unk>", "eff"])
    assert rows[:2, :2].tolist() == [[2, 0], [1, 0]]
    assert vocabulary.characters.decode(rows[2, :3].tolist()) == ["e", "f", "f"]
    assert not rows[2, 3:].any()


def test_both_directions_share_the_softmax_and_the_embedding() -> None:
    model = build()
    assert model.output.weight is model.encoder.embed.weight
    names = {name for name, _ in model.named_parameters()}
    assert sum("output" in name for name in names) == 1  # its bias: the weight is that of the embedding


def test_a_bidirectional_recurrence_is_rejected() -> None:
    config = BiLMConfig(
        embedding_size=4,
        tie_embeddings=True,
        input_dropout=0,
        characters=CharacterConfig(layers=0),
        decoder=RecurrenceConfig(bidirectional=True),
    )
    with pytest.raises(ValueError, match="must not read the token that it predicts"):
        config.build(bilm_vocabulary())
