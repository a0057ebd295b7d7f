"""A run that starts from the weights of another one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.tiny import CASES, build

from seqloom import workflow
from seqloom.model import load
from seqloom.run import Run
from seqloom.run_config import Config, load_config
from seqloom.training_data import data_readers
from seqloom.warm_start import WarmStart

pytestmark = pytest.mark.sampled(8)

GRADIENT = [name for name in CASES if not any(word in name for word in ("hmm", "ngram", "embed", "arpa", "hybrid"))]


def trained(name: str, folder: Path) -> Run:
    folder.mkdir(exist_ok=True)
    return workflow.train(build(CASES[name], folder, updates=2), output=folder / "run")


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize("vocabulary", ["shared", "mapped"])
def test_the_same_data_give_the_same_weights(name: str, vocabulary: Any, tmp_path: Path) -> None:
    config = build(CASES[name], tmp_path, updates=2)
    run = workflow.train(config, output=tmp_path / "run")
    task = config.task.fit(data_readers(config).train())
    warm = WarmStart(run, load_config(run), vocabulary)
    task = warm.adapt(task)
    torch.manual_seed(99)
    module = task.build_model()
    notes = warm.load(task, module)
    expected = run.load_best().model
    for parameter, tensor in module.named_parameters():
        torch.testing.assert_close(tensor.data, expected[parameter], rtol=0, atol=0)
    (note,) = notes
    count = len(list(module.named_parameters()))
    assert note == f"weights from {run.path}: {count} of {count} tensors copied"


@pytest.mark.parametrize("vocabulary", ["shared", "mapped"])
@pytest.mark.parametrize("names", [("translate, hybrid", "translate, hybrid"), ("translate", "translate, hybrid")])
def test_a_hybrid_is_no_start(names: tuple[str, str], vocabulary: Any, tmp_path: Path) -> None:
    """Its units, and the chunks that its outputs stand for, belong to its data."""
    runs = [trained(name, tmp_path / str(place)) for place, name in enumerate(names)]
    for first, second in (runs, reversed(runs)):
        with pytest.raises(ValueError, match="train it without --from"):
            WarmStart(first, load_config(first), vocabulary).adapt(load_config(second).task)


def classifier(folder: Path, name: str, lines: str) -> Config:
    (folder / f"{name}.txt").write_text(lines * 5)
    case = CASES["classify"]._replace(file=f"{name}.txt", train=lines * 5, dev=lines)
    return build(case, folder, updates=2)


def test_mapped_rows_are_those_of_the_same_tokens(tmp_path: Path) -> None:
    first = workflow.train(classifier(tmp_path, "a", "up high one\ndown low two\n"), output=tmp_path / "a")
    second = classifier(tmp_path, "b", "left high new\nup two other words\n")
    run = workflow.train(
        second._replace(train=second.train.model_copy(update={"learning_rate": 1e-12})),
        output=tmp_path / "b",
        start_from=first.path,
        vocabulary="mapped",
    )
    old, new = load(first.path), load(run.path)
    weights = [dict(model.module.named_parameters()) for model in (old, new)]
    tables = [model.task.fitted.text.vocabulary for model in (old, new)]  # type: ignore[attr-defined]
    (embedding,) = [name for name in weights[0] if "embed" in name]
    for token in ("<pad>", "<unk>", "high", "two"):
        before, after = (table[embedding][each.index(token)] for table, each in zip(weights, tables, strict=True))
        torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    labels = [model.task.fitted.labels.ids for model in (old, new)]  # type: ignore[attr-defined]
    (output,) = [name for name in weights[0] if name.startswith("output") and name.endswith("weight")]
    before, after = (table[output][each["up"]] for table, each in zip(weights, labels, strict=True))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    assert f"text: 4 of 7 entries have weights from {first.path}" in (run.path / "train.log").read_text()
    assert f"labels: 1 of 2 entries have weights from {first.path}" in run.notes


def test_a_shared_vocabulary_is_that_of_the_first_run(tmp_path: Path) -> None:
    first = workflow.train(classifier(tmp_path, "a", "up high one\ndown low two\n"), output=tmp_path / "a")
    second = classifier(tmp_path, "b", "left high new\nup two other words\n")
    run = workflow.train(second, output=tmp_path / "b", start_from=first.path)
    old, new = load(first.path).task.fitted, load(run.path).task.fitted
    assert new.text == old.text  # type: ignore[attr-defined]
    assert new.labels.names == ("left", "up")  # type: ignore[attr-defined]


def test_other_sizes_tasks_and_kinds_are_refused(tmp_path: Path) -> None:
    first = trained("classify", tmp_path / "a")
    case = CASES["classify"]
    wider = build(case._replace(fields={**case.fields, "embedding_size": 7}), tmp_path)
    with pytest.raises(ValueError, match=r"has the shape \(\d+, 7\), but \(\d+, 5\) in .*: use the layers and sizes"):
        workflow.train(wider, output=tmp_path / "b", start_from=first.path)
    with pytest.raises(ValueError, match="has the task classify, but the new run has the task tag"):
        workflow.train(build(CASES["tag"], tmp_path), output=tmp_path / "b", start_from=first.path)
    counts = trained("language_model, ngram", tmp_path / "c")
    with pytest.raises(TypeError, match="it is not trained by gradient descent"):
        workflow.train(build(CASES["language_model, ngram"], tmp_path), output=tmp_path / "b", start_from=counts.path)
    assert not (tmp_path / "b").exists()
