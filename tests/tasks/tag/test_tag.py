import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score

from seqloom.data.readers.sentences import Sentence
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.vectors import VectorSequence
from seqloom.models.crf import CRF
from seqloom.models.hmm import HMM
from seqloom.tasks.tag import Learned, Tag
from seqloom.tasks.targets.tags import TagPrediction

SMALL = {
    "words": {"embedding_size": 6},
    "characters": {"embedding_size": 4, "hidden_size": 5},
    "encoder": {"hidden_size": 7, "dropout": 0.0},
    "input_dropout": 0.0,
}


KINDS = st.sampled_from(["neural", "hmm"])


def task(**fields: Any) -> Tag:
    return Tag.model_validate_json(json.dumps({"name": "tag", "train": "train.conll", **SMALL, **fields}))


def sentence(text: str, labels: str | None = None) -> Sentence:
    return Sentence(Location("train.conll", 3), tuple(text.split()), None if labels is None else tuple(labels.split()))


SPANS = [
    sentence("Anna met Carl Orff in Rome", "B-p O B-p I-p O B-l"),
    sentence("nobody met him", "O O O"),
    sentence("New York", "B-l I-l"),
    sentence("", ""),
]


def fitted(examples: Sequence[Sentence | VectorSequence] = SPANS, **fields: Any) -> Tag:
    torch.manual_seed(0)
    return task(**fields).fit(examples)


def test_learned_state_survives_json() -> None:
    for kind in ("neural", "hmm"):
        tagger = fitted(model=kind)
        assert tagger.learned is not None
        again = Learned.model_validate_json(tagger.learned.model_dump_json())
        assert again == tagger.learned
        before, after = tagger.collate(SPANS), tagger.model_copy(update={"learned": again}).collate(SPANS)
        assert all(torch.equal(left, right) for left, right in zip(before.inputs, after.inputs, strict=True))
        assert torch.equal(before.target, after.target)


def test_features_are_embedded_beside_the_words() -> None:
    examples = [
        dataclasses.replace(sentence("Anna met him", "B-p O O"), features=(("N", "V", "P"), ("1", "1", "2"))),
        dataclasses.replace(sentence("York", "B-l"), features=(("N",), ("3",))),
    ]
    tagger = fitted(examples, feature_columns=[1, 2], feature_size=3)
    assert tagger.learned is not None
    assert Learned.model_validate_json(tagger.learned.model_dump_json()) == tagger.learned
    first, second = tagger.learned.features
    model: Any = tagger.build_model().eval()
    unseen = dataclasses.replace(examples[0], features=(("V", "X", "N"), ("2", "2", "1")))
    inputs = tagger.collate([unseen, examples[1]]).inputs
    embed = model.encoder.embed
    vectors = embed(inputs)
    assert torch.equal(vectors[..., :16], embed.own(inputs.own))
    tables = [part.weight for part in embed.pretrained]
    assert torch.equal(vectors[0, :, 16:19], tables[0][[first.index("V"), 1, first.index("N")]])
    assert torch.equal(vectors[0, :, 19:], tables[1][[second.index(value) for value in "221"]])
    assert torch.equal(vectors[1, 0, 16:19], tables[0][first.index("N")])
    with pytest.raises(DataError, match=r"train\.conll:3: found words without the columns of task\.feature_columns"):
        tagger.collate([sentence("Anna met him")])
    (part, rest) = tagger.shorten(unseen, 2, "split")
    assert isinstance(part, Sentence)
    assert isinstance(rest, Sentence)
    assert (part.features, rest.features) == ((("V", "X"), ("2", "2")), (("N",), ("1",)))
    with pytest.raises(ValueError, match="reads words only"):
        task(model="hmm", feature_columns=[1])


