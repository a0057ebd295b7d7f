"""Bidirectional language models: scores, generation, word vectors, and conflicting settings."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

import pytest
import torch
from torch import nn

from seqloom import config
from seqloom.config import ConfigError
from seqloom.decoding.tokens.sample import Sample
from seqloom.evaluation import evaluate
from seqloom.model import Model
from seqloom.models.text_scores import BidirectionalTextScore
from seqloom.run_config import Config
from seqloom.tasks.language_model import LanguageModel
from seqloom.training.config import TrainConfig

TEXT = ["the cat sat", "the dog sat on the cat", "", "a dog", "the cat and the dog sat on the mat", "on and on"]
SPELLED: dict[str, Any] = {"characters": {"layers": 1, "hidden_size": 3, "embedding_size": 4}}


def model(lines: Sequence[str] = TEXT, **fields: Any) -> Model:
    common = {
        "train": "train.txt",
        "direction": "both",
        "embedding_size": 8,
        "decoder": {"hidden_size": 8, "layers": 2},
    }
    made = LanguageModel.model_validate(common | fields)
    fitted = made.fit(made.read(lines))
    torch.manual_seed(1)
    module = fitted.build_model()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return Model(Config(fitted, TrainConfig()), module)


@pytest.mark.parametrize("fields", [{}, SPELLED])
def test_both_directions_are_scored(fields: dict[str, Any]) -> None:
    bilm = model(**fields)
    answers = bilm.predict(["the cat sat on", ""])
    for answer, count in zip(answers, (5, 1), strict=True):
        assert isinstance(answer, BidirectionalTextScore)
        assert len(answer.log_probabilities) == len(answer.backward) == count
        total = (sum(answer.log_probabilities) + sum(answer.backward)) / 2
        assert answer.log_probability == pytest.approx(total)
        assert answer.perplexity == pytest.approx(math.exp(-total / count))
    texts = ["the cat sat on", "a dog"]
    scores = evaluate(bilm.config, bilm.module, list(bilm.task.read(texts)))
    answers = bilm.predict(texts)
    for name, rows in (
        ("forward", [a.log_probabilities for a in answers]),
        ("backward", [a.backward for a in answers]),
    ):
        assert scores[f"perplexity_{name}"] == pytest.approx(math.exp(-sum(map(sum, rows)) / 8))
    assert scores["perplexity"] == pytest.approx(
        math.sqrt(scores["perplexity_forward"] * scores["perplexity_backward"])
    )
    batch = bilm.task.collate(list(bilm.task.read(texts)))
    loss = bilm.task.loss(bilm.module, batch)
    assert float(loss.total.detach()) / loss.items == pytest.approx(2 * scores["loss"], rel=1e-5)


def test_backward_probabilities_are_in_text_order() -> None:
    bilm = model()
    one, other = bilm.predict(["the cat sat on", "a cat sat on"])
    assert one.backward[2:] == pytest.approx(other.backward[2:])  # the following words are the same
    assert one.backward[1] != pytest.approx(other.backward[1])
    assert one.log_probabilities[0] != pytest.approx(other.log_probabilities[0])


def test_generation_uses_the_forward_direction() -> None:
    kinds: list[dict[str, Any]] = [{}, SPELLED]
    for fields in kinds:
        bilm = model(**fields)
        drawn = "".join(bilm.generate("the cat", length=5, sample=Sample(temperature=0)))
        assert drawn == "".join(bilm.generate("the cat", length=5, sample=Sample(temperature=0)))
        tokenizer = cast(LanguageModel, bilm.task).tokenizer
        known = [2, *tokenizer.encode("the cat")]
        with torch.no_grad():
            logits, _ = bilm.module(torch.tensor([known]))
        best = tokenizer.vocabulary.tokens[int(logits[0, -1, 1:].argmax()) + 1]
        assert drawn.strip().split(" ")[0] == best if best != "</s>" else drawn.startswith("\n")


def test_word_vectors_depend_on_context() -> None:
    bilm = model()
    (answer,) = bilm.embed_words(["the cat the dog the"])
    assert answer.words == ["the", "cat", "the", "dog", "the"]
    vectors = torch.tensor(answer.vectors)
    assert vectors.shape == (5, 3, 16)
    assert torch.equal(vectors[0, 0], vectors[2, 0])  # out of context
    assert not torch.isclose(vectors[0, 1:], vectors[2, 1:]).any(dim=1).all()
    assert str(answer).splitlines()[1].startswith(f"cat {vectors[1, 2, 0]:.6g} ")
    assert set(asdict(answer)) == {"words", "vectors"}


def test_unknown_words_have_character_level_vectors() -> None:
    bilm = model(**SPELLED)
    one, other = bilm.embed_words(["the cats sat", "the tacs sat"])
    assert one.vectors[0][0] == pytest.approx(other.vectors[0][0])
    assert one.vectors[1][0] != pytest.approx(other.vectors[1][0])


def test_truncated_bptt_is_refused() -> None:
    given = ["task.name=language_model", "task.train=t.txt", "task.direction=both", "train.bptt_steps=35"]
    with pytest.raises(
        ConfigError, match=r"train\.bptt_steps: expected 0, got 35: .*the backward direction needs whole lines"
    ):
        Config.build(config.Document.empty(given))
    Config.build(config.Document.empty([*given, "train.bptt_steps=0"]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "ngram"}, 'direction = "both" needs model = "neural", but model is "ngram"'),
        (
            {**SPELLED, "direction": "forward"},
            'needs direction = "both" or objective = "masked", and text',
        ),
        ({**SPELLED, "text": {"unit": "characters"}}, 'but they are "both", "causal" and "characters"'),
    ],
)
def test_conflicting_settings(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(**fields)


def test_a_forward_model_has_no_word_vectors() -> None:
    bilm = model(direction="forward")
    with pytest.raises(
        TypeError, match=r'only a language model with task\.direction = "both" or task\.objective = "masked" gives'
    ):
        bilm.embed_words(["a dog"])
