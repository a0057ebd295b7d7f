"""What the tests of all contract checks share: a law accepts a correct case, and names itself for a broken one."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from seqloom.testing.laws import Law, check_law

Broken = tuple[type[Any], Law, str]
"""A class that breaks a law, the law, and a pattern of the message."""


def each(broken: Sequence[Broken]) -> pytest.MarkDecorator:
    """Run a test with ``kind``, ``law`` and ``message`` of each broken class."""
    return pytest.mark.parametrize(("kind", "law", "message"), broken, ids=lambda value: getattr(value, "__name__", ""))


def assert_caught(law: Law, *, correct: Any, broken: Any, message: str, check: Callable[[], object]) -> None:
    """The law accepts the correct case and refuses the broken one; so does the public function, ``check``."""
    check_law(law, correct)
    with pytest.raises(AssertionError, match=rf"{re.escape(str(broken))} breaks the law '{law.__name__}'.*({message})"):
        check_law(law, broken)
    with pytest.raises(AssertionError, match="breaks the law"):
        check()
