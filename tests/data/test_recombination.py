"""Recombination: compared with brute force over a toy grammar, whose true translations are known."""

import itertools
from pathlib import Path

import pytest

from seqloom.data.readers.parallel import PairReader
from seqloom.data.readers.text_files import DataError
from seqloom.data.recombination import Fragment, Recombination, Template, recombine, recombine_file

VERBS = {"walk": "W", "run": "R", "jump": "J", "look": "L"}
COUNTS = {"": 1, "twice": 2, "thrice": 3}


def command(verb: str, count: str) -> tuple[str, list[str]]:
    return f"{verb} {count}".strip(), [VERBS[verb]] * COUNTS[count]


def grammar() -> dict[str, str]:
    """All commands and their actions: two verbs, each with a count, in either order."""
    simple = [command(verb, count) for verb, count in itertools.product(VERBS, COUNTS)]
    commands = dict(simple)
    for (first, left), (second, right) in itertools.product(simple, simple):
        commands[f"{first} and {second}"] = [*left, *right]
        commands[f"{first} after {second}"] = [*right, *left]
    return {source: " ".join(actions) for source, actions in commands.items()}


def without(verb: str) -> list[tuple[str, str]]:
    """The commands in which a verb occurs on its own only."""
    return [(source, target) for source, target in grammar().items() if verb not in source or source == verb]


def words(*pairs: tuple[str, str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(tuple(source.split()), tuple(target.split())) for source, target in pairs]


def test_a_word_that_was_seen_on_its_own_gets_all_commands_of_the_grammar() -> None:
    """Every command with one new verb is found; none of those that the grammar has is wrong."""
    truth, known = grammar(), dict(without("jump"))
    found = dict(recombine(known.items(), 10_000, max_source=1))
    assert not found.keys() & known.keys()
    assert {source: target for source, target in found.items() if source in truth} == {
        source: truth[source] for source in found if source in truth
    }
    once = {source for source in truth if source.split().count("jump") == 1 and source != "jump"}
    assert once <= found.keys()
    # Twice in a command: one exchange replaces one phrase.
    assert all(source.split().count("jump") < 2 for source in found)


def test_phrases_of_several_words_are_exchanged_with_all_their_words() -> None:
    truth = grammar()
    known = {source: target for source, target in truth.items() if "run twice" not in source or source == "run twice"}
    found = dict(recombine(known.items(), 10_000, max_source=2))
    assert found["run twice after walk thrice"] == "W W W R R"
    assert all(target == truth[source] for source, target in found.items() if source in truth)


def test_translations_are_those_of_brute_force() -> None:
    """A translation is in all targets of a phrase, and no longer one contains it."""
    pairs = words(
        ("a red cat", "x rot katze"), ("a red dog", "x rot hund"), ("a dog", "x hund"), ("the dog", "y hund hund")
    )
    vocabulary = {word for _, target in pairs for word in target}
    sequences = [each for size in (1, 2, 3) for each in itertools.product(vocabulary, repeat=size)]

    def is_part(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
        return f" {' '.join(part)} " in f" {' '.join(whole)} "

    expected = {}
    for phrase in {word for source, _ in pairs for word in source}:
        targets = [target for source, target in pairs if phrase in source]
        common = [each for each in sequences if all(is_part(each, target) for target in targets)]
        longest = [each for each in common if not any(each != other and is_part(each, other) for other in common)]
        if short := [each for each in longest if len(each) <= 2]:
            expected[(phrase,)] = set(short)
    actual = Recombination(pairs, 1, 2, same_length=True).translations
    assert {phrase: set(translations) for phrase, translations in actual.items()} == expected
    assert expected[("a",)] == {("x",)}
    assert ("cat",) not in expected  # its target is too long


def test_fragments_of_one_template_are_interchangeable() -> None:
    pairs = words(
        ("a cat", "x katze"), ("a dog", "x hund"), ("the cat", "y katze"), ("the dog", "y hund"), ("dog", "hund")
    )
    recombination = Recombination(pairs, 1, 1, same_length=True)
    cat, dog = Fragment(("cat",), ("katze",)), Fragment(("dog",), ("hund",))
    assert recombination.interchangeable[cat] == [dog]
    assert recombination.templates[cat] == [
        Template((("a",), ()), (("x",), ())),
        Template((("the",), ()), (("y",), ())),
    ]
    assert recombination.templates[cat][0].fill(dog) == pairs[1]


def test_exchanges_that_contradict_a_known_pair_are_not_made() -> None:
    owners = {"a": "ein", "the": "das", "my": "mein", "her": "ihr"}
    known = [(f"{left} {noun}", f"{right} {noun}") for left, right in owners.items() for noun in ("feld", "haus")]
    known += [("a bank", "ein ufer"), ("the bank", "das ufer")]
    assert set(recombine(known, 10)) == {("my bank", "mein ufer"), ("her bank", "ihr ufer")}
    bank = Fragment(("bank",), ("ufer",))
    assert bank in Recombination(words(*known), 1, 1, same_length=True).interchangeable
    known.append(("my bank", "mein anderes ufer"))
    assert bank not in Recombination(words(*known), 1, 1, same_length=True).interchangeable


def test_a_translation_that_also_occurs_elsewhere_shows_no_place() -> None:
    """In W W W, nothing shows which W is the second walk."""
    known = words(("walk and walk twice", "W W W"), ("walk and walk thrice", "W W W W"), ("walk twice", "W W"))
    assert not Recombination(known, 2, 8, same_length=True).templates


def test_phrases_of_other_lengths_are_exchanged_if_asked_for() -> None:
    known = [("in ohio", "= ohio"), ("in iowa", "= iowa"), ("in new york", "= ny"), ("to new york", "to ny")]
    known += [("rivers of ohio", "r of ohio"), ("rivers of iowa", "r of iowa")]
    new = ("rivers of new york", "r of ny")
    assert new not in recombine(known, 100)
    assert new in recombine(known, 100, same_length=False)


def test_the_seed_and_the_count() -> None:
    known = without("jump")
    first, again, other = (recombine(known, 30, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == len(dict(first)) == 30


def test_the_file_has_the_known_pairs_first_and_can_be_read_again(tmp_path: Path) -> None:
    source, output = tmp_path / "train.txt", tmp_path / "more.tsv"
    pairs = [(left, f'"{right} " "') for left, right in without("jump")]
    source.write_text("".join(f"IN: {left} OUT: {right}\n" for left, right in pairs))
    assert recombine_file(source, output, count=5) == (len(pairs), 5)
    read = [(pair.source, pair.target) for pair in PairReader().read(output)]
    assert read[: len(pairs)] == pairs
    assert read[len(pairs) :] == recombine(pairs, 5)
    for existing in (output, source):
        with pytest.raises(ValueError, match=f"{existing}: already exists, and data are never overwritten"):
            recombine_file(source, existing)


def test_files_without_targets_or_without_exchangeable_phrases(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("IN: walk\n")
    with pytest.raises(DataError, match="no target"):
        recombine_file(path, tmp_path / "x.tsv")
    path.write_text("walk\tW\nrun fast\tR F\n")
    with pytest.raises(DataError, match="no phrases that can be exchanged"):
        recombine_file(path, tmp_path / "x.tsv")
    path.with_suffix(".jsonl").write_text('{"source": "a", "target": "b\\nc"}\n')
    with pytest.raises(DataError, match="line break"):
        recombine_file(path.with_suffix(".jsonl"), tmp_path / "x.tsv")
    assert not (tmp_path / "x.tsv").exists()
