"""Error messages and exit codes of the commands."""

from pathlib import Path

import pytest
import typer

from seqloom.cli.options import errors
from seqloom.interrupt import Interrupted
from seqloom.training.divergence import Diverged


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("expected 4, found 3"), 1, "seqloom: expected 4, found 3"),
        (FileNotFoundError("no.toml: no such file"), 1, "seqloom: no.toml: no such file"),
        (Interrupted(Path("runs/tag")), 130, "continue with: seqloom train --resume runs/tag"),
        (Diverged("the loss is not finite"), 3, "seqloom: training diverged: the loss is not finite; lower"),
    ],
)
def test_an_error_is_a_message_and_an_exit_code(
    error: Exception, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as exit_info, errors():
        raise error
    assert exit_info.value.exit_code == code
    assert message in capsys.readouterr().err


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(KeyError), errors():
        raise KeyError("bug")
