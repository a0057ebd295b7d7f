"""Explanations in a notebook."""

import re
from dataclasses import replace

import numpy as np

from seqloom.insight.attribution import Attribution
from seqloom.insight.explanation import AttentionMap, Explanation, LabelChoice, TokenValues


def text(explanation: Explanation) -> str:
    return re.sub(r"<[^>]*>", " ", explanation._repr_html_())


def test_a_classification_shows_words_and_probabilities() -> None:
    explanation = Explanation(
        task="classify",
        source="a <b> film",
        prediction=None,
        title="good, 75.0%",
        token_values=TokenValues("pooling weight", ["a", "<b>", "film"], [0.0, 0.5, 0.25], 0.0),
        label_probabilities={"good": 0.75, "bad": 0.25},
        notes=["a note"],
    )
    page = explanation._repr_html_()
    for part in ("good, 75.0%", "&lt;b&gt;", "pooling weight", "75.0%", "25.0%", "a note"):
        assert part in page
    assert page.count("<b>") == 1  # the title, not the word
    assert repr(explanation) == "<Explanation: classify, good, 75.0%>"


def test_a_page_says_what_was_explained() -> None:
    attribution = Attribution(
        "occlusion", "up", ["1", "2"], [1.0, 0.0], ["1", "2"], [1.0, 0.0], score=1.0, baseline_score=0.0
    )
    signal = np.array([[0.0, 1.0], [1.0, 0.0]])
    channels = replace(attribution, channel_values=[[0.5, 0.5], [-0.25, 0.25]], channels=["ax", "ay"], signal=signal)
    explanation = Explanation(
        task="classify",
        source="",
        prediction=None,
        run="walk <1>",
        origin="sensor.csv, id 7",
        title="up, 73.1%",
        attribution=channels,
    )
    page = explanation.to_html()
    assert "<h1>Explanation of a prediction of walk &lt;1&gt; (classify)</h1>" in page
    shown = re.sub(r"<[^>]*>", "\n", page.partition("</h1>")[2]).split("\n")
    parts = [part for part in shown if part]
    assert parts[:4] == ["file", "sensor.csv, id 7", "predicted", "up, 73.1%"]
    assert {"ax", "ay", "time step", "against up", "for up", "−0.5", "+0.5"} <= set(parts)
    assert page.count("<polyline") == 2
    text_page = replace(explanation, origin="", source="a & b", attribution=attribution).to_html()
    assert "a &amp; b" in text_page
    assert "<polyline" not in text_page


def test_tags_show_their_alternatives() -> None:
    choices = [LabelChoice("film", "NOUN", 0.9, "VERB", 0.1)]
    shown = text(Explanation(task="tag", source="film", prediction=None, label_choices=choices)).split()
    assert shown[-5:] == ["film", "NOUN", "90.0%", "VERB", "10.0%"]


def test_attention_is_a_table_unless_it_is_too_large() -> None:
    def page(size: int) -> str:
        names = [f"w{index}" for index in range(size)]
        attention = AttentionMap("attention", names, names, [[1 / size] * size] * size)
        return Explanation(task="translate", source="x", prediction="y", attention=attention)._repr_html_()

    assert page(3).count('title="0.333"') == 9
    assert "title=" not in page(60)


def test_labels_that_a_table_leaves_out_are_counted() -> None:
    shown = {f"label {number}": 0.12 for number in range(8)}
    explanation = Explanation(task="classify", source="", prediction=None, label_probabilities=shown)
    assert explanation.other_labels == ""
    one = replace(explanation, label_probabilities=shown | {"a": 0.04})
    assert one.other_labels == "and 1 more label, with 4.00%"
    two = replace(explanation, label_probabilities=shown | {"a": 0.03, "b": 0.01})
    assert list(two.shown_labels) == list(shown)
    assert "and 2 more labels, with 4.00% in all" in text(two)
    few = replace(explanation, label_probabilities=shown, label_kind="token", label_count=5008)
    assert few.other_labels == "and 5,000 more tokens, with 4.00% in all"
