"""What commands have in common: their arguments and options, JSON, and errors as sentences with exit codes."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Configuration = Annotated[str, typer.Argument(help="A TOML file; see seqloom init.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Changes of it, such as train.epochs=5.")]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a run.")]
Layer = Annotated[str, typer.Option(help="A layer or cell of your own, as module:name.")]
Search = Annotated[
    str,
    typer.Option(help="How to search, such as 'beam size=5 best=3', greedy, or 'prefix_beam size=64' of transcripts."),
]
Allowed = Annotated[str, typer.Option(help="File of the only answers that there may be; of translations.")]
Lexicon = Annotated[str, typer.Option(help="File of the only words that there may be; of transcripts.")]
Language = Annotated[
    str,
    typer.Option(help="ARPA file or run that makes words probable, such as 'words.arpa weight=0.8 bonus=1'; likewise."),
]
Folder = Annotated[str, typer.Option(help="Folder or archive of the recordings that a list names.")]
Stream = Annotated[bool, typer.Option("--stream", help="Raw sound of 16 bits comes in, text as it is heard.")]
Lag = Annotated[
    float,
    typer.Option(min=0, help="Seconds after which --stream decides what was said; 0: when nothing can change it."),
]
Also = Annotated[list[Path] | None, typer.Option(help="A further run that answers together with it.")]


def print_json(value: object) -> None:
    typer.echo(json.dumps(finite(value), indent=2))


def finite(value: object) -> object:
    """The same with null where JSON has no number: infinity, and what is none at all."""
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
    """What can go wrong with a configuration, data or a run, as a sentence and an exit code."""
    from seqloom.interrupt import Interrupted
    from seqloom.training.engine import Diverged

    try:
        yield
    except Interrupted as stopped:
        typer.echo(f"stopped and saved; go on with: seqloom train --resume {stopped}", err=True)
        raise typer.Exit(130) from None
    except Diverged as diverged:
        typer.echo(f"seqloom: {diverged}", err=True)
        raise typer.Exit(3) from None
    except BrokenPipeError:
        raise  # who reads has read enough: typer ends in silence
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        fail(str(error))
