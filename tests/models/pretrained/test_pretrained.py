"""Pretrained inputs: their values, frozen weights, and runs that need no other files."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.tiny import CASES, build
from torch import Tensor

from seqloom import config, workflow
from seqloom.checkpoint import RunError, Snapshot
from seqloom.config import ConfigError
from seqloom.data.readers.sentences import Sentence
from seqloom.data.readers.text_files import DataError, Location, resolve
from seqloom.model import load
from seqloom.models.pretrained.combined import CombinedInput, ContextualEmbedding, ContextualInput, PretrainedEmbedding
from seqloom.models.pretrained.pretrained import PretrainedConfig
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.classify import Classify
from seqloom.tasks.tag import Tag
from seqloom.tasks.translate import Translate
from seqloom.training.progress import Progress


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a run of a language model, ``language``, and ``vectors.txt``."""
    build(CASES["tag, contextual vectors"], tmp_path)
    return tmp_path


def tag(folder: Path, **options: Any) -> Tag:
    pretrained = {"run": str(folder / "language")} | options
    small = {"words": {"embedding_size": 3}, "characters": {"layers": 0}, "encoder": {"hidden_size": 4}}
    task = Tag.model_validate({"train": str(folder / "t.conll"), "pretrained": pretrained, **small})
    return task.fit(task.read(folder / "t.conll"))


def embed(task: Any, sentence: str) -> tuple[Any, CombinedInput]:
    batch = task.collate(list(task.read_inputs([sentence])))
    model = task.build_model().eval()
    inputs = batch.inputs
    return model.encoder.embed, inputs if isinstance(inputs, CombinedInput) else inputs.values


def parts(model: torch.nn.Module, *, kind: type[torch.nn.Module]) -> Iterator[Any]:
    return (part for part in model.modules() if isinstance(part, kind))


# Values


def test_contextual_vectors_mix_the_layers_of_the_language_model(folder: Path) -> None:
    (expected_vectors,) = load(folder / "language").embed_words(["Anna sees the Zebra"])
    levels = torch.tensor(expected_vectors.vectors)  # (words, layers, D)
    combined, inputs = embed(tag(folder), "Anna sees the Zebra")
    (mixed,) = parts(combined, kind=ContextualEmbedding)
    torch.nn.init.normal_(mixed.mixture.scores)
    torch.nn.init.constant_(mixed.mixture.scale, 0.6)
    expected = 0.6 * (mixed.mixture.scores.softmax(dim=0)[:, None] * levels).sum(dim=1)
    vectors = combined(inputs)
    assert vectors.shape == (1, 4, 3 + 8)
    torch.testing.assert_close(vectors[0, :, 3:], expected)
    torch.testing.assert_close(vectors[:, :, :3], combined.own(inputs.own))


@pytest.mark.parametrize(
    ("name", "text"), [("classify, masked vectors", "it goes up below"), ("translate, masked vectors", "a cd e")]
)
def test_masked_vectors_are_those_of_the_language_model(name: str, text: str, tmp_path: Path) -> None:
    task: Any = build(CASES[name], tmp_path).task
    own = task.embedding_size
    combined, inputs = embed(task.fit(task.read(tmp_path / CASES[name].file)), text)
    (expected_vectors,) = load(tmp_path / "language").embed_words([text])
    levels = torch.tensor([layers[1:] for layers in expected_vectors.vectors])  # (words, layers, D)
    (mixed,) = parts(combined, kind=ContextualEmbedding)
    scores = torch.nn.init.normal_(mixed.mixture.scores).data
    scores[0] = -1e9  # the embedding, of which the task learns a projection
    expected = mixed.mixture.scale * (scores[1:].softmax(dim=0)[:, None] * levels).sum(dim=1)
    vectors = combined(inputs)
    assert vectors.shape[2] == own + levels.shape[2]
    torch.testing.assert_close(vectors[0, : len(levels), own:], expected)  # a translator reads the end token, too


def test_the_end_token_is_the_boundary_and_reversal_keeps_the_vectors(folder: Path) -> None:
    vectors = {}
    for reverse in (False, True):
        task = Translate.model_validate(
            {
                "train": "t.tsv",
                "reverse_source": reverse,
                "pretrained": {"run": str(folder / "language")},
                "embedding_size": 3,
            }
        )
        fitted = task.fit(list(task.read([("Anna sees the Paris", "x"), ("York", "y")])))
        combined, inputs = embed(fitted, "Anna sees York")
        vectors[reverse] = combined(inputs)[0, :, 3:]
    torch.testing.assert_close(vectors[True], vectors[False][[2, 1, 0, 3]])
    other, inputs = embed(fitted, "Paris")
    torch.testing.assert_close(other(inputs)[0, -1, 3:], vectors[True][-1])


