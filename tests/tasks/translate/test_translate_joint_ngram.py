"""The task translate with a joint n-gram model and a hybrid, from a file to an explanation and an ensemble."""

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import seqloom
from seqloom.data.readers.text_files import DataError
from seqloom.explain import explain_all
from seqloom.export_check import ExportError
from seqloom.run_config import load_config
from seqloom.run_summary import ending, summarize
from seqloom.tasks.translate import Translate

LETTERS = {"a": "AA", "b": "B", "c": "K", "x": "K S", "e": "", "s": "S"}
WORDS = ["abc", "cab", "xab", "bax", "ace", "bace", "xa", "cabe", "baxe", "acab"] * 3


def spell(word: str) -> str:
    """Letter by letter, except that c is S before e."""
    return " ".join(filter(None, (LETTERS[letter] for letter in word.replace("ce", "s"))))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("counts")
    (folder / "train.tsv").write_text("".join(f"{word}\t{spell(word)}\n" for word in WORDS))
    options: dict[str, Any] = {"task": "translate", "data": folder / "train.tsv"}
    options |= {"source": {"unit": "characters"}, "dev_fraction": 0.2}
    counts = seqloom.train(**options, model="joint_ngram", output=folder / "counts")
    neural = seqloom.train(**options, epochs=1, encoder={"hidden_size": 4}, output=folder / "neural")
    return counts, neural


def test_it_spells_new_words(run: Any) -> None:
    model = seqloom.load(run[0].path)
    assert [answer.text for answer in model.predict(["baxc", "cbx", "bbb"])] == ["B AA K S K", "K B K S", "B B B"]
    described = ending(summarize(run[0], load_config(run[0])))
    assert "all examples counted" in described
    assert "warmup" not in described  # counts have no learning rate


def test_the_nbest_list_holds_possible_outputs_only(run: Any) -> None:
    model = seqloom.load(run[0].path, search="beam size=12 nbest=12")
    (answer,) = model.predict(["ab"])
    assert 1 <= len(answer.nbest) < 12
    assert answer.nbest[0].text == "AA B"
    assert all(min(each.log_probabilities) > -20 for each in answer.nbest)
    (nothing,) = model.predict([""])
    assert (nothing.text, len(nothing.nbest)) == ("", 1)


def test_explanations_show_the_alignment(run: Any) -> None:
    explanation: Any = seqloom.load(run[0].path).explain("xe")
    assert (explanation.attention.name, explanation.attention.rows) == ("alignment", ["K", "S", "</s>"])
    assert [max(range(3), key=row.__getitem__) for row in explanation.attention.weights] == [0, 0, 2]
    assert not explanation.notes


