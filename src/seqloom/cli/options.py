"""Arguments and options that commands share, hints for unknown options, and error messages with exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, NoReturn, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from seqloom.cli.completion import complete_config, complete_override, complete_run, complete_task
from seqloom.formats import visible

VALUES: Final = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
"""How the help names the value of an option that has no name of its own."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Configuration = Annotated[
    str,
    typer.Argument(help="TOML file with the configuration; see seqloom init.", autocompletion=complete_config),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Changes to the configuration, such as train.epochs=5.", autocompletion=complete_override),
]
TaskName = Annotated[
    str, typer.Option(metavar="TASK", help="Task, if there is no configuration.", autocompletion=complete_task)
]
DataFiles = Annotated[
    str,
    typer.Option(
        metavar="FILE", help="Training file, or folder with a train and a dev file, if there is no configuration."
    ),
]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a training run.", autocompletion=complete_run)]
RunFolders = Annotated[
    list[Path],
    typer.Argument(metavar="RUN", help="Folder of a training run; several with --by.", autocompletion=complete_run),
]
Layer = Annotated[str, typer.Option(metavar="MODULE:NAME", help="Custom layer or cell.")]
Search = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        help="Decoding method, such as greedy or 'beam size=5 nbest=3'; for transcripts best_path or "
        "'prefix_beam size=64'.",
    ),
]
Constrain = Annotated[str, typer.Option(metavar="FILE", help="File with the allowed translations, one per line.")]
Lexicon = Annotated[
    str, typer.Option(metavar="FILE", help="File with the words allowed in a transcript or translation.")
]
LanguageModel = Annotated[
    str,
    typer.Option(
        "--lm",
        metavar="MODEL",
        help="Language model for transcripts and translations: an ARPA file or a run, such as 'words.arpa weight=0.8'.",
    ),
]
Folder = Annotated[
    str,
    typer.Option(metavar="FOLDER", help="Folder or archive with the recordings or images that the input file lists."),
]
Captions = Annotated[str, typer.Option(metavar="FILE", help="File with the captions of the images.")]
Timings = Annotated[
    str,
    typer.Option(metavar="FORMAT", help="Times of words and tokens of a transcript: tsv, textgrid, ctm, srt or vtt."),
]
TimingsFolder = Annotated[
    Path | None,
    typer.Option("--output", metavar="FOLDER", help="With --timings: folder that gets a file for each recording."),
]
SentencePooling = Annotated[
    str,
    typer.Option(
        help="How sentence vectors are computed from the outputs of the encoder: mean, max, first, last, or attention "
        "if the model has it.",
        metavar="POOLING",
    ),
]
PlotTheme = Annotated[
    str,
    typer.Option(
        "--theme", metavar="THEME", help="Background of plots: light or dark (default: train.plot_theme of the run)."
    ),
]
Stream = Annotated[
    bool,
    typer.Option("--stream", help="Transcribe WAV or raw 16-bit audio from standard input while it is recorded."),
]
Rate = Annotated[int, typer.Option(min=0, help="With --stream: sample rate of raw audio in Hz (0: that of the model).")]
Lag = Annotated[
    float,
    typer.Option(
        min=0, help="With --stream: seconds until text becomes final (0: once further audio cannot change it)."
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(metavar="RUN", help="Another run that predicts together with this one; repeatable."),
]


class Command(TyperCommand):
    """A command whose help names arguments and values in capitals: ``explain RUN [SOURCE]...``, ``--example N``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        types = get_type_hints(self.callback) if self.callback else {}
        for parameter in self.params:
            if parameter.param_type_name == "option":
                if parameter.metavar is None:
                    parameter.metavar = VALUES.get(_value_type(types.get(parameter.name or "")))
            else:
                parameter.metavar = parameter.metavar or str(parameter.name).upper()
                vars(parameter)["display_type_rich"] = lambda ctx: None  # noqa: ARG005  its name and help say enough

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``RUN`` instead of ``{RUN}`` for a required argument."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


def _value_type(annotation: Any) -> Any:
    """The type of one value: of ``list[int] | None``, int."""
    while arguments := [argument for argument in get_args(annotation) if argument is not NoneType]:
        annotation = arguments[0]
    return annotation


class ConfigurableCommand(Command):
    """A command that takes overrides: an unknown option such as --lr is pointed to its configuration key."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        options = [argument.partition("=")[0] for argument in args if argument.startswith("--") and argument != "--"]
        for option in [] if ctx.resilient_parsing else options:  # while a word is completed, nothing is wrong yet
            if option not in (*known, *ctx.help_option_names) and (keys := _keys_for(option, args)):
                overrides = " or ".join(f"{key}=…" for key in keys)
                ctx.fail(f"{option} is not an option; did you mean the override {overrides}?")
        return super().parse_args(ctx, args)


def _keys_for(option: str, args: list[str]) -> list[str]:
    """The configuration keys that an option may mean: those of the given task, or of all tasks if none is given."""
    from seqloom import config, tasks
    from seqloom.config.hints import synonym_keys
    from seqloom.config.schema import all_keys
    from seqloom.training.config import TrainConfig

    given_tasks = {value for option_name, value in pairwise(args) if option_name == "--task"}
    for argument in args:
        with suppress(ValueError, OSError):
            given_tasks.add(str(config.read(Path(argument)).get("task.name")))
    searched = [name for name in tasks.names() if name in given_tasks] or tasks.names()
    keys = all_keys({"train": TrainConfig}) | {
        key: table for name in searched for key, table in all_keys({"task": tasks.find(name)}).items()
    }
    values = {key: table for key, table in keys.items() if not table}
    return [".".join(map(str, key)) for key in synonym_keys((option,), values)]


def fail(message: str) -> NoReturn:
    typer.echo(f"seqloom: {visible(message)}", err=True)
    raise typer.Exit(1)


@contextmanager
def errors() -> Iterator[None]:
    """Print the errors that users can fix as one line, and exit with the code that ``seqloom --help`` lists."""
    from seqloom.interrupt import Interrupted, discard_output
    from seqloom.training.divergence import Diverged

    try:
        yield
    except Interrupted as interrupted:
        try:
            typer.echo(f"stopped and saved; continue with: seqloom train --resume {interrupted}", err=True)
        except OSError:  # nobody reads it
            discard_output()
        raise typer.Exit(130) from None
    except Diverged as diverged:
        typer.echo(f"seqloom: {diverged}", err=True)
        raise typer.Exit(3) from None
    except BrokenPipeError:
        raise  # the reader has closed the pipe: typer exits silently
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (ValueError, TypeError, ModuleNotFoundError) as error:
        for note in getattr(error, "__notes__", ()):
            typer.echo(visible(note), err=True)
        fail(str(error))