def test_word_vectors_by_spelling_lowercase_or_as_unknown(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("<unk> 5 5 5\nmet 1 2 3\nYork 9 9 9\nrome 4 5 6\nberlin 7 8 9\n")
    task = Tag.model_validate(
        {
            "train": "t.conll",
            "pretrained": {"file": str(path), "extra_words": 1, "replace_embeddings": True},
            "characters": {"layers": 0},
        }
    )
    fitted = task.fit([Sentence(Location("t.conll", 1), ("met", "Rome", "him"), ("A", "B", "A"))])
    assert fitted.learned is not None
    assert fitted.learned.vectors is not None
    (words,) = fitted.learned.vectors.words
    assert words.vocabulary.tokens == ("<pad>", "<unk>", "met", "York", "rome")
    combined, inputs = embed(fitted, "met Rome him York")
    assert combined(inputs)[0].tolist() == [[1, 2, 3], [4, 5, 6], [5, 5, 5], [9, 9, 9]]


def test_word_vectors_of_an_embed_run(tmp_path: Path) -> None:
    settings = build(CASES["embed"], tmp_path)
    fitted: Any = settings.task.fit(settings.task.read(resolve(settings.task.train)))
    module: Any = fitted.build_model()
    run = Run.create(
        tmp_path / "embed", config=settings.text(), learned=fitted.learned.model_dump_json(), environment={}
    )
    run.save("best", _snapshot(module))
    word, other = list(fitted.learned.vocabulary)[:2]
    task = Classify.model_validate(
        {
            "train": "t",
            "pretrained": {"run": str(run.path), "extra_words": 1, "replace_embeddings": True, "fine_tune": True},
        }
    )
    classifier = task.fit(list(task.read([(f"{word} never-seen", "x"), ("never-seen", "y")])))
    combined, inputs = embed(classifier, f"{other} never-seen {word}")
    vectors = combined(inputs)[0]
    torch.testing.assert_close(vectors[[2, 0]], module.vectors[:2], rtol=0, atol=0)
    assert not vectors[1].any()


@pytest.mark.parametrize("fine_tune", [False, True])
def test_only_fine_tuned_vectors_have_gradients_but_the_unknown_is_always_trained(
    folder: Path, fine_tune: bool
) -> None:
    task = tag(folder, file=str(folder / "vectors.txt"), fine_tune=fine_tune)
    combined, inputs = embed(task, "Anna sees Zebra")
    combined(inputs).square().sum().backward()
    frozen = [
        *next(parts(combined, kind=ContextualEmbedding)).encoder.parameters(),
        next(parts(combined, kind=PretrainedEmbedding)).table.weight,
    ]
    assert all(parameter.requires_grad is fine_tune for parameter in frozen)
    assert all((parameter.grad is not None) is fine_tune for parameter in frozen)
    (static,) = parts(combined, kind=PretrainedEmbedding)
    (mixed,) = parts(combined, kind=ContextualEmbedding)
    for trained_parameters in (static.unknown, mixed.mixture.scores, mixed.mixture.scale):
        assert trained_parameters.grad is not None


def test_frozen_weights_have_no_dropout_and_save_no_tensors(folder: Path) -> None:
    combined, inputs = embed(tag(folder), "Anna sees the Paris")
    (mixed,) = parts(combined, kind=ContextualEmbedding)
    frozen_output = mixed(inputs.pretrained[0])
    mixed.train()
    assert mixed.training
    assert not any(part.training for part in mixed.encoder.modules())
    torch.testing.assert_close(mixed(inputs.pretrained[0]), frozen_output, rtol=0, atol=0)
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept):
        mixed(inputs.pretrained[0])
    assert len(saved) <= 4 * 3 + 4  # of the mixture of three layers; none of the language model
    fine_tuned, inputs = embed(tag(folder, fine_tune=True), "Anna sees the Paris")
    assert all(part.training for part in next(parts(fine_tuned.train(), kind=ContextualEmbedding)).encoder.modules())


def test_subwords_are_those_of_the_language_model(tmp_path: Path) -> None:
    case = CASES["language_model, bidirectional"]
    settings = build(case._replace(fields=case.fields | {"text": {"unit": "subwords", "vocab_size": 270}}), tmp_path)
    fitted: Any = settings.task.fit(settings.task.read(tmp_path / case.file))
    run = Run.create(
        tmp_path / "language",
        config=settings.text(),
        learned=fitted.learned.model_dump_json(),
        environment={},
    )
    run.save("best", _snapshot(fitted.build_model()))
    text = {"unit": "subwords", "vocab_size": 300}
    task = Classify.model_validate(
        {"train": "t", "text": text, "pretrained": {"run": str(tmp_path / "language")}, "embedding_size": 3}
    )
    classifier = task.fit(list(task.read([("a Cd éff", "x"), ("b", "y")])))
    assert classifier.learned is not None
    assert classifier.learned.text == fitted.learned.text
    _, inputs = embed(classifier, "a Cd éff")
    context: ContextualInput = inputs.pretrained[0]
    assert context.text.words[0, 1:].tolist() == inputs.own[0].tolist() == fitted.tokenizer.encode("a Cd éff")


def _snapshot(module: torch.nn.Module) -> Snapshot:
    return Snapshot(module.state_dict(), {}, {})


# Training


