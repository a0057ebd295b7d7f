"""Labelled brackets against cases worked out by hand with the rules of evalb."""

import pytest

from seqloom.metrics.brackets import bracket_counts, bracket_sums, parse

REFERENCE = "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NP (DT a) (NN cat)) (PP (IN in) (NP (NN town))))))"


@pytest.mark.parametrize(
    ("hypothesis", "counts"),
    [
        (REFERENCE, (7, 7, 7)),  # S, VP, PP and four NPs; tags do not count
        (f"(TOP {REFERENCE})", (7, 7, 7)),  # nor does the root
        # the prepositional phrase belongs to the verb: one NP is missing
        ("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)) (PP (IN in) (NP (NN town)))))", (6, 6, 7)),
        # a wrong label, and a wrong tag, which does not matter
        ("(S (NP (DT the) (JJ dog)) (VP (VBZ sees) (NP (NP (DT a) (NN cat)) (XP (IN in) (NP (NN town))))))", (6, 7, 7)),
        ("(S (NP (DT the) (NN dog))", (0, 4, 7)),  # not closed
        ("(S (NP (DT the)) (VP (VBZ sees)))", (0, 3, 7)),  # too few words
        ("", (0, 0, 7)),
    ],
)
def test_brackets_are_counted_as_evalb_does(hypothesis: str, counts: tuple[int, int, int]) -> None:
    assert bracket_counts(hypothesis, REFERENCE) == counts


def test_trees_without_tags_count_every_bracket() -> None:
    assert bracket_counts("(S (NP DT NN ) (VP VI ) )", "(S (NP DT NN ) (VP VI ) )") == (3, 3, 3)
    assert bracket_counts("(S (NP DT NN VI ) )", "(S (NP DT NN ) (VP VI ) )") == (1, 2, 3)


def test_equal_brackets_count_as_often_as_they_occur() -> None:
    assert bracket_counts("(S (X (X a b ) ) )", "(S (X a b ) )") == (2, 3, 2)


def test_f1_is_computed_over_all_trees() -> None:
    sums = bracket_sums(["(S (A x y ) )", "(S x y )"], ["(S (A x y ) )", "(S (B x y ) )"])
    assert sums.whole == pytest.approx(2 * 3 / (3 + 4))


@pytest.mark.parametrize("text", ["", "a b", "(S a", "S a)", "(S a ) (S b )", ")"])
def test_what_is_no_tree(text: str) -> None:
    assert parse(text) is None
    with pytest.raises(ValueError, match="the reference is not a tree"):
        bracket_counts("(S a )", text)
