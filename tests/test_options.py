"""Errors as sentences with exit codes."""

import json
import math
from pathlib import Path

import pytest
import typer

from seqloom.interrupt import Interrupted
from seqloom.options import errors, print_json
from seqloom.training.engine import Diverged


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("found 3, wanted 4"), 1, "seqloom: found 3, wanted 4"),
        (FileNotFoundError("no.toml: there is no such file"), 1, "seqloom: no.toml: there is no such file"),
        (Interrupted(Path("runs/tag")), 130, "continue with: seqloom train --resume runs/tag"),
        (Diverged(7, []), 3, "seqloom: the gradient was not finite"),
    ],
)
def test_an_error_is_a_sentence_and_an_exit_code(
    error: Exception, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as left, errors():
        raise error
    assert left.value.exit_code == code
    assert said in capsys.readouterr().err


def test_a_mistake_of_ours_is_not_made_a_sentence() -> None:
    with pytest.raises(KeyError), errors():
        raise KeyError("bug")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"perplexity": 1.5})
    assert capsys.readouterr().out == '{\n  "perplexity": 1.5\n}\n'
    print_json({"loss": math.inf, "interval": (math.nan, -math.inf, 1.0, True, "x")})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "interval": [None, None, 1.0, True, "x"]}