@pytest.mark.parametrize(
    ("name", "tuned"),
    [
        ("tag, contextual vectors", False),
        ("tag, fine-tuned and static vectors", True),
        ("translate, masked vectors", False),
        ("classify, masked vectors", True),
    ],
)
def test_frozen_weights_do_not_change_and_have_no_optimizer_state(name: str, tuned: bool, tmp_path: Path) -> None:
    settings = build(CASES[name], tmp_path, updates=3)
    run = workflow.train(settings, output=tmp_path / "run")
    pretrained = Run.open(tmp_path / "language").load("best").model
    last = run.load("last")
    prefix = "encoder.embed.pretrained.0.encoder."
    trained = {name.removeprefix(prefix): weight for name, weight in last.model.items() if name.startswith(prefix)}
    assert trained
    same = [torch.equal(weight, pretrained[f"encoder.{name}"]) for name, weight in trained.items()]
    assert not any(same) if tuned else all(same)
    assert last.model["encoder.embed.pretrained.0.mixture.scores"].abs().max() > 0
    moments = sum(name.endswith("exp_avg") for name in last.training)
    trained_parameters = sum(parameter.requires_grad for parameter in load(run.path).module.parameters())
    assert moments == trained_parameters


@pytest.mark.parametrize(
    "name",
    [
        "tag, contextual vectors",
        "tag, fine-tuned and static vectors",
        "classify, static vectors",
        "translate, contextual vectors",
    ],
)
def test_a_run_needs_no_other_folder(name: str, tmp_path: Path) -> None:
    settings = build(CASES[name], tmp_path, updates=4, save_every_minutes=1e-9)

    def interrupt(run: Run, event: Progress) -> None:
        if event.update == 2 and run.path.name == "interrupted":
            raise KeyboardInterrupt

    whole = workflow.train(settings, output=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        workflow.train(settings, output=tmp_path / "interrupted", listeners=[interrupt])
    expected = load(whole.path).predict(CASES[name].questions)
    shutil.rmtree(tmp_path / "language")
    (tmp_path / "vectors.txt").unlink()
    assert load(whole.path).predict(CASES[name].questions) == expected
    resumed = workflow.resume(tmp_path / "interrupted")
    assert load(resumed.path).predict(CASES[name].questions) == expected
    weights, others = whole.load("last").model, resumed.load("last").model
    assert all(torch.equal(weights[name], others[name]) for name in weights)


# Errors


def test_mismatching_runs_are_reported(folder: Path) -> None:
    pretrained = {"run": str(folder / "language")}
    task = Classify.model_validate({"train": "t", "text": {"unit": "characters"}, "pretrained": pretrained})
    with pytest.raises(
        DataError, match="language: expected a language model of characters, as in this task, found words"
    ):
        task.fit(list(task.read([("a", "x")])))
    with pytest.raises(RunError, match="not a run"):
        tag(folder, run=str(folder))
    forward_case = CASES["language_model"]
    settings = build(forward_case, folder)
    fitted: Any = settings.task.fit(settings.task.read(folder / forward_case.file))
    Run.create(folder / "forward", config=settings.text(), learned=fitted.learned.model_dump_json(), environment={})
    with pytest.raises(
        DataError, match=r'direction = "both" or .* the task language_model with task.direction = "forward"'
    ):
        PretrainedConfig(run=str(folder / "forward")).language("words")


def test_damaged_runs_are_refused_before_anything_large_is_built(folder: Path) -> None:
    language = PretrainedConfig(run=str(folder / "language")).language("words")
    assert language is not None
    larger = language.config.model_copy(update={"embedding_size": 10**7})
    with pytest.raises(RunError, match=r"the pretrained language model: .*describes a larger model"):
        language.model_copy(update={"config": larger}).build(fine_tune=False, dropout=0.0)


def test_frames_and_files_without_a_known_word_are_rejected(folder: Path) -> None:
    (folder / "strange.txt").write_text("elsewhere 1 2 3\n")
    with pytest.raises(DataError, match="contains no vector for a word of the training data"):
        tag(folder, run="", file=str(folder / "strange.txt"), extra_words=0)
    pretrained = {"run": str(folder / "language")}
    (folder / "t.csv").write_text("1,2,A\n3,4,B\n")
    tagger = Tag.model_validate({"train": "t.csv", "pretrained": pretrained})
    with pytest.raises(DataError, match=r"found vectors; task\.pretrained works with words only"):
        tagger.fit(tagger.read(folder / "t.csv"))
    classifier = Classify.model_validate({"train": "t.csv", "pretrained": pretrained})
    with pytest.raises(DataError, match=r"found frames of 2 features; task\.pretrained works with texts only"):
        classifier.fit(list(classifier.read([([[1.0, 2.0]], "A")])))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["task.pretrained.replace_embeddings=true"], "there are no pretrained vectors: set run or file"),
        (["task.pretrained.file=v.txt", "task.model=hmm"], "which cannot use pretrained vectors"),
        (
            ["task.pretrained.run=runs/language", "train.bptt_steps=10"],
            "expected 0, got 10: the language model of task.pretrained.run reads whole",
        ),
    ],
)
def test_conflicting_options_are_rejected(fields: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.build(config.Document.empty(["task.name=tag", "task.train=t.conll", *fields]))
