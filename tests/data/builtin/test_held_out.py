"""Generated texts: files share no example, and every target is right by rules written anew here."""

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

from seqloom.data.builtin import datasets
from seqloom.metrics.brackets import parse
from seqloom.metrics.turtle import run

NAMES = (
    *("entailment", "similarity", "stories", "dialogues", "match_reports", "phrase_trees", "turtle_programs"),
    *("opinions", "misspellings", "agreement", "names", "pronouns"),
)


def read(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The examples of the three files, of data sets with few of them."""
    for sizes in (datasets.TEXTS, datasets.TAGGED, datasets.PAIRS):
        for split in sizes:
            monkeypatch.setitem(sizes, split, 200 if split == "train" else 80)
    texts = [path.read_text() for path in datasets.build(name, folder / name)]
    blocks = [text.strip().split("\n\n" if name in ("opinions", "names") else "\n") for text in texts]
    return [block[1:] if name in ("entailment", "similarity") else block for block in blocks]


@pytest.mark.parametrize("name", NAMES)
def test_files_share_no_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [set(part) for part in read(name, tmp_path, monkeypatch)]
    assert all(len(part) > 60 for part in parts)
    assert not any(one & other for one, other in combinations(parts, 2))


def test_answers_follow_from_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (line for part in read("stories", tmp_path, monkeypatch) for line in part):
        text, answer = line.split("\t")
        *story, question = re.split(r" \. ", text)
        place: dict[str, str] = {}
        carries: dict[str, str] = {}
        for who, verb, *_, what in map(str.split, story):
            if verb == "took":
                assert place.get(what, place[who]) == place[who]
                carries[what] = who
            elif verb == "dropped":
                assert carries.pop(what) == who
                place[what] = place[who]
            else:
                place[who] = what
                place.update({thing: what for thing, owner in carries.items() if owner == who})
            place.update({thing: place[owner] for thing, owner in carries.items()})
        assert place[question.split()[-2]] == answer, line


def test_summaries_follow_from_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (line for part in read("match_reports", tmp_path, monkeypatch) for line in part):
        report, summary = line.split("\t")
        goals = re.findall(r"(?:scored|made a goal) for (\w+)", report)
        won = re.match(r"(\w+) (?:beat|and) (\w+)(?: drew)? (\d) to (\d)", summary)
        assert won is not None, summary
        assert (goals.count(won[1]), goals.count(won[2])) == (int(won[3]), int(won[4])), line
        assert ("beat" in summary) == (won[3] > won[4])


def test_trees_have_the_words_of_the_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (line for part in read("phrase_trees", tmp_path, monkeypatch) for line in part):
        sentence, tree = line.split("\t")
        parsed = parse(tree)
        assert parsed is not None
        assert parsed[1] == len(sentence.split())


def test_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [json.loads(line)["target"] for part in read("turtle_programs", tmp_path, monkeypatch) for line in part]
    assert any("\n    " in program for program in programs)
    for program in programs:
        run(program)


def test_dialogues_ask_for_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (line for part in read("dialogues", tmp_path, monkeypatch) for line in part):
        turns, reply = line.split("\t")
        user_turns = re.sub(r"<bot> .*?(?=<user>|$)", "", turns)
        days = re.findall(r"\w+day", user_turns)
        assert (reply == "On which day ?") <= (not days), line
        assert all(day in user_turns for day in re.findall(r"\w+day", reply))


def test_labels_agree_with_the_first_noun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (line for part in read("agreement", tmp_path, monkeypatch) for line in part):
        label, text = line.split(" ", maxsplit=1)
        noun = text.split("the ", maxsplit=1)[1].split()[0]
        assert (label == "plural") == (noun.endswith("s") or noun == "children"), line


def test_it_is_what_the_reason_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"big", "large", "wide", "long"}
    for line in (line for part in read("pronouns", tmp_path, monkeypatch) for line in part):
        label, text = line.split(" ", maxsplit=1)
        keeps_out = "does not fit" in text
        assert (label == "thing") == ((text.split()[-1] in large) == keeps_out), line


def test_similar_sentences_have_a_high_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (line for part in read("similarity", tmp_path, monkeypatch) for line in part):
        first, second, score = line.split("\t")
        assert 0 <= float(score) <= 5
        assert (first == second) <= (float(score) == 5), line
        assert (float(score) == 0) <= (first != second)
