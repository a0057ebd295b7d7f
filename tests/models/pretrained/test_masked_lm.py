"""Masked language models against plain torch and brute force."""

from typing import Any

import pytest
import torch
from tests.models.pretrained.test_bilm import BOUNDARY
from torch import nn
from torch.nn import functional

from seqloom.data.batch import Batch
from seqloom.data.text.tokenizers import TextConfig
from seqloom.data.text.vocabulary import END, MASK, build_vocabulary
from seqloom.models.character_encoder import CharacterConfig, CharacterInput
from seqloom.models.encoder import BidirectionalEncoder
from seqloom.models.pretrained.contextual import LMVocabulary
from seqloom.models.pretrained.masked_lm import MaskedLM, MaskedLMConfig
from seqloom.models.pretrained.masking import MaskedTokens, fixed_noise

HIDDEN = 3  # id of MASK
ENCODERS: dict[str, dict[str, Any]] = {
    "recurrent": {"cell": "gru", "hidden_size": 5, "layers": 2},
    "residual": {"cell": "lstm", "hidden_size": 3, "layers": 2, "connection": "residual"},
    "transformer": {"cell": "transformer", "hidden_size": 8, "layers": 2, "options": {"heads": 2}},
}


def vocabulary(*, spelled: bool = False) -> LMVocabulary:
    text = TextConfig().fit(["a b cd é eff g"], specials=(END, MASK))
    characters = build_vocabulary("abcdéefg", specials=(END, MASK)) if spelled else None
    return LMVocabulary(text=text, characters=characters)


def build(name: str = "transformer", *, spelled: bool = False, tied: bool = True) -> MaskedLM:
    config = MaskedLMConfig(
        embedding_size=6,
        tie_embeddings=tied,
        input_dropout=0.3,
        mask_rate=0.3,
        characters=CharacterConfig(layers=int(spelled), hidden_size=3, embedding_size=4),
        encoder=BidirectionalEncoder(**ENCODERS[name], dropout=0.3),
    )
    torch.manual_seed(1)
    model = config.build(vocabulary(spelled=spelled))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval().double()


def text(*rows: list[int], spelled: bool = False) -> CharacterInput:
    """Ids after the boundary; zeros at the end of a row are padding."""
    words = torch.tensor([[BOUNDARY, *row] for row in rows])
    names = vocabulary(spelled=spelled)
    tokens = names.text.vocabulary.tokens
    spelling = [torch.from_numpy(names.to_characters([tokens[word] for word in row])) for row in words]
    return CharacterInput(words, torch.stack(spelling), words != 0)


def plain_logits(model: MaskedLM, words: torch.Tensor) -> torch.Tensor:  # (T,) → (T, V)
    """The model without any of its code for masks: embedding, layer, transform and output on one row."""
    embed: Any = model.encoder.embed
    values, _ = model.encoder.layer(functional.embedding(words.unsqueeze(0), embed.weight))
    parts: Any = model.transform
    linear, _, norm = parts
    hidden = functional.gelu(values[0] @ linear.weight.T + linear.bias)
    hidden = functional.layer_norm(hidden, hidden.shape[-1:], norm.weight, norm.bias)
    return hidden @ model.output.weight.T + model.output.bias


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("tied", [False, True])
def test_the_loss_is_the_cross_entropy_at_hidden_tokens(name: str, tied: bool) -> None:
    model = build(name, tied=tied)
    inputs = text([4, 5, 6, 7, 8, 9, 4, 5], [6, 7, 1, 0, 0, 0, 0, 0], [0] * 8)
    masked = model.masking.hide(inputs.words, inputs.mask, fixed_noise(inputs.words, inputs.mask))
    expected = torch.zeros((), dtype=torch.float64)
    for row, length in enumerate((9, 4, 1)):
        logits = plain_logits(model, masked.words[row, :length])
        chosen = masked.chosen[row, :length]
        target = inputs.words[row, :length][chosen]
        expected = expected + functional.cross_entropy(logits[chosen], target, reduction="sum")
    features, target, _ = model.softmax_inputs(Batch(inputs, None, 3))
    assert len(target) == 3  # round(0.3 · 8), round(0.3 · 3), 0
    torch.testing.assert_close(model.loss(features, target), expected)
    scores = model.score_texts(Batch(inputs, None, 3)).forward
    assert [len(row) for row in scores] == [2, 1, 0]
    assert -sum(map(sum, scores)) == pytest.approx(float(expected.detach()))


