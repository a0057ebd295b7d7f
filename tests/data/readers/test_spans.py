from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.readers.spans import are_spans, invalid_transitions, to_bio


def test_spans_and_invalid_transitions() -> None:
    assert are_spans(["O", "B-x", "I-x"])
    assert not are_spans(["O"])
    assert not are_spans(["NOUN", "B-x"])
    assert not are_spans(["B-", "O"])
    actual = list(invalid_transitions(["I-x", "B-x", "I-y", "O", "E-x", "I-x"]))
    assert [index for index, _ in actual] == [0, 2, 4, 5]
    assert actual[1][1].startswith("I-y follows B-x")
    assert actual[0][1].startswith("I-x is the first label")


@given(st.lists(st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"])))
def test_converted_labels_are_in_order(labels: list[str]) -> None:
    converted = to_bio(labels)
    assert not list(invalid_transitions(converted))
    assert to_bio(converted) == converted
    assert [label[1:] for label in converted] == [label[1:] for label in labels]
