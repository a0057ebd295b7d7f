"""The command line: all commands in the order of the help, each with an example."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from seqloom import __version__, terminal
from seqloom.cli import builtin, experiments, generation, inference, plots, serving, training
from seqloom.cli.options import Command, ConfigurableCommand

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    terminal.prepare_output()
    try:
        Path.cwd()
    except OSError as error:  # torch could not be imported
        sys.exit(f"seqloom: the current folder cannot be used ({error.strerror}): change to another one")
    app(prog_name="seqloom")


def print_version(requested: bool) -> None:  # noqa: FBT001
    if requested:
        print(f"seqloom {__version__}")
        raise typer.Exit


@app.callback()
def seqloom(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train and use small sequence models on your own machine.

    Exit codes: 0 success, 1 error, 2 wrong usage, 3 training diverged, 130 interrupted.
    """


app.command(cls=Command, epilog="Example: seqloom init tag > tagger.toml")(training.init)
app.command(cls=ConfigurableCommand, epilog="Example: seqloom check tagger.toml")(training.check)
app.command(cls=ConfigurableCommand, epilog="Example: seqloom train tagger.toml train.epochs=5")(training.train)
app.command(cls=Command, epilog="Example: seqloom evaluate runs/tag test.conllu")(inference.evaluate)
app.command(cls=Command, epilog="Example: echo 'the clouds are in the sky' | seqloom predict runs/tag -")(
    inference.predict
)
app.command(cls=Command, epilog="Example: seqloom align runs/transcribe hello.wav 'hello world' --timings srt")(
    inference.align
)
app.command(cls=Command, epilog="Example: seqloom explain runs/translate 'le 14 juillet 1789' --beam")(
    inference.explain
)
app.command(cls=Command, epilog="Example: seqloom doctor runs/tag dev.conllu")(inference.doctor)
app.command(cls=Command, epilog="Example: seqloom generate runs/language_model 'KING:' --length 300 --temperature 0.8")(
    generation.generate
)
app.command(
    cls=ConfigurableCommand,
    epilog="Example: seqloom compare lm.toml base task.model=ngram task.decoder.cell=gru --seeds 3",
)(experiments.compare)
app.command(cls=ConfigurableCommand, epilog="Example: seqloom sweep tagger.toml sweep.trials=50")(experiments.sweep)
app.command(cls=Command, epilog="Example: seqloom lab vanishing seeds=5")(experiments.lab)
app.command(cls=Command, epilog="Example: seqloom demo tag")(builtin.demo)
app.command(cls=Command, epilog="Example: seqloom data python_tags")(builtin.data)
app.command(cls=Command, epilog="Example: seqloom synthesize words.txt sounds/synthetic --voices 200")(
    builtin.synthesize
)
app.command(cls=Command, epilog="Example: seqloom recombine train.tsv more.tsv --count 5000")(builtin.recombine)
app.command(cls=Command, epilog="Example: seqloom info runs/tag --anatomy")(builtin.info)
app.command(cls=Command, epilog="Example: seqloom plot curves runs/lstm runs/gru --output curves.svg")(plots.plot)
app.command(cls=Command, epilog="Example: seqloom quantize runs/tag runs/tag-int8")(inference.quantize)
app.command(cls=Command, epilog="Example: seqloom export runs/ngram model.arpa")(inference.export)
app.command(cls=Command, epilog="Example: seqloom serve runs/tag --port 8000")(serving.serve)
app.command(cls=Command, epilog="Example: seqloom studio runs")(serving.studio)