def test_the_score_of_the_outside_label_is_calibrated() -> None:
    """A model whose O is too high by 1.25, with scores for B-x of the right sign and size; then one that is right."""
    random = np.random.default_rng(3)
    truth = random.random((200, 4)) < 0.4
    examples = [sentence("a b c d", " ".join("B-x" if here else "O" for here in row)) for row in truth]
    tagger = fitted(examples)
    assert tagger.is_calibrated
    assert not fitted(examples, calibrate=False).is_calibrated
    assert not fitted([sentence("a b", "N V"), sentence("a", "N")]).is_calibrated
    model: Any = tagger.build_model()
    scores = np.where(truth, 1.0, -1.0) + random.normal(size=truth.shape) * 0.7

    def predict() -> list[TagPrediction]:
        spans, outside = model.linear.bias.tolist()
        rows = np.where(scores + spans > outside, "B-x", "O").tolist()
        return [TagPrediction(["a", "b", "c", "d"], row, [1.0] * 4) for row in rows]

    with torch.no_grad():
        model.linear.bias[:] = torch.tensor([0.0, 1.25])
    before = tagger.score(predict(), examples)["span_f1"]
    calibration = tagger.calibrate_to(model, examples, predict=predict)
    outside = model.linear.bias[1].item()
    after = tagger.score(predict(), examples)["span_f1"]
    assert outside in (0.25, -0.25)
    assert after > before + 0.1
    assert calibration.note == (
        f"calibrated: the score of O is lowered by {1.25 - outside:g}, which changes span_f1 on the dev data from "
        f"{before:.4f} to {after:.4f}"
    )
    assert not tagger.calibrate_to(model, examples, predict=predict).note
    assert model.linear.bias[1].item() == outside


def test_collated_words_labels_and_counts() -> None:
    tagger = fitted()
    assert tagger.learned is not None
    assert tagger.learned.labels.names == ("B-l", "B-p", "I-l", "I-p", "O")
    assert tagger.learned.words is not None
    batch = tagger.collate([sentence("him MET Zoe", "O O B-p"), sentence("York", "I-l")])
    ids = batch.inputs.words.tolist()
    words = tagger.learned.words
    assert ids == [[words.index("him"), words.index("met"), 1], [words.index("york"), 0, 0]]
    assert batch.inputs.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.target.tolist() == [[4, 4, 1], [2, -1, -1]]
    assert batch.items == 4
    assert tagger.learned.counts[words.index("met")] == 2


@pytest.mark.parametrize("output", ["linear", "crf"])
def test_other_rows_have_no_effect(output: str) -> None:
    tagger = fitted(output=output)
    model: Any = tagger.build_model().double().eval()
    whole = tagger.loss(model, tagger.collate(SPANS))
    alone = [tagger.loss(model, tagger.collate([example])) for example in SPANS]
    torch.testing.assert_close(whole.total, torch.stack([loss.total for loss in alone]).sum(), rtol=1e-12, atol=1e-12)
    assert whole.items == sum(loss.items for loss in alone) == 11
    together = tagger.predict(model, tagger.collate(SPANS)).answers
    for answer, example in zip(together, SPANS, strict=True):
        (single,) = tagger.predict(model, tagger.collate([example])).answers
        assert answer.words == list(example.words)
        assert (single.words, single.labels) == (answer.words, answer.labels)
        assert single.probabilities == pytest.approx(answer.probabilities, abs=1e-12)


def test_linear_loss_is_cross_entropy_with_smoothing() -> None:
    tagger = fitted(label_smoothing=0.2)
    model: Any = tagger.build_model().double().eval()
    batch = tagger.collate(SPANS)
    logs = model(batch.inputs)[0].detach().log_softmax(dim=2)
    total = 0.0
    for row, example in enumerate(SPANS):
        for position in range(len(example)):
            scores = logs[row, position]
            total -= 0.8 * float(scores[batch.target[row, position]]) + 0.2 * float(scores.mean())
    assert tagger.loss(model, batch).total.item() == pytest.approx(total, abs=1e-10)


def examples_by_ending(words: Sequence[str]) -> list[Sentence]:
    labels = {"ly": "ADV", "ed": "VERB", "er": "NOUN"}
    rows = [words[start : start + 4] for start in range(0, len(words), 4)]
    return [sentence(" ".join(row), " ".join(labels[word[-2:]] for word in row)) for row in rows]


