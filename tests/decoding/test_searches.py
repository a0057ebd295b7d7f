"""The list of all searches, and searches as options describe them."""

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

import pytest

from seqloom.config import ConfigError
from seqloom.decoding import frames, tokens
from seqloom.decoding.frames.frame_search import FrameSearch
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.searches import SEARCHES, find, parse_search
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.search import Search


def test_every_file_with_a_search_is_listed() -> None:
    modules = [
        import_module(f"{package.__name__}.{entry.name}")
        for package in (tokens, frames)
        for entry in iter_modules(package.__path__)
    ]
    defined = {
        module.__name__.rpartition(".")[2]: kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Search | FrameSearch)
        and not isabstract(kind)
        and kind.__module__ == module.__name__
    }
    assert defined == SEARCHES


def test_a_search_is_found_by_its_name() -> None:
    assert find("beam") is Beam
    names = "greedy, beam, sample, best_path, prefix_beam"
    with pytest.raises(ValueError, match=rf"^unknown search 'bem' \(did you mean 'beam'\?\), expected one of {names}$"):
        find("bem")


def test_the_text_of_an_option_is_a_search() -> None:
    assert parse_search(" greedy ") == Greedy()
    assert parse_search("beam size=5  length_penalty=gnmt alpha=0.6") == Beam(size=5, length_penalty="gnmt", alpha=0.6)
    assert parse_search('beam length_penalty="length" alpha=1') == Beam(length_penalty="length", alpha=1.0)
    assert parse_search("prefix_beam size=64") == PrefixBeam(size=64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam 5", r"^--search contains '5', expected a name and key=value pairs such as 'beam size=5'$"),
        (" ", r"^unknown search '', expected one of greedy"),
        ("beam sise=4", r'^command line: unknown key "search\.sise"; did you mean "search\.size"\?$'),
        ("beam size=0", r"^command line: search\.size: expected a number greater than or equal to 1, got 0$"),
        ("beam size=many", r'^command line: search\.size: expected an integer, got "many"$'),
        (
            "beam length_penalty=gmnt",
            r'^command line: search\.length_penalty: expected one of: .*; got "gmnt"; did you mean "gnmt"\?$',
        ),
        (
            "beam size=3 groups=2",
            r"^command line: \[search\]: size must be a multiple of groups, found size = 3 and groups = 2",
        ),
        ("beam size=\udc80", r"^command line: invalid option 'size=\\udc80' of search; expected key=value in UTF-8$"),
    ],
)
def test_invalid_options_are_explained(text: str, message: str) -> None:
    with pytest.raises((ValueError, ConfigError), match=message):
        parse_search(text)