def test_pictures_that_a_model_does_not_have(run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explain_all(seqloom.load(run[0].path), ["xe"], tmp_path / "out", gates=True, heads=True)
    printed = capsys.readouterr().out
    assert "Note: there are no attention heads to draw\n" in printed
    assert "Note: there are no gates to plot: the model has no recurrent layers\n" in printed
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["attention.png"]


def test_ensemble_with_a_network(run: Any) -> None:
    together = seqloom.load(run[0].path, ensemble=[run[1].path])
    (answer,) = together.predict(["baxc"])
    alone = [seqloom.load(each.path).evaluate([("baxc", answer.text)])["loss"] for each in run]
    both = together.evaluate([("baxc", answer.text)])["loss"]
    assert min(alone) < both < min(alone) + math.log(2)  # at each token at least half of the better probability
    assert seqloom.load(run[1].path, ensemble=[run[0].path], precision="int8").predict(["abc"])


def test_what_a_network_can_do_is_refused(run: Any, tmp_path: Path) -> None:
    model = seqloom.load(run[0].path)
    with pytest.raises(ExportError, match="cannot be exported to ONNX"):
        model.export(tmp_path / "model.onnx")
    with pytest.raises(TypeError, match="has no encoder"):
        model.task.require_sentence_vectors()
    assert not model.task.custom_layer_field


@pytest.fixture(scope="module")
def hybrid(run: Any) -> Any:
    options: dict[str, Any] = {"task": "translate", "data": run[0].path.parent / "train.tsv", "dev_fraction": 0.2}
    options |= {"source": {"unit": "characters"}, "epochs": 10, "batch_size": 8, "learning_rate": 0.02}
    options |= {"encoder": {"hidden_size": 8}}
    return seqloom.train(**options, model="hybrid", output=run[0].path.parent / "hybrid")


def test_a_hybrid_spells_new_words(hybrid: Any) -> None:
    model = seqloom.load(hybrid.path)
    assert [answer.text for answer in model.predict(["baxc", "cbx", "bbb", "", "?"])] == [
        "B AA K S K",
        "K B K S",
        "B B B",
        "",
        "",
    ]
    losses = [row["dev"]["loss"] for row in hybrid.rows() if "dev" in row]
    assert losses[-1] < losses[0]


def test_settings_of_a_hybrid(hybrid: Any) -> None:
    task: Any = load_config(hybrid).task
    assert (task.embedding_size, task.encoder.layers, task.label_smoothing) == (64, 2, 0.1)
    model: Any = seqloom.load(hybrid.path)
    batch = task.collate(list(task.read([("xe", "K S")])))
    smooth, plain = (
        float(each.loss(model.module, batch).total.detach())
        for each in (task, task.model_copy(update={"label_smoothing": 0.0}))
    )
    assert smooth > plain > 0


def test_a_hybrid_shows_its_alignment_and_gives_vectors(hybrid: Any) -> None:
    model = seqloom.load(hybrid.path)
    explanation: Any = model.explain("xe")
    assert (explanation.attention.name, explanation.attention.rows) == ("alignment", ["K", "S", "</s>"])
    assert [max(range(3), key=row.__getitem__) for row in explanation.attention.weights] == [0, 0, 2]
    (vector,) = model.embed(["xe"])
    assert len(vector) == 16


def test_an_ensemble_of_hybrid_counts_and_network(run: Any, hybrid: Any) -> None:
    together = seqloom.load(hybrid.path, ensemble=[each.path for each in run])
    assert [answer.text for answer in together.predict(["baxc"])] == ["B AA K S K"]
    assert seqloom.load(run[1].path, ensemble=[hybrid.path], precision="int8").predict(["abc"])


def test_a_hybrid_is_not_exported(hybrid: Any, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="cannot be exported to ONNX"):
        seqloom.load(hybrid.path).export(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pretrained": {"file": "v.txt"}}, "cannot use pretrained vectors: remove task.pretrained"),
        ({"reverse_source": True}, "reads the source in the order of the target: remove task.reverse_source"),
        ({"scheduled_sampling": {"schedule": "linear"}}, "has no neural decoder: remove task.scheduled_sampling"),
        (
            {"bpe_dropout": 0.1, "source": {"unit": "subwords", "algorithm": "bpe"}},
            "counts each pair once: remove task.bpe_dropout",
        ),
    ],
)
@pytest.mark.parametrize("model", ["joint_ngram", "hybrid"])
def test_settings_that_have_no_meaning(model: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=f'model is "{model}", which {message}'):
        Translate.model_validate({"train": "t.tsv", "model": model, **fields})


@pytest.mark.parametrize("kind", ["joint_ngram", "hybrid"])
def test_rare_target_tokens_are_left_out_and_counted(kind: str) -> None:
    task = Translate.model_validate({"train": "t.tsv", "model": kind, "target": {"min_count": 2}})
    pairs = list(task.read([("a", "x"), ("a b", "x y"), ("b", "y"), ("b", "z")]))
    fitted = task.fit(pairs)
    reason = "unknown target tokens (task.target.min_count)"
    assert fitted.warnings == (f"1 of 4 examples (25.00%) are skipped: {reason}",)
    assert [fitted.infeasible(pair) for pair in pairs] == ["", "", "", reason]
    model: Any = fitted.build_model()
    if kind == "joint_ngram":
        model.count(pairs)
    model.eval()
    (answer,) = fitted.predict(model, fitted.collate(list(fitted.read_inputs(["b"])))).answers
    assert answer.text == "y"


def test_pairs_that_are_too_long_are_skipped_and_counted() -> None:
    task = Translate.model_validate({"train": "t.tsv", "model": "joint_ngram", "joint_ngram": {"max_chunk": 2}})
    fitted = task.fit(list(task.read([("a", "x y"), ("b", "x y z"), ("a b", "y x")])))
    (warning,) = fitted.warnings
    assert warning == (
        "1 of 3 examples (33.33%) are skipped: more than 2 target tokens per source token (task.joint_ngram.max_chunk)"
    )
    assert not task.fit(list(task.read([("a", "x y")]))).warnings
    with pytest.raises(DataError, match="no pair can be used: all targets have more than 2 tokens per source token"):
        task.fit(list(task.read([("a", "x y z")])))