@pytest.mark.parametrize(("output", "kind"), [("linear", "neural"), ("crf", "neural"), ("linear", "hmm")])
def test_unknown_words_are_tagged_by_their_endings(output: str, kind: str) -> None:
    generator = np.random.default_rng(0)

    def draw(count: int) -> list[str]:
        stems = ["".join(generator.choice(list("abcdfgkmprst"), 4)) for _ in range(count)]
        return [stem + str(generator.choice(["ly", "ed", "er"])) for stem in stems]

    train, dev = examples_by_ending(draw(240)), examples_by_ending(draw(60))
    tagger = fitted(train, output=output, model=kind, words={"embedding_size": 6, "unknown_dropout": 3.0})
    model: Any = tagger.build_model()
    if kind == "hmm":
        model.count(train)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(40):
            loss = tagger.loss(model, tagger.collate(train))
            optimizer.zero_grad()
            (loss.total / loss.items).backward()
            optimizer.step()
    model.eval()
    scores = tagger.score(tagger.predict(model, tagger.collate(dev)).answers, dev)
    assert scores["unknown_words"] == 60
    assert scores["unknown_accuracy"] == scores["accuracy"] == 1


def test_scores() -> None:
    tagger = fitted()
    assert tagger.main_metric == "span_f1"
    truth = [*SPANS, sentence("Zoe sang", "B-x O")]
    guesses = ["B-p O B-p O O B-l", "O O B-p", "B-l I-l", "", "B-p O"]
    answers = [
        TagPrediction(list(example.words), labels.split(), [1.0] * len(example))
        for example, labels in zip(truth, guesses, strict=True)
    ]
    scores = tagger.score(answers, truth)
    expected = f1_score([list(example.labels or ()) for example in truth], [answer.labels for answer in answers])
    assert scores["span_f1"] == pytest.approx(expected)
    assert scores["accuracy"] == 10 / 13
    assert scores["known_accuracy"] == 9 / 11
    assert scores["unknown_accuracy"] == 1 / 2
    assert scores["unseen_labels"] == 1
    assert scores["per_type"]["l"] == {"precision": 1, "recall": 1, "f1": 1, "support": 2}
    assert next(iter(scores)) == "span_f1"
    low, high = scores["span_f1_interval"]
    assert low <= scores["span_f1"] <= high
    json.dumps(scores)
    with pytest.raises(DataError, match=r"train\.conll:3: no label; "):
        tagger.score(answers[:1], [sentence("a b c d e f")])


