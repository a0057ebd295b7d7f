import re
from datetime import date
from itertools import pairwise

import pytest

from seqloom.data.builtin.dates import LANGUAGES, generate_pairs, ordinal


def read(text: str) -> date:
    """Parse a date independently: a name gives the month, the numbers give the rest."""
    text = re.sub(r"(?<=\d)(st|nd|rd|th|er|º)\b|(?<=\d)º", "", text.lower())
    for language in LANGUAGES.values():
        for weekday in language.weekdays:
            text = re.sub(rf"\b{weekday.lower()}\b", "", text)
    numbers = re.findall(r"\d+", text)
    names = {
        name.lower().rstrip("."): number
        for language in LANGUAGES.values()
        for names in (language.months, language.short_months)
        for number, name in enumerate(names, start=1)
    }
    words = [word for word in re.findall(r"[^\W\d]+", text) if word in names]
    if len(numbers) == 3:
        first, month, last = numbers
        day, year = (last, first) if len(first) == 4 else (first, last)
        return date(full(year), int(month), int(day))
    day, year = numbers
    return date(full(year), names[words[-1]], int(day))  # an abbreviated weekday stands before the month


def full(year: str) -> int:
    return int(year) if len(year) == 4 else int(year) + (1900 if int(year) >= 69 else 2000)


def test_every_written_date_matches_its_iso_date() -> None:
    actual = list(generate_pairs(3000, "train", seed=5))
    assert [read(text).isoformat() for text, _ in actual] == [iso for _, iso in actual]


def test_patterns_of_one_day() -> None:
    day = date(2021, 3, 1)
    written = {
        name: [language.write(pattern, day) for pattern in language.patterns] for name, language in LANGUAGES.items()
    }
    assert written["English"][3] == "March 1st, 2021"
    assert "Monday the 1st of March 2021" in written["English"]
    assert "1st Mar '21" in written["English"]
    assert "Montag, den 1. März 2021" in written["German"]
    assert "le lundi 1er mars 2021" in written["French"]
    assert "lunes, 1 de marzo de 2021" in written["Spanish"]
    assert "lunedì 1º marzo 2021" in written["Italian"]
    assert "maandag 1 maart 2021" in written["Dutch"]
    assert "segunda-feira, 1 de março de 2021" in written["Portuguese"]


def test_month_names_are_unambiguous() -> None:
    meanings: dict[str, set[int]] = {}
    for language in LANGUAGES.values():
        assert (len(language.months), len(language.short_months), len(language.weekdays)) == (12, 12, 7)
        for names in (language.months, language.short_months):
            for number, name in enumerate(names):
                meanings.setdefault(name.lower().rstrip("."), set()).add(number)
    assert all(len(numbers) == 1 for numbers in meanings.values())


@pytest.mark.parametrize(
    ("number", "expected"), [(1, "st"), (2, "nd"), (3, "rd"), (4, "th"), (11, "th"), (13, "th"), (22, "nd"), (31, "st")]
)
def test_ordinals(number: int, expected: str) -> None:
    assert ordinal(number) == expected


def test_pairs_are_deterministic_and_splits_disjoint() -> None:
    train, dev, test = (list(generate_pairs(400, name, seed=1)) for name in ("train", "dev", "test"))
    assert train == list(generate_pairs(400, "train", seed=1))
    assert train != list(generate_pairs(400, "train", seed=2))
    for one, other in pairwise([train, dev, test, train]):
        assert not {iso for _, iso in one} & {iso for _, iso in other}
        assert not {text for text, _ in one} & {text for text, _ in other}
    assert all(len({text for text, _ in part}) == 400 for part in (train, dev, test))
