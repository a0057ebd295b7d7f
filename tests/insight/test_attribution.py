"""Attributions against linear scores, brute force and Captum; completeness; padding and batch mates change nothing."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.tiny import CASES, Case, _classify, _tag, build
from torch import Tensor

from seqloom.cells import Elman
from seqloom.insight import attribution
from seqloom.insight.attribution import Attribution, Score, attribute, check_method, default_method
from seqloom.model import Model
from seqloom.models.classifier import log_odds
from seqloom.run_config import Config

CLOSE = 1e-5  # float32, sums of some hundred terms
TEXT = "it goes high above"


class OwnCell(Elman):
    """A cell that a user wrote: the kernel for it is compiled from its step."""

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        return super().step(projected * 0.5, state)


def untrained(case: Case, folder: Path, *, layer: Any = None) -> Model:
    config = build(case, folder)
    task = config.task.with_layer(layer) if layer else config.task
    task = task.fit(list(task.read(folder / case.file)))
    torch.manual_seed(4)
    module = task.build_model()
    for parameter in module.parameters():
        parameter.data *= 3  # far from linear
    return Model(Config(task, config.train), module)


TRANSFORMER = {"cell": "transformer", "hidden_size": 8, "layers": 1, "options": {"heads": 2}}
MODELS: dict[str, tuple[Case, Any]] = {
    "classify": (_classify(), None),
    "attention pooling": (_classify(pooling="attention"), None),
    "transformer": (_classify(encoder=TRANSFORMER, pooling="mean"), None),
    "own cell": (_classify(), OwnCell),
    "numbers": (CASES["classify, numbers"], None),
    "tag": (_tag(), None),
    "crf": (_tag(output="crf"), None),
}


def source(model: Model, name: str) -> Any:
    if name == "numbers":
        return np.random.default_rng(1).normal(size=(7, len(model.task.learned.signal.mean))).astype(np.float32)  # type: ignore[union-attr]
    return "Anna sees New York" if name in ("tag", "crf") else TEXT


@pytest.mark.parametrize("name", MODELS)
def test_integrated_gradients_add_up_to_the_difference_of_the_scores(name: str, tmp_path: Path) -> None:
    case, layer = MODELS[name]
    model = untrained(case, tmp_path, layer=layer)
    explanation = model.explain(source(model, name), method="integrated_gradients")
    result = explanation.attribution
    assert result is not None
    prediction = explanation.prediction
    probability = prediction.probability if result.position == 0 else prediction.probabilities[result.position - 1]
    assert 1 / (1 + np.exp(-result.score)) == pytest.approx(probability, abs=CLOSE)
    total = sum(map(abs, result.values))
    assert total > 0.01
    assert sum(result.values) == pytest.approx(result.score - result.baseline_score, abs=0.01 * total)
    assert result.is_complete
    assert sum(result.word_values) == pytest.approx(sum(result.values))
    if name == "numbers":
        np.testing.assert_allclose(np.sum(result.channel_values, axis=1), result.values)
    assert all(parameter.grad is None for parameter in model.module.parameters())


def linear(seed: int = 0) -> tuple[Score, Tensor, np.ndarray]:
    """A linear score, inputs, and the exact contribution of each number."""
    random = torch.Generator().manual_seed(seed)
    weights, vectors = torch.randn(2, 5, 3, generator=random, dtype=torch.float64)
    return lambda points: (points * weights).sum(dim=(1, 2)) + 2, vectors, (weights * vectors).numpy()


def test_all_methods_are_exact_for_a_linear_score() -> None:
    score, vectors, exact = linear()
    np.testing.assert_allclose(attribution.input_x_gradient(score, vectors), exact)
    integral = attribution.integrated_gradients(score, vectors)
    np.testing.assert_allclose(integral.values, exact)
    assert integral.steps == 32
    groups = [[0], [1, 3], [2, 4]]
    np.testing.assert_allclose(
        attribution.occlude(score, vectors, groups), [exact[group].sum() for group in groups], atol=1e-12
    )
    expected = np.concatenate(
        [np.tile(exact[part].sum(axis=0), (len(exact[part]), 1)) for part in ([0, 1], [2, 3], [4])]
    )
    np.testing.assert_allclose(attribution.occlude_channels(score, vectors, window=2), expected, atol=1e-12)


def test_steps_are_added_until_the_gap_is_small() -> None:
    vectors = torch.ones(1, 2, dtype=torch.float64)

    def steep(points: Tensor) -> Tensor:
        return torch.tanh(300 * (points.sum(dim=(1, 2)) - 0.7))

    coarse, fine = (attribution.integrated_gradients(steep, vectors, max_steps=steps) for steps in (32, 1024))
    assert coarse.steps == 32 < fine.steps < 200
    assert abs(coarse.values.sum() - 2) > 0.1
    assert fine.values.sum() == pytest.approx(2, abs=0.01)
    np.testing.assert_allclose(fine.values, fine.values.sum() / 2)


def test_a_gap_that_stays_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution.integrated_gradients, "__kwdefaults__", {"max_steps": 32})
    result = attribute(
        lambda points: torch.tanh(300 * (points.sum(dim=(1, 2)) - 0.7)),
        torch.ones(1, 2),
        method="integrated_gradients",
        target="x",
        tokens=["a"],
    )
    assert not result.is_complete
    assert result.gap == pytest.approx(result.score - result.baseline_score - result.values[0])


def test_occlusion_is_what_brute_force_finds(tmp_path: Path) -> None:
    """The vector of padding is zero: each word in turn is replaced by padding that the mask declares real."""
    model = untrained(_classify(), tmp_path)
    result = model.explain(TEXT, method="occlusion", target="up").attribution
    assert result is not None
    values, mask = model.task.collate([model.inputs.example(TEXT)]).inputs
    index = model.task.learned.labels.ids["up"]  # type: ignore[union-attr]

    def score(tokens: Tensor) -> float:
        with torch.no_grad():
            row = model.module(tokens, mask)[0].double().softmax(dim=0).numpy()
        return float(np.log(row[index] / (1 - row[index])))

    differences = []
    for position in range(values.shape[1]):
        occluded = values.clone()
        occluded[0, position] = 0
        differences.append(score(values) - score(occluded))
    np.testing.assert_allclose(result.values, differences, atol=CLOSE)
    assert result.baseline_score == pytest.approx(score(torch.zeros_like(values)), abs=CLOSE)


@pytest.mark.parametrize("name", ["classify", "transformer", "crf"])
def test_padding_and_batch_mates_change_no_value(name: str, tmp_path: Path) -> None:
    model = untrained(MODELS[name][0], tmp_path)
    module: Any = model.module
    short = model.task.collate([model.inputs.example(source(model, name))]).inputs
    vectors = module.encoder.embed(short if name == "crf" else short.values).detach()[0]
    length = len(vectors)

    def score(padding: int) -> Score:
        def compute(points: Tensor) -> Tensor:  # with a longer mate, and garbage in the padding
            mates = torch.full((2, padding, points.shape[2]), 7.0)
            rows = torch.cat([points, points.new_full((len(points), padding, points.shape[2]), 1e3)], dim=1)
            rows = (
                torch.cat([rows, torch.cat([mates, points[:1].detach().expand(2, -1, -1)], dim=1)]) if padding else rows
            )
            mask = torch.ones(rows.shape[:2], dtype=torch.bool)
            mask[: len(points), length:] = False
            memory = module.encoder.encode(rows, mask)
            if name == "crf":
                scores: Tensor = module.log_odds(module.emissions(memory), mask, position=1, label=1)
            else:
                scores = log_odds(module.logits(memory), 0)
            return scores[: len(points)]

        return compute

    for method in attribution.METHODS:
        names = ["x"] * length
        alone, padded = (
            attribute(score(padding), vectors, method=method, target="x", tokens=names) for padding in (0, 3)
        )
        np.testing.assert_allclose(padded.values, alone.values, atol=CLOSE, rtol=1e-3)


def test_the_same_as_captum(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        captum = pytest.importorskip("captum.attr")
    model = untrained(_classify(), tmp_path)
    module: Any = model.module
    values, mask = model.task.collate([model.inputs.example(TEXT)]).inputs
    vectors = module.encoder.embed(values).detach()

    def score(points: Tensor) -> Tensor:
        return log_odds(module.logits(module.encoder.encode(points, mask.expand(len(points), -1))), 1)

    theirs = {
        "integrated_gradients": captum.IntegratedGradients(score).attribute(vectors, n_steps=400),
        "input_x_gradient": captum.InputXGradient(score).attribute(vectors.requires_grad_()),
        "occlusion": captum.Occlusion(score).attribute(vectors, sliding_window_shapes=(1, vectors.shape[2])),
    }
    for method, expected in theirs.items():
        result = attribute(score, vectors[0], method=method, target="x", tokens=TEXT.split()).values
        total = expected[0].mean(dim=1) if method == "occlusion" else expected[0].sum(dim=1)
        tolerance = 0.005 * float(total.abs().sum()) if method == "integrated_gradients" else CLOSE
        np.testing.assert_allclose(result, total.detach().numpy(), atol=tolerance, rtol=1e-4)


def test_another_label_and_another_word(tmp_path: Path) -> None:
    model = untrained(_tag(output="crf"), tmp_path)
    text = "the Anna sees the York"
    explanation = model.explain(text)
    least = int(np.argmin(explanation.prediction.probabilities))
    assert explanation.attribution is not None
    assert (explanation.attribution.position, explanation.attribution.target) == (
        least + 1,
        explanation.prediction.labels[least],
    )

    def chosen(**options: Any) -> Attribution:
        result = model.explain(text, method="input_x_gradient", **options).attribution
        assert result is not None
        return result

    assert chosen(word="anna", target="O").word == "Anna"
    assert chosen(word="4", target="O") == chosen(word=4, target="O")
    assert chosen(word=4).position == 4
    for word, message in (
        ("the", "occurs 2 times; give one of its positions: 1, 4"),
        ("Rome", "neither"),
        (6, "1 to 5"),
    ):
        with pytest.raises(ValueError, match=message):
            chosen(word=word)
    with pytest.raises(ValueError, match="did you mean 'B-PER'"):
        chosen(target="B-PR")


def test_impossible_labels_and_models_without_attributions(tmp_path: Path) -> None:
    model = untrained(_tag(output="crf"), tmp_path)
    with pytest.raises(ValueError, match="'I-LOC' is impossible here"):
        model.explain("Anna sees", word=1, target="I-LOC")
    with pytest.raises(ValueError, match="a classifier gives the whole input one label"):
        untrained(_classify(), tmp_path).explain(TEXT, word="it")
    hmm = untrained(_tag(model="hmm"), tmp_path)
    with pytest.raises(ValueError, match='found "hmm"'):
        hmm.explain("Anna sees", method="occlusion")
    with pytest.raises(TypeError, match=r"cannot show which inputs mattered \(tasks that can: classify, forecast"):
        untrained(CASES["translate"], tmp_path).explain("a b", method="occlusion")


def test_characters_and_subwords_are_merged_to_words(tmp_path: Path) -> None:
    for fields in ({"unit": "characters"}, {"unit": "subwords", "vocab_size": 270}):
        model = untrained(_classify(text=fields), tmp_path)
        for method in attribution.METHODS:
            result = model.explain("it goes, high", method=method).attribution
            assert result is not None
            assert result.words == ["it", "goes", ",", "high"]
            assert len(result.tokens) > 4
            if method != "occlusion":
                assert sum(result.word_values) == pytest.approx(sum(result.values), abs=CLOSE)
    letters = untrained(_classify(text={"unit": "characters"}), tmp_path).explain("high").attribution
    assert letters is not None
    assert letters.words == list("high")


def test_methods_by_name() -> None:
    assert [check_method(name) for name in attribution.METHODS] == list(attribution.METHODS)
    with pytest.raises(ValueError, match="did you mean input_x_gradient"):
        check_method("gradient_x_input")
    assert default_method(100) == ("integrated_gradients", [])
    method, (note,) = default_method(100_000)
    assert method == "input_x_gradient"
    assert "integrated_gradients is more exact" in note
