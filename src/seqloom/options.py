"""Arguments and options that commands share, JSON output, and errors as messages with exit codes."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Configuration = Annotated[str, typer.Argument(help="TOML file with the configuration; see seqloom init.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Changes to the configuration, such as train.epochs=5.")]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a training run.")]
Layer = Annotated[str, typer.Option(help="Custom layer or cell, as module:name.")]
Search = Annotated[
    str,
    typer.Option(
        help="Decoding method, such as greedy or 'beam size=5 best=3'; for transcripts best_path or "
        "'prefix_beam size=64'."
    ),
]
Constrain = Annotated[str, typer.Option(help="File of the only translations allowed, one on each line.")]
Lexicon = Annotated[str, typer.Option(help="File of the only words allowed in a transcript.")]
LanguageModel = Annotated[
    str,
    typer.Option(
        "--lm", help="Language model for transcripts: an ARPA file or a run, such as 'words.arpa weight=0.8 bonus=1'."
    ),
]
Folder = Annotated[str, typer.Option(help="Folder or archive of the recordings that the file lists.")]
Stream = Annotated[
    bool, typer.Option("--stream", help="Transcribe raw 16-bit audio from standard input while it is recorded.")
]
Lag = Annotated[
    float,
    typer.Option(
        min=0, help="With --stream: seconds until text becomes final; 0: as soon as further audio cannot change it."
    ),
]
Ensemble = Annotated[
    list[Path] | None, typer.Option(help="Another run whose predictions are averaged with this one's; repeatable.")
]


def print_json(value: object) -> None:
    typer.echo(json.dumps(finite(value), indent=2))


def finite(value: object) -> object:
    """The same value with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def fail(message: str) -> NoReturn:
    typer.echo(f"seqloom: {message}", err=True)
    raise typer.Exit(1)


@contextmanager
def errors() -> Iterator[None]:
    """Report errors in a configuration, data or a run as a message and an exit code."""
    from seqloom.interrupt import Interrupted
    from seqloom.training.engine import Diverged

    try:
        yield
    except Interrupted as stopped:
        typer.echo(f"stopped and saved; continue with: seqloom train --resume {stopped}", err=True)
        raise typer.Exit(130) from None
    except Diverged as diverged:
        typer.echo(f"seqloom: {diverged}", err=True)
        raise typer.Exit(3) from None
    except BrokenPipeError:
        raise  # the reader has closed the pipe: typer exits silently
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        fail(str(error))