def test_spans_are_scored_by_their_overlap_on_request() -> None:
    tagger = fitted(metric="overlap_f1")
    assert tagger.main_metric == "overlap_f1"
    truth = [sentence("New York is big", "B-l I-l O O"), sentence("Anna sang", "B-p O")]
    guesses = ["B-l O O O", "B-p B-l"]  # precision (1 + 1 + 0) / 3, recall (1/2 + 1) / 2
    answers = [
        TagPrediction(list(example.words), labels.split(), [1.0] * len(example))
        for example, labels in zip(truth, guesses, strict=True)
    ]
    scores = tagger.score(answers, truth)
    precision, recall = 2 / 3, 3 / 4
    assert scores["overlap_f1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert scores["overlap_f1"] == tagger.metric_sums(answers, truth).whole
    assert scores["binary_overlap_f1"] == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert scores["overlap_f1_interval"][0] <= scores["overlap_f1"] <= scores["overlap_f1_interval"][1]
    with pytest.raises(ValueError, match='= "overlap_f1" needs labels of spans'):
        assert fitted([sentence("a b", "X Y")], metric="overlap_f1").main_metric


def test_labels_without_spans_are_scored_by_accuracy() -> None:
    tagger = fitted([sentence("a b", "X Y")])
    assert tagger.main_metric == "accuracy"
    scores = tagger.score([TagPrediction(["a", "b"], ["X", "X"], [1, 1])], [sentence("a b", "X Y")])
    assert scores["accuracy"] == 0.5
    assert scores["per_label"]["X"] == {"precision": 0.5, "recall": 1, "f1": 2 / 3, "support": 1}


@pytest.mark.parametrize("output", ["linear", "crf"])
def test_a_sentence_with_an_unseen_label_has_no_loss(output: str) -> None:
    tagger = fitted(output=output)
    model: Any = tagger.build_model().eval()
    unseen = sentence("Anna met", "B-q O")
    batch = tagger.collate([*SPANS, unseen])
    expected = tagger.loss(model, tagger.collate(SPANS))
    loss = tagger.loss(model, batch)
    assert loss.items == expected.items
    torch.testing.assert_close(loss.total, expected.total)
    assert len(tagger.predict(model, batch).answers[-1].labels) == 2


def test_training_needs_labels() -> None:
    with pytest.raises(DataError, match=r"train\.conll:3: no label; "):
        task().fit([sentence("a b")])
    with pytest.raises(DataError, match=r"train\.conll: found no examples"):
        task().fit([])
    with pytest.raises(ValueError, match="call fit first"):
        task().collate(SPANS)


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.conll"
    path.touch()
    with pytest.raises(DataError, match=r"empty\.conll: found no examples to train on: the file is empty$"):
        task(train=str(path)).fit([])


LINE = st.text(st.sampled_from("aBx1 \t-_#OI\u00e9\r"), max_size=12)


@given(rows=st.lists(LINE, max_size=8), name=st.sampled_from(["a.conll", "a.conllu", "a.csv"]), kind=KINDS)
def test_any_file_is_read_or_refused_with_its_location(rows: list[str], name: str, kind: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text("\n".join(rows), newline="")
        try:
            examples = list(task(model=kind, train=str(path)).read(path))
            tagger = task(model=kind, train=str(path)).fit(examples)
        except DataError as error:
            message = str(error)
        else:
            message = ""
        if message:
            assert message.startswith(str(path))
            return
        batch = tagger.collate(examples)
        assert batch.items == int(batch.inputs.mask.sum()) == sum(map(len, examples))


def test_standard_input_and_lists_are_read_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b\n\nc\n")))
    lines = [one for one in task().read(Path("-")) if isinstance(one, Sentence)]
    assert [one.words for one in lines] == [("a", "b"), (), ("c",)]
    listed = [one for one in task(format="conllu").read(["a b", "c"]) if isinstance(one, Sentence)]
    assert [one.words for one in listed] == [("a", "b"), ("c",)]


def test_answers_as_text_and_as_data() -> None:
    answer = TagPrediction(["a", "b"], ["X", "Y"], [0.5, 1.0])
    assert str(answer) == "a\tX\nb\tY\n"
    assert str(TagPrediction([], ["X", "Y"], [0.5, 1.0])) == "X\nY\n"
    assert dataclasses.asdict(answer) == {"words": ["a", "b"], "labels": ["X", "Y"], "probabilities": [0.5, 1.0]}


def test_constraints_hold_if_the_training_data_follow_them() -> None:
    outputs = {
        (orderly, constrain): fitted(
            SPANS if orderly else [*SPANS, sentence("x y", "O I-p")], output="crf", crf_constraints=constrain
        ).build_model()
        for orderly in (True, False)
        for constrain in ("never", "prediction", "always")
    }
    for (orderly, constrain), model in outputs.items():
        output = model.get_submodule("output")
        assert isinstance(output, CRF)
        assert (output.allowed is not None) == (orderly and constrain != "never")
        assert output.strict == (constrain == "always")


def test_unknown_dropout() -> None:
    tagger = fitted(
        [sentence("a a a b", "X X X Y")] * 10,
        words={"embedding_size": 6, "unknown_dropout": 10.0},
        characters={"layers": 0},
    )
    embed: Any = tagger.build_model().get_submodule("encoder.embed")
    batch = tagger.collate([sentence("a b", "X X")] * 2000)
    assert torch.equal(embed.eval()(batch.inputs), embed.embedding(batch.inputs.words))
    unknown = (embed.train()(batch.inputs) == embed.embedding.weight[1]).all(dim=2).double().mean(dim=0)
    # 10 / (10 + 30) and 10 / (10 + 10); 2000 draws are off by less than 0.05.
    assert unknown.tolist() == pytest.approx([0.25, 0.5], abs=0.05)


def test_frames(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("1,10,u\n3,10,v\n\n5,10,u\n")
    tagger = task(train=str(path), encoder={"hidden_size": 4})
    examples = list(tagger.read(path))
    tagger = tagger.fit(examples)
    batch = tagger.collate(examples)
    scale = np.std([1, 3, 5])
    torch.testing.assert_close(batch.inputs.values[0, :, 0], torch.tensor([-2 / scale, 0], dtype=torch.float32))
    assert not batch.inputs.values[..., 1].any()  # a channel that never changes
    model: Any = tagger.build_model().eval()
    first, second = tagger.predict(model, batch).answers
    assert (len(first.labels), len(second.labels), first.words) == (2, 1, [])
    assert tagger.score([first, second], examples)["elements"] == 3
    (alone,) = tagger.predict(model, tagger.collate(list(tagger.read([np.array([[1.0, 10], [3, 10]])])))).answers
    assert alone.labels == first.labels
    with pytest.raises(DataError, match="input:1: expected frames of 2 features, found 1 features"):
        tagger.collate(list(tagger.read([np.ones((2, 1))])))
    with pytest.raises(DataError, match="input:2: expected 2 features as in the first sequence, found 3"):
        task().fit(
            VectorSequence(Location("input", n), np.ones((2, n + 1), np.float32), labels=("u", "v")) for n in (1, 2)
        )
    with pytest.raises(DataError, match="found words"):
        tagger.collate(list(tagger.read(["a b"])))
    with pytest.raises(ValueError, match=r'task\.model is "hmm"'):
        task(model="hmm").fit(examples).build_model()


def test_a_forward_encoder_can_read_in_chunks() -> None:
    tagger = fitted(encoder={"hidden_size": 4, "bidirectional": False}, prenet={"layers": 1, "window": 3, "size": 4})
    model: Any = tagger.build_model().double().eval()
    batch = tagger.collate([SPANS[0]])
    whole = tagger.loss(model, batch)
    pieces = [
        batch._replace(inputs=type(batch.inputs)(*(part[:, cut] for part in batch.inputs)), target=batch.target[:, cut])
        for cut in (slice(0, 2), slice(2, 6))
    ]
    first = tagger.loss(model, pieces[0])
    second = tagger.loss(model, pieces[1]._replace(state=first.state))
    torch.testing.assert_close(first.total + second.total, whole.total, rtol=1e-12, atol=1e-12)


def test_formats_are_detected_by_suffix(tmp_path: Path) -> None:
    for name, text in {
        "a.txt": "a X\nb Y\n",
        "a.conllu": "1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n",
        "seq.in": "a b\n",
        "seq.out": "X Y\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert [one.labels for one in task().read(tmp_path / "a.txt")] == [("X", "Y")]
    assert [one.labels for one in task(label_column="deprel").read(tmp_path / "a.conllu")] == [("root",)]
    assert [one.labels for one in task(parallel=["in", "out"]).read(tmp_path / "seq.in")] == [("X", "Y")]
    assert [one.labels for one in task(format="lines").read(tmp_path / "a.txt")] == [None, None]


def test_hmm_survives_its_state_dict() -> None:
    tagger = fitted(model="hmm")
    model: Any = tagger.build_model()
    assert isinstance(model, HMM)
    model.count(SPANS)
    again: Any = tagger.build_model()
    again.load_state_dict(model.state_dict())
    batch = tagger.collate(SPANS)
    answers = tagger.predict(again, batch).answers
    assert answers == tagger.predict(model, batch).answers
    assert float(tagger.loss(again, batch).total) > 0


def test_labels_that_are_no_classes_are_refused() -> None:
    data = [sentence("a b", "X X")]
    with pytest.raises(DataError, match=r"all 2 words have the same label 'X'; .* task\.check_labels = false"):
        fitted(data)
    assert fitted(data, check_labels=False).fitted.labels.names == ("X",)


def test_other_labels_than_in_training_are_refused_although_o_is_known() -> None:
    tagger = fitted()
    others = [sentence("Anna met Carl", "B-person O B-person")]
    tagger.check_targets(others)  # too few to tell
    with pytest.raises(
        DataError, match=r"no label except 'O' occurs in the training data, .* found 'B-person'; known are"
    ):
        tagger.check_targets(others * 10)
    tagger.check_targets([*others * 10, SPANS[0]])
    answers = [TagPrediction([], ["O", "O", "O"], [])]
    assert tagger.score(answers, others)["not_in_train"] == {"B-person": 2}


def test_swapped_words_and_labels_are_refused() -> None:
    data = [sentence("X Y", f"a{number} b{number}") for number in range(60)] * 2
    with pytest.raises(
        DataError, match=r"found 120 different labels, but only 2 different words \('X', 'Y'\): .* swapped"
    ):
        fitted(data)
    assert len(fitted(data, check_labels=False).fitted.labels) == 120


def test_plain_sentences_are_predicted_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("Anna met Carl\nCarl met Orff\n")
    tagger = fitted()
    assert list(map(tagger.input_tokens, tagger.read_inputs(path))) == [
        ["Anna", "met", "Carl"],
        ["Carl", "met", "Orff"],
    ]
    assert tagger.input_note(path) == "each line is read as a sentence; --format conll reads columns"
    assert tagger.with_options(format="conll").input_note(path).startswith("word from column 1 of 3, though")
    path.write_text("Anna B-p\nmet O\n")
    assert list(map(tagger.input_tokens, tagger.read_inputs(path))) == [["Anna", "met"]]
    assert tagger.input_note(path) == ""


def test_columns_of_a_table_become_explicit(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("sentence_id,token,ner\n1,EU,ORG\n1,rejects,O\n2,Peter,PER\n")
    resolved, notes = task(train=str(path)).resolve(path)
    assert notes == ("word from column 2 'token', label from column 3 'ner', sequence from column 1 'sentence_id'",)
    assert (resolved.word_column, resolved.label_column, resolved.group_column) == ("token", "ner", "sentence_id")
    assert [example.labels for example in resolved.read(path)] == [("ORG", "O"), ("PER",)]
    assert [example.labels for example in task().read([["a", "b"]])] == [None]


@pytest.mark.parametrize(
    ("trained", "same", "other"),
    [
        (
            "id,time,ax,ay,state\n7,0,1,20,u\n7,1,3,40,v\n",
            "ay,id,ax,time,state\n20,7,1,0,u\n40,7,3,1,v\n",
            "id,time,x,ay,state\n7,0,1,20,u\n7,1,3,40,v\n",
        ),
        ("ax,ay,state\n1,20,u\n3,40,v\n", "ay,ax,state\n20,1,u\n40,3,v\n", "x,ay,state\n1,20,u\n3,40,v\n"),
        ("ax,ay,state\n1,20,u\n3,40,v\n", "ay,ax\n20,1\n40,3\n", "x,ay\n1,20\n3,40\n"),
    ],
)
def test_channels_are_matched_by_name(tmp_path: Path, trained: str, same: str, other: str) -> None:
    for name, text in (("trained", trained), ("same", same), ("other", other)):
        (tmp_path / f"{name}.csv").write_text(text)
    unfitted, _ = task().resolve(tmp_path / "trained.csv")
    tagger = unfitted.fit(unfitted.read(tmp_path / "trained.csv"))
    assert tagger.fitted.channel_names == ("ax", "ay")
    first, second = (tagger.collate(list(tagger.read(tmp_path / f"{name}.csv"))) for name in ("trained", "same"))
    assert torch.equal(first.inputs.values, second.inputs.values)
    with pytest.raises(DataError, match=r"other\.csv: missing channel: ax; unknown channel: x"):
        tagger.check_inputs(list(tagger.read(tmp_path / "other.csv")))


def test_the_last_column_is_no_label_if_it_is_a_channel(tmp_path: Path) -> None:
    (tmp_path / "trained.csv").write_text("ax,ay,state\n1,20,u\n3,40,v\n")
    (tmp_path / "new.csv").write_text("temp,ay,ax\n0,20,1\n1,40,3\n")
    tagger = task().fit(task().read(tmp_path / "trained.csv"))
    with pytest.raises(DataError, match=r"new\.csv: unknown channel: temp"):
        tagger.check_inputs(list(tagger.read(tmp_path / "new.csv")))
