"""Captioning, compared with step-by-step probabilities and scores counted by hand."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from typer.testing import CliRunner

from seqloom import workflow
from seqloom.checkpoint import RunError
from seqloom.cli.main import app
from seqloom.config import Document
from seqloom.data.builtin.shapes import draw, scenes
from seqloom.data.readers.captioned_signals import CaptionedSignal
from seqloom.data.readers.text_files import DataError
from seqloom.insight import capture_attention
from seqloom.model import load
from seqloom.models.decoder import step
from seqloom.run_config import Config
from seqloom.tasks.caption import Caption, CaptionPrediction

SMALL = {
    "image_size": 8,
    "embedding_size": 4,
    "image_encoder": {"layers": 1, "channels": 6},
    "decoder": {"cell": "gru", "hidden_size": 6},
}
CLOSE = 1e-5  # float32, sums of some dozen terms


def image(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size=(8, 8, 3), dtype=np.uint8)


GIVEN: list[Any] = [
    (image(1), ["a b", "b a c"]),
    (image(2), ["c"]),
    (image(3), ["a b c", "c", "b"]),
]
VECTORS: list[Any] = [([0.0, 1.0, 5.0], ["a b", "b"]), ([4.0, 3.0, 5.0], ["c"])]


def task(**fields: Any) -> Caption:
    return Caption.model_validate({"train": "train.tsv", **SMALL, **fields})


def fit(given: list[Any] = GIVEN, **fields: Any) -> tuple[Caption, Any, list[CaptionedSignal]]:
    fresh = task(**fields)
    images = list(fresh.read(given))
    fitted = fresh.fit(images)
    torch.manual_seed(2)
    model: Any = fitted.build_model()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return fitted, model.eval(), images


@torch.no_grad()
def stepwise_log_probabilities(fitted: Caption, model: Any, picture: CaptionedSignal, caption: str) -> list[float]:
    """The log-probability of each token of a caption, step by step."""
    assert fitted.learned is not None
    state = model.start(*fitted.collate([picture]).inputs)
    last, log_probabilities = 2, []
    for token in [*fitted.learned.text.encode(caption), 2]:
        scores, state = step(model.decoder, torch.tensor([last]), state)
        log_probabilities.append(scores[0, token].item())
        last = token
    return log_probabilities


def test_collate_scales_images_and_encodes_captions() -> None:
    fitted, _, images = fit()
    learned = fitted.learned
    assert learned is not None
    assert learned.text.vocabulary.tokens == ("<pad>", "<unk>", "</s>", "b", "c", "a")
    everything = np.concatenate([picture.content.reshape(-1, 3) for picture in images]).astype(float)
    assert learned.signal.mean == pytest.approx(everything.mean(axis=0).tolist())
    assert learned.signal.deviation == pytest.approx(everything.std(axis=0).tolist())
    assert (learned.signal.kind, learned.length_limit) == ("image", 3)
    batch = fitted.collate(images)
    values = batch.inputs.values.numpy()
    assert (values.shape, values.dtype, bool(batch.inputs.mask.all())) == ((3, 8, 8, 3), np.float32, True)
    np.testing.assert_allclose(values.reshape(-1, 3).mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(values.reshape(-1, 3).std(axis=0), 1, atol=1e-6)
    tokens, real, rows = batch.target
    assert tokens.tolist() == [[5, 3, 2, 0], [3, 5, 4, 2], [4, 2, 0, 0], [5, 3, 4, 2], [4, 2, 0, 0], [3, 2, 0, 0]]
    assert rows.tolist() == [0, 0, 1, 2, 2, 2]
    assert batch.items == int(real.sum()) == 17


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"attention": {"style": "bahdanau", "score": "additive"}},
        {"attention": {"style": "none"}, "image_pooling": "mean"},
        {"attention": {"type": "hard"}},
        {"decoder": {"cell": "transformer", "hidden_size": 8, "options": {"heads": 2}}},
    ],
)
@pytest.mark.parametrize("given", [GIVEN, VECTORS, [GIVEN[0], GIVEN[0]]])
def test_the_loss_follows_the_chain_rule(fields: dict[str, Any], given: list[Any]) -> None:
    fitted, model, images = fit(given, **fields)
    batch = fitted.collate(images)
    loss = fitted.loss(model, batch)
    log_probabilities = [
        [stepwise_log_probabilities(fitted, model, picture, caption) for caption in picture.captions]
        for picture in images
    ]
    total = math.fsum(value for captions in log_probabilities for values in captions for value in values)
    assert float(loss.total.detach()) == pytest.approx(-total, rel=CLOSE)
    with torch.no_grad():
        answers = fitted.predict(model, batch).answers
    for answer, expected in zip(answers, log_probabilities, strict=True):
        for values, own in zip(answer.target_log_probabilities, expected, strict=True):
            assert values == pytest.approx(own, rel=CLOSE, abs=CLOSE)
        assert [len(hits) for hits in answer.target_correct] == [len(own) for own in expected]
    scores = fitted.score(answers, images)
    assert scores["loss"] == pytest.approx(-total / loss.items, rel=CLOSE)


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_captions_of_one_image_count_as_separate_examples(kind: str) -> None:
    """The image is encoded once; its gradient is the sum over all captions."""
    fitted, model, images = fit(attention={"type": kind})
    apart = [(picture.content, [caption]) for picture in images for caption in picture.captions]
    parameters = list(model.parameters())
    model.train(kind == "hard")  # whose choices are drawn in training, in the order of the rows
    gradients = []
    for examples in (images, list(fitted.read(apart))):
        torch.manual_seed(5)
        loss = fitted.loss(model, fitted.collate(examples)).total
        gradients.append(torch.autograd.grad(loss, parameters))
        for part in model.modules():
            if hasattr(part, "baseline"):
                part.baseline.zero_()
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"attention": {"style": "bahdanau"}},
        {"decoder": {"cell": "transformer", "hidden_size": 8, "layers": 2, "options": {"heads": 2}}},
    ],
)
def test_attention_has_a_weight_for_each_cell(fields: dict[str, Any]) -> None:
    fitted, model, images = fit(**fields)
    assert fitted.grid == (4, 4)
    inputs = fitted.collate(images).inputs
    tokens = torch.tensor([[2, 3, 4, 5]] * 3)
    state = model.start(*inputs)
    (expected, _), maps = capture_attention(model.decoder, tokens, state)
    assert torch.equal(expected, model.decoder(tokens, state)[0])
    over = [attention_map.weights for attention_map in maps if attention_map.weights.shape[-1] == 16]
    assert over
    for weights in over:  # (B, heads, T, cells)
        assert (weights.shape[0], weights.shape[2]) == (3, 4)
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))


def test_grid_of_pooled_images_and_vectors() -> None:
    assert fit(image_pooling="mean")[0].grid == (1, 1)
    fitted, model, images = fit(VECTORS)
    assert fitted.grid == (1, 1)
    assert fitted.learned is not None
    assert (fitted.learned.signal.kind, fitted.learned.signal.size) == ("vectors", 3)
    assert fitted.learned.signal.deviation == pytest.approx((2, 1, 1))  # the last number never changes
    assert fitted.collate(images).inputs.values.tolist() == [[[-1, -1, 0]], [[1, 1, 0]]]
    assert model.encoder.size == 6
    with pytest.raises(
        ValidationError, match=r"image_encoder\.layers is 3, which reduces an image of 8 × 8 pixels to one cell"
    ):
        task(image_encoder={"layers": 3})


def test_beam_search_returns_the_n_best_in_order() -> None:
    fitted, model, images = fit(search={"name": "beam", "size": 4, "nbest": 3, "length_penalty": "none"}, max_length=9)
    with torch.no_grad():
        answers = fitted.predict(model, fitted.collate(images)).answers
    for answer in answers:
        assert len(answer.nbest) == 3
        assert (answer.nbest[0].text, answer.nbest[0].score) == (answer.text, answer.score)
        scores = [candidate.score for candidate in answer.nbest]
        assert scores == sorted(scores, reverse=True)
        assert all({"<unk>", "<pad>"}.isdisjoint(candidate.tokens) for candidate in answer.nbest)


@pytest.mark.parametrize("longest", [0, 1, 5])
def test_captions_are_not_longer_than_max_length(longest: int) -> None:
    fitted, model, images = fit(max_length=longest, search={"name": "greedy"})
    with torch.no_grad():
        model.decoder.output.bias[2] = -100  # it would never end
        answers = fitted.predict(model, fitted.collate(images)).answers
    assert [len(answer.tokens) for answer in answers] == [(longest or 3) + 1] * 3


def answer(text: str, *targets: list[float]) -> CaptionPrediction:
    forced = [[value > -1 for value in values] for values in targets]
    return CaptionPrediction(text, 0.0, text.split(), [], [], "", list(targets), forced)


def test_scores_equal_those_counted_by_hand() -> None:
    fitted, _, images = fit()
    answers = [
        answer("b a c", [-0.5, -2.0, -0.5], [-2.0, -2.0, -0.5, -3.0]),
        answer("a", [-0.5, -2.0]),
        answer("b", [-1.0] * 4, [-0.5, -0.5], [-0.5, -0.5]),
    ]
    scores = fitted.score(answers, images)
    assert scores["exact_match"] == pytest.approx(2 / 3)
    assert scores["loss"] == pytest.approx((3 + 7.5 + 2.5 + 4 + 1 + 1) / 17)
    assert scores["forced_accuracy"] == pytest.approx((1 + 1 + 1 + 0 + 1 + 1) / (2 + 3 + 1 + 3 + 1 + 1))
    assert (scores["distinct"], scores["images"], scores["captions"]) == (1, 3, 6)
    hypotheses = ["b a c", "a", "b"]
    references = [["a b", "c", "a b c"], ["b a c", None, "c"], [None, None, "b"]]
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(hypotheses, references).score)  # type: ignore[arg-type]
    # All words but "a" stand in a caption of their image, and no answer is shorter than the nearest caption.
    assert scores["bleu_1"] == pytest.approx(100 * 4 / 5)
    assert "nrefs:var" in scores["bleu_signature"]


def test_case_matters_unless_texts_are_lowercased() -> None:
    given = [(image(1), ["A Dog"])]
    for lower, right in ((False, 0), (True, 1)):
        fitted, _, images = fit(given, text={"lowercase": lower})
        assert fitted.score([answer("a dog", [-1.0])], images)["exact_match"] == right


@pytest.mark.parametrize(("chosen", "higher"), [("bleu", True), ("exact_match", True), ("loss", False)])
def test_main_metric(chosen: str, higher: bool) -> None:
    configured = task(metric=chosen)
    assert (configured.main_metric, configured.higher_is_better) == (chosen, higher)


def test_missing_captions_and_wrong_inputs() -> None:
    fitted, model, _ = fit()
    unlabelled = list(fitted.read_inputs([image(1)]))
    with pytest.raises(DataError, match="input:1: no caption; training needs a caption for each image"):
        task().fit(unlabelled)
    with pytest.raises(DataError, match="found no examples"):
        task().fit([])
    with pytest.raises(ValueError, match="cannot compute the loss"):
        fitted.loss(model, fitted.collate(unlabelled))
    with pytest.raises(DataError, match="input:1: no caption; evaluation needs"):
        fitted.score([answer("x")], unlabelled)
    mixed = list(fitted.read([GIVEN[0], VECTORS[0]]))
    with pytest.raises(
        DataError, match="input:2: expected an image as in the other examples, found frames of 3 features"
    ):
        task().fit(mixed)
    with pytest.raises(
        DataError, match="input:2: expected an image as in the other examples, found frames of 3 features"
    ):
        fitted.collate(mixed)
    vectors = fit(VECTORS)[0]
    with pytest.raises(
        DataError, match="input:1: expected frames of 3 features as in the other examples, found an image"
    ):
        vectors.collate(mixed)


def configure(folder: Path, **changes: Any) -> Config:
    (folder / "images").mkdir()
    names = []
    for number, (scene, brightness) in enumerate(scenes(12, "train", seed=1)):
        draw(scene, brightness).save(folder / "images" / f"{number}.png")
        names.append((f"{number}.png", scene.captions))
    (folder / "captions.txt").write_text(
        "".join(f"{name}#{index}\t{text}\n" for name, captions in names for index, text in enumerate(captions))
    )
    (folder / "list.txt").write_text("".join(f"{name}\n" for name, _ in names))
    values = {
        "task.name": "caption",
        "task.train": f"{folder}/list.txt",
        "task.dev_fraction": 0.3,
        "task.image_size": 16,
    }
    values |= {"task.captions": f"{folder}/captions.txt", "task.images": f"{folder}/images", "train.batch_size": 4}
    values |= {
        "task.image_encoder.channels": 4,
        "task.image_encoder.layers": 2,
        "task.decoder.hidden_size": 8,
        "train.updates": 4,
    }
    return Config.build(
        Document.empty([f"{name}={value}" for name, value in (values | changes).items()]), defaults=False
    )


def test_train_and_predict_with_a_list_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
    config = configure(tmp_path)
    run = workflow.train(config, output=tmp_path / "run")
    model = load(run.path, search="beam size=2 nbest=2")
    answers = model.predict(tmp_path / "images")
    assert [prediction.image for prediction in answers] == sorted(f"{number}.png" for number in range(12))
    assert all(len(prediction.nbest) == 2 for prediction in answers)
    (alone,) = model.predict([str(tmp_path / "images" / "3.png")])
    assert alone.text == next(prediction.text for prediction in answers if prediction.image == "3.png")
    named = load(run.path, folder=str(tmp_path / "images"), captions=str(tmp_path / "captions.txt"))
    assert named.evaluate(str(tmp_path / "list.txt"))["captions"] == 24
    greedy = load(run.path).predict([str(tmp_path / "images" / "3.png")])[0].text
    together = load(run.path, ensemble=[run.path]).predict([str(tmp_path / "images" / "3.png")])
    assert together[0].text == greedy
    for source in (str(tmp_path / "images" / "3.png"), "-"):  # a name on standard input
        printed = CliRunner().invoke(app, ["predict", str(run.path), source], input=f"{tmp_path}/images/3.png\n")
        assert (printed.stdout, printed.stderr) == (f"{greedy}\n", "")
    image = (tmp_path / "images" / "3.png").read_bytes()
    (tmp_path / "images" / "3.png").write_bytes((tmp_path / "images" / "4.png").read_bytes())
    with pytest.raises(RunError, match=r"3\.png, listed in .*list\.txt: has changed since"):
        workflow.resume(run.path)
    (tmp_path / "images" / "3.png").write_bytes(image)
    (tmp_path / "captions.txt").write_text("0.png\tx\n")
    with pytest.raises(RunError, match=r"captions\.txt: has changed since"):
        workflow.resume(run.path)
