"""Masked language models: fillers, pseudo-perplexity, [MASK] in texts of every unit, refusals."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.tiny import CASES, build
from torch import nn

from seqloom import config, workflow
from seqloom.checkpoint import Snapshot
from seqloom.config import ConfigError
from seqloom.data.readers.text_files import DataError
from seqloom.model import Model, load
from seqloom.models.pretrained.combined import ContextualEmbedding
from seqloom.models.text_scores import TextScore
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.language_model import LanguageModel, load_language_model
from seqloom.tasks.language_model.masked import EncodedText, FilledText
from seqloom.training import optimizers
from seqloom.training.config import TrainConfig

TEXT = ["the cat sat", "the dog sat on the cat", "", "a dog", "the cat and the dog sat on the mat", "on and on"]
SPELLED: dict[str, Any] = {"characters": {"layers": 1, "hidden_size": 3, "embedding_size": 4}}
TRANSFORMER = {"cell": "transformer", "hidden_size": 8, "layers": 2, "options": {"heads": 2}}
UNITS: dict[str, dict[str, Any]] = {
    "words": {},
    "punctuation": {"split": "punctuation", "lowercase": True},
    "lines": {"split": "lines"},
    "characters": {"unit": "characters"},
    "bpe": {"unit": "subwords", "vocab_size": 280},
    "unigram": {"unit": "subwords", "vocab_size": 30, "algorithm": "unigram"},
}


def model(lines: Sequence[str] = TEXT, **fields: Any) -> Model:
    common = {"train": "t.txt", "objective": "masked", "embedding_size": 8, "encoder": TRANSFORMER}
    made = LanguageModel.model_validate(common | fields)
    fitted = made.fit(made.read(lines))
    torch.manual_seed(1)
    module = fitted.build_model()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return Model(Config(fitted, TrainConfig()), module, task=fitted.for_prediction())


@pytest.mark.parametrize("unit", UNITS)
def test_masks_are_one_token_in_every_unit(unit: str) -> None:
    masked = model(text=UNITS[unit])
    tokenizer = masked.task.tokenizer  # type: ignore[attr-defined]
    whole = tokenizer.encode("the cat sat on")
    encoded = EncodedText.of(tokenizer, "the [MASK] sat on")
    assert encoded.ids.count(tokenizer.vocabulary.index("[MASK]")) == 1
    place = encoded.tokens.index("[MASK]")
    assert encoded.ids[:place] == whole[:place]
    after = len(encoded.ids) - place - 1
    assert encoded.ids[place + 1 :] == whole[len(whole) - after :]
    (answer,) = masked.predict(["the [MASK] sat on"])
    assert isinstance(answer, FilledText)
    best = answer.masks[0][0].token
    assert answer.text == (f"the{best} sat on" if tokenizer.unit == "subwords" else f"the {best} sat on")
    assert len(answer.masks[0]) == min(10, len(tokenizer.vocabulary) - 4)
    probabilities = [filler.probability for filler in answer.masks[0]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert str(answer).startswith(f"{answer.text}\t{best.strip() or best} {probabilities[0]:.3f}, ")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("the <mask> sat", "<mask> is ordinary text to this model: did you mean [MASK]?"),
        ("the [mask] sat", "[mask] is ordinary text to this model: did you mean [MASK]?"),
        ("the [MASK] sat", ""),
        ("the mask sat", ""),
    ],
)
def test_other_names_of_hidden_tokens_are_pointed_out(text: str, warning: str) -> None:
    masked = model()
    assert masked.task.input_warning(*masked.read([text])) == warning
    assert masked.predict([text]).notes == ([f"1 of 1: {warning}"] if warning else [])


def test_an_empty_text_has_no_token_to_predict() -> None:
    with pytest.warns(UserWarning, match="1 of 2 inputs"):
        answers = model().predict(["the cat", ""])
    assert answers[1].log_probabilities == []


def test_several_masks_and_texts_without_any() -> None:
    masked = model()
    both, none, empty = masked.predict(["[MASK] cat [MASK] on", "the cat sat", ""])
    assert [len(mask) for mask in both.masks] == [8, 8]
    assert both.text == f"{both.masks[0][0].token} cat {both.masks[1][0].token} on"
    assert isinstance(none, TextScore)
    assert len(none.log_probabilities) == 3  # the end of the line is not predicted
    assert none.perplexity == pytest.approx(math.exp(-sum(none.log_probabilities) / 3))
    assert empty.log_probabilities == []
    alone = [masked.predict([line])[0] for line in ("[MASK] cat [MASK] on", "the cat sat", "")]
    assert asdict(alone[0])["text"] == both.text
    assert alone[1].log_probabilities == pytest.approx(none.log_probabilities)


def test_the_pseudo_perplexity_is_that_of_each_token_hidden_in_turn(tmp_path: Path) -> None:
    masked = model()
    path = tmp_path / "dev.txt"
    path.write_text("the cat sat\n\na dog and [MASK]\nthe dog sat on the mat\n")
    scores = masked.evaluate(path)
    assert scores["tokens"] == 3  # one of each line that has tokens, of 3, 3 and 6
    log_probabilities = []
    for line in ("the cat sat", "the dog sat on the mat"):  # a hidden token has no probability
        words = line.split()
        for place, word in enumerate(words):
            hidden = " ".join([*words[:place], "[MASK]", *words[place + 1 :]])
            batch = masked.task.collate(list(masked.task.read([hidden])))
            with torch.no_grad():
                values = masked.module.encoder(batch.inputs)[0, place + 1]  # type: ignore[operator]
                logits = masked.module.output(masked.module.transform(values))  # type: ignore[operator]
            index = masked.task.tokenizer.vocabulary.index(word)  # type: ignore[attr-defined]
            log_probabilities.append(float(logits.log_softmax(dim=0)[index]))
    assert scores["pseudo_perplexity"] == pytest.approx(math.exp(-np.mean(log_probabilities)), rel=1e-5)
    assert scores == masked.evaluate(path)  # the same tokens are hidden


def test_unknown_counts_the_hidden_tokens_that_are_not_in_the_vocabulary(tmp_path: Path) -> None:
    masked = model(mask_rate=0.5)
    lines = ["the cow sat on the cow", "a cow", "owls", "", "the cat and the owl sat"]
    path = tmp_path / "dev.txt"
    path.write_text("\n".join(lines) + "\n")
    vocabulary = masked.task.tokenizer.vocabulary  # type: ignore[attr-defined]
    hidden = []
    for words in map(str.split, lines):
        ids = vocabulary.encode(["</s>", *words])
        noise = np.random.default_rng(ids).random((3, len(ids)))[0, 1:]  # the tokens with the lowest noise are hidden
        chosen = np.argsort(noise)[: max(1, round(len(words) / 2))]
        hidden += [words[place] for place in chosen]
    scores = masked.evaluate(path)
    assert scores["tokens"] == len(hidden) == 8
    assert scores["unknown"] == sum(word in ("cow", "owl", "owls") for word in hidden)
    assert 1 < scores["unknown"] < 5  # not all that the texts contain


def test_the_baseline_is_scored_on_the_same_tokens() -> None:
    masked = model()
    task = masked.task
    examples = list(task.read(["the cat", "dog on"]))
    counts = Counter(target for example in examples for target in task.baseline_targets(example))
    baseline = task.fit_baseline(counts, examples)
    assert baseline is not None
    scored = [token for example in examples for token in task._objective.scored_tokens(example)]  # type: ignore[attr-defined]
    assert len(scored) == 2
    names = task.tokenizer.vocabulary.decode(scored)  # type: ignore[attr-defined]
    expected = -np.mean([math.log(baseline.probabilities[name]) for name in names])
    assert task.score_baseline(baseline, examples)["loss"] == pytest.approx(expected)


def test_word_vectors_depend_on_context_on_both_sides() -> None:
    masked = model(**SPELLED)
    one, other = masked.embed_words(["the cat the", "the cat sat"])
    assert one.words == ["the", "cat", "the"]
    assert one.vectors[0][0] == pytest.approx(one.vectors[2][0])  # out of context
    assert one.vectors[0][1] != pytest.approx(other.vectors[0][1])  # the first word sees the last


def test_what_a_masked_model_cannot_do(tmp_path: Path) -> None:
    masked = model()
    with pytest.raises(TypeError, match="a masked language model cannot generate text: it predicts hidden tokens"):
        list(masked.generate("the cat"))
    run = save(masked, tmp_path / "run")
    with pytest.raises(TypeError, match="is a masked language model, which gives no probability of the next token"):
        load_language_model(run)


def save(saved: Model, path: Path) -> Path:
    learned: Any = saved.config.task.learned
    run = Run.create(path, config=saved.config.text(), learned=learned.model_dump_json(), environment={})
    run.save("best", Snapshot(saved.module.state_dict(), {}, {}))
    return run.path


def test_a_loaded_run_fills_masks(tmp_path: Path) -> None:
    masked = model()
    loaded = load(save(masked, tmp_path / "run"))
    assert loaded.predict(["the [MASK] sat"]) == masked.predict(["the [MASK] sat"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "ngram"}, 'objective = "masked" needs model = "neural"'),
        ({"direction": "both"}, "which reads both sides at once: remove direction"),
        ({"decoder": {"hidden_size": 3}}, "its layers are those of encoder"),
        ({"encoder": {"bidirectional": False}}, 'objective = "masked" reads both sides'),
        ({"objective": "causal"}, 'encoder is set, but objective is "causal"'),
        ({"objective": "causal", "encoder": {}, "mask_rate": 0.3}, "nothing is masked"),
    ],
)
def test_conflicting_settings(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(**fields)


def test_truncated_bptt_is_refused() -> None:
    given = ["task.name=language_model", "task.train=t.txt", "task.objective=masked", "train.bptt_steps=35"]
    with pytest.raises(ConfigError, match=r"train\.bptt_steps: expected 0, got 35: .*the model reads whole lines"):
        Config.build(config.Document.empty(given))


def test_explanations_show_fillers_or_surprisal() -> None:
    masked = model()
    filled = masked.explain("the [MASK] sat zebra")
    assert next(iter(filled.label_probabilities)) == filled.prediction.masks[0][0].token
    assert filled.attention is not None
    assert filled.attention.rows == ["<s>", "the", "[MASK]", "sat", "zebra"]
    assert filled.notes == ["not in the vocabulary, read as <unk>: 'zebra'"]
    several = masked.explain("[MASK] [MASK]")
    assert several.headline.count("\n[MASK] ") == 2
    scored = masked.explain("the cat sat")
    assert scored.token_values is not None
    assert scored.token_values.values == pytest.approx(
        [-value / math.log(2) for value in masked.predict(["the cat sat"])[0].log_probabilities]
    )


# As input of other tasks


@pytest.mark.parametrize("name", ["tag, masked vectors", "classify, masked vectors"])
def test_layers_learn_more_slowly_the_lower_they_are(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    settings = build(case, tmp_path, updates=1, optimizer="sgd", learning_rate=0.5, clip_norm=0.0)
    rates: dict[str, dict[str, float]] = {}
    for decay in (1.0, 0.5):
        changed = settings.task.model_copy(
            update={"pretrained": settings.task.pretrained.model_copy(update={"layer_decay": decay})}  # type: ignore[attr-defined]
        )
        fitted = changed.fit(changed.read(Path(changed.train)))
        torch.manual_seed(1)
        module = fitted.build_model()
        names = {parameter: name for name, parameter in module.named_parameters()}
        optimizer = optimizers.build("sgd", module, learning_rate=0.5, weight_decay=0.0, momentum=0.0)
        rates[str(decay)] = {
            names[parameter]: group["lr"] for group in optimizer.param_groups for parameter in group["params"]
        }
    assert set(rates["1.0"].values()) == {0.5}
    (prefix,) = (name for name, part in module.named_modules() if isinstance(part, ContextualEmbedding))
    own = {rate for name, rate in rates["0.5"].items() if not name.startswith(f"{prefix}.encoder")}
    assert own == {0.5}
    assert rates["0.5"][f"{prefix}.encoder.embed.weight"] == 0.5 * 0.5**3  # below two layers
    lower = [rate for name, rate in rates["0.5"].items() if name.startswith(f"{prefix}.encoder.layer.layers.0")]
    upper = [rate for name, rate in rates["0.5"].items() if name.startswith(f"{prefix}.encoder.layer.layers.1")]
    assert set(lower) == {0.125}
    assert set(upper) == {0.25}


def test_layer_decay_needs_a_language_model_that_is_fine_tuned() -> None:
    given = ["task.name=tag", "task.train=t.conll", "task.pretrained.layer_decay=0.5", "task.pretrained.run=r"]
    with pytest.raises(ConfigError, match=r"layer_decay is 0\.5, which needs fine_tune = true and run"):
        Config.build(config.Document.empty(given))


def test_masks_are_new_in_each_epoch_and_the_training_is_reproducible(tmp_path: Path) -> None:
    settings = build(CASES["language_model, masked"], tmp_path, updates=4)
    runs = [workflow.train(settings, output=tmp_path / name) for name in "ab"]
    first, second = (run.load("last").model for run in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_training_text_may_hide_tokens_itself() -> None:
    masked = model([*TEXT, "[MASK] [MASK]", "the [MASK]"], text={"lowercase": True})
    assert "[mask]" not in masked.task.tokenizer.vocabulary  # type: ignore[attr-defined]
    loss = masked.config.task.loss(masked.module, masked.config.task.collate(list(masked.task.read(["[MASK] [MASK]"]))))
    assert loss.items == 0
    assert float(loss.total.detach()) == 0
    with pytest.raises(DataError, match="found no text to train on"):
        model(["[MASK]"])
