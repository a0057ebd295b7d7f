"""How a run is asked, as changes of its configuration."""

import pytest

from seqloom.tasks.task import asking


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        ({}, []),
        ({"search": "beam size=5"}, ['task.search={ name = "beam" }', "task.search.size=5"]),
        ({"allowed": 'a"b'}, ['task.constrain="a\\"b"']),
        ({"lexicon": "words.txt"}, ['task.lexicon="words.txt"', 'task.search.name="prefix_beam"']),
        (
            {"search": "prefix_beam", "language": "my lm.arpa weight=0.8  bonus=1 "},
            [
                'task.search={ name = "prefix_beam" }',
                'task.lm.model="my lm.arpa"',
                "task.lm.weight=0.8",
                "task.lm.word_score=1",
            ],
        ),
        ({"language": "weight=2"}, ['task.search.name="prefix_beam"', "task.lm.weight=2"]),
    ],
)
def test_what_is_given_becomes_keys(given: dict[str, str], changes: list[str]) -> None:
    assert asking(**given) == changes


def test_a_search_is_a_name_and_pairs() -> None:
    with pytest.raises(ValueError, match=r"--search has '5', wanted a name and key=value pairs"):
        asking("beam 5")