@pytest.mark.parametrize("name", ENCODERS)
def test_pseudo_log_likelihoods_by_brute_force(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(name)
    rows = [[4, 5, 6, 7], [8, 9], [], [5, 1, 5]]
    inputs = text(*[[*row, *[0] * (4 - len(row))] for row in rows])
    expected = []
    for row in rows:
        values = []
        for place, token in enumerate(row):
            words = torch.tensor([BOUNDARY, *row])
            words[place + 1] = HIDDEN
            values.append(float(plain_logits(model, words)[place + 1].log_softmax(dim=0)[token].detach()))
        expected.append(values)
    for elements in (1 << 14, 7):  # all at once, and one after the other
        monkeypatch.setattr("seqloom.models.pretrained.masked_lm.MAX_ELEMENTS", elements)
        with torch.no_grad():
            scores = model.pseudo_log_likelihoods(inputs)
        for actual, values in zip(scores, expected, strict=True):
            assert actual == pytest.approx(values)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("spelled", [False, True])
def test_a_prediction_does_not_depend_on_the_hidden_token(name: str, spelled: bool) -> None:
    model = build(name, spelled=spelled)
    features = []
    for token in (4, 8):
        inputs = text([5, 6, token, 7], spelled=spelled)
        chosen = torch.tensor([[False, False, False, True, False]])
        features.append(model.features(inputs, MaskedTokens(inputs.words.masked_fill(chosen, HIDDEN), chosen)))
    torch.testing.assert_close(features[0], features[1], rtol=0, atol=0)
    inputs = text([5, 6, 4, 7], spelled=spelled)
    shown = model.features(inputs, MaskedTokens(inputs.words, chosen))
    assert not torch.allclose(shown, features[0])


def test_fillers_are_the_most_probable_tokens() -> None:
    model = build()
    inputs = text([4, HIDDEN, 6, HIDDEN], [5, 6, 0, 0], [HIDDEN, 0, 0, 0])
    filled = model.fill(inputs, nbest=3)
    assert [len(row) for row in filled] == [2, 0, 1]
    probabilities = plain_logits(model, inputs.words[0]).softmax(dim=1)[4].detach()
    best = sorted(range(4, 10), key=lambda token: -float(probabilities[token]))[:3]  # special tokens are no fillers
    assert filled[0][1].tokens == best
    assert filled[0][1].probabilities == pytest.approx([float(probabilities[token]) for token in best])


def test_masks_are_new_each_time_in_training_and_the_same_in_evaluation() -> None:
    model = build("recurrent").float()
    batch = Batch(text([4, 5, 6, 7, 8, 9, 4, 5, 6, 7]), None, 3)
    model.dropout.eval()
    targets = {tuple(model.train().softmax_inputs(batch).target.tolist()) for _ in range(20)}
    assert len(targets) > 5
    rng_state = torch.get_rng_state()
    assert len({tuple(model.eval().softmax_inputs(batch).target.tolist()) for _ in range(3)}) == 1
    assert torch.equal(rng_state, torch.get_rng_state())


def test_levels_and_their_parameters() -> None:
    for name in ENCODERS:
        encoder = build(name).encoder
        levels = encoder.levels(text([4, 5, 6]))
        assert encoder.sizes == [level.shape[2] for level in levels]
        torch.testing.assert_close(levels[-1], encoder(text([4, 5, 6])))
        parameters = encoder.level_parameters()
        assert len(parameters) == len(levels) == 3
        listed = [parameter for level in parameters for parameter in level]
        assert {id(parameter) for parameter in listed} == {id(parameter) for parameter in encoder.parameters()}
        assert len(listed) == len(list(encoder.parameters()))
        # The output of a layer depends on its own parameters, and not on those above it.
        for depth, level in enumerate(levels):
            gradients: Any = torch.autograd.grad(level.square().sum(), listed, allow_unused=True, retain_graph=True)
            used = {id(p) for p, gradient in zip(listed, gradients, strict=True) if gradient is not None}
            below = {id(parameter) for level in parameters[: depth + 1] for parameter in level}
            assert used <= below
            assert used & {id(parameter) for parameter in parameters[depth]}
