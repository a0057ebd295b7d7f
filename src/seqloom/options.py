"""What commands share: arguments and options, hints for unknown options, JSON, errors as messages with exit codes."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

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


class ConfigurableCommand(TyperCommand):
    """A command that takes overrides: an unknown option such as --lr is pointed to its configuration key."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        options = [argument.partition("=")[0] for argument in args if argument.startswith("--") and argument != "--"]
        for option in options:
            if option not in (*known, *ctx.help_option_names) and (keys := _keys_for(option, args)):
                overrides = " or ".join(f"{key}=…" for key in keys)
                ctx.fail(f"{option} is not an option; did you mean the override {overrides}?")
        return super().parse_args(ctx, args)


def _keys_for(option: str, args: list[str]) -> list[str]:
    """The configuration keys that an option stands for: of the task that is trained, or of any."""
    from seqloom import config, tasks
    from seqloom.config.hints import meant
    from seqloom.config.schema import all_keys
    from seqloom.training.loop import Train

    named = {after for before, after in pairwise(args) if before == "--task"}
    for argument in args:
        with suppress(ValueError, OSError):
            named.add(str(config.read(Path(argument)).get("task.name")))
    chosen = [name for name in tasks.names() if name in named] or tasks.names()
    keys = all_keys({"train": Train}) | {
        key: table for name in chosen for key, table in all_keys({"task": tasks.find(name)}).items()
    }
    values = {key: table for key, table in keys.items() if not table}
    return [".".join(map(str, key)) for key in meant((option,), values)]


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
    from seqloom.training.loop import Diverged

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
