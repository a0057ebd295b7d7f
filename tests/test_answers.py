"""Predictions as a list, by field, and as tables."""

import pickle
from dataclasses import dataclass, field

import pandas as pd
import pytest

from seqloom.answers import SHOWN, Answers


@dataclass(frozen=True, slots=True)
class Label:
    label: str
    probability: float
    probabilities: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Words:
    words: list[str]
    labels: list[str]

    def __str__(self) -> str:
        return "".join(f"{word}\t{label}\n" for word, label in zip(self.words, self.labels, strict=True))


ANSWERS = Answers([Label("good <1>", 0.75), Label("bad", 0.5)], ["a film", "another\nfilm"])


def test_answers_are_a_list() -> None:
    assert list(ANSWERS) == [Label("good <1>", 0.75), Label("bad", 0.5)] == ANSWERS
    assert ANSWERS[1].label == "bad"
    assert ANSWERS[:1] == [Label("good <1>", 0.75)]
    assert ANSWERS[:1].inputs == ["a film"]
    assert pickle.loads(pickle.dumps(ANSWERS)).inputs == ANSWERS.inputs  # noqa: S301


def test_a_field_of_all_answers() -> None:
    assert ANSWERS["label"] == ["good <1>", "bad"]
    with pytest.raises(KeyError, match="labels; the predictions have label, probability"):
        ANSWERS["labels"]
    assert Answers([])["label"] == []


def test_a_data_frame_takes_answers() -> None:
    assert pd.DataFrame(ANSWERS)["label"].tolist() == ["good <1>", "bad"]


def test_text_is_a_table() -> None:
    assert repr(ANSWERS) == (
        "input         label     probability\n"
        "a film        good <1>  0.75\n"
        "another film  bad       0.5"
    )  # fmt: skip
    assert repr(Answers([])) == "no predictions"
    assert repr(Answers([Words(["a", "b"], ["X", "Y"])])) == "prediction\na/X b/Y"
    many = Answers([Label("x", 1.0)] * (SHOWN + 3))
    assert repr(many).splitlines()[-1] == "… 3 more"
    assert len(repr(many).splitlines()) == SHOWN + 2


def test_html_is_a_table_with_escaped_texts_and_bars() -> None:
    page = ANSWERS._repr_html_()
    assert "good &lt;1&gt;" in page
    assert "<1>" not in page
    assert "75.0%" in page
    assert page.count("<tr") == 3
