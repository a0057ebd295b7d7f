"""Searches as a section of a configuration, chosen by name; checks of their arguments."""

from typing import Annotated, Any

import pytest
import torch
from pydantic import Field
from tests.decoding.tokens.reference import Toy

from seqloom.config import ConfigError, ConfigSection, dump, parse, template
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import max_lengths


class Task(ConfigSection):
    """A task that searches."""

    search: Annotated[Greedy | Beam | Sample, Field(discriminator="name")] = Field(Beam(size=4), description="Search.")


def read(text: str) -> Any:
    task = parse(text, "a.toml").build(task=Task)["task"]
    assert isinstance(task, Task)
    return task.search


def test_a_search_is_read_from_a_configuration() -> None:
    assert read("") == Beam(size=4)
    assert read('[task.search]\nname = "greedy"') == Greedy()
    assert read('[task.search]\nname = "beam"\nsize = 7\nlength_penalty = "gnmt"') == Beam(
        size=7, length_penalty="gnmt"
    )
    assert read('[task.search]\nname = "sample"\ntop_k = 3') == Sample(top_k=3)


@pytest.mark.parametrize("search", [Greedy(), Beam(size=6, groups=3, threshold=1.5), Sample(count=2)], ids=str)
def test_a_search_is_written_and_read(search: Greedy | Beam | Sample) -> None:
    assert read(dump(task=Task(search=search))) == search


def test_a_template_shows_the_search() -> None:
    text = template({"task": Task})
    assert read(text) == Beam(size=4)
    assert 'One of "greedy", "beam", "sample"; each has its own keys.' in text
    assert read(template({"task": Task}, {"task.search.name": "sample"})) == Sample()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "bean"', 'expected one of: "greedy", "beam", "sample"; got "bean"; did you mean "beam"?'),
        ('name = "beam"\nwidth = 3', 'unknown key "task.search.width"'),
        ('name = "beam"\nsize = 4\ngroups = 3', "size must be a multiple of groups, found size = 4 and groups = 3"),
        ('name = "beam"\nsize = 0', "task.search.size: expected a number greater than or equal to 1, got 0"),
    ],
)
def test_invalid_configurations_are_explained(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"[task.search]\n{text}")
    assert message in str(caught.value)


def test_lengths_are_for_all_or_for_each() -> None:
    start = torch.zeros(3).long()
    assert max_lengths(4, start).tolist() == [4, 4, 4]
    assert max_lengths(torch.tensor([1, 0, 2]), start).tolist() == [1, 0, 2]
    assert max_lengths(torch.tensor(5), start).tolist() == [5, 5, 5]
    assert max_lengths(5, start[:0]).tolist() == []


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (-1, "the maximum length of a row is -1, expected at least 0"),
        (torch.tensor([1, -2, 3]), "the maximum length of a row is -2"),
        (torch.tensor([1, 2]), "expected an integer or a tensor of 3 integers"),
        (torch.tensor([1.0, 2.0, 3.0]), "expected an integer"),
    ],
)
@pytest.mark.parametrize("search", [Greedy(), Beam(), Sample()], ids=lambda search: search.name)
def test_invalid_lengths_are_rejected(search: Greedy | Beam | Sample, lengths: Any, message: str) -> None:
    toy = Toy(3)
    with pytest.raises(ValueError, match=message):
        search(toy.step, toy.start(range(3)), torch.zeros(3).long(), 2, lengths=lengths)


def test_start_is_one_token_per_row() -> None:
    with pytest.raises(ValueError, match=r"start has shape \(3, 1\), expected one token per row"):
        Greedy()(Toy(3).step, Toy(3).start(range(3)), torch.zeros(3, 1).long(), 2, lengths=3)
