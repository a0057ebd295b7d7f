"""The benchmarks as commands."""

from typing import Annotated

import typer

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer shapes and repetitions.")]


@bench.command("recurrent", epilog="Example: seqloom bench recurrent --quick")
def bench_recurrent(
    *,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Recurrent layers against torch.nn and a plain loop."""
    from seqloom.bench import recurrent

    recurrent.main(quick=quick, as_json=as_json)


@bench.command("training", epilog="Example: seqloom bench training --quick")
def bench_training(
    *,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Whole trainings, a language model and a tagger, against plain torch programs."""
    from seqloom.bench import training

    training.main(quick=quick, as_json=as_json)


@bench.command("translate", epilog="Example: seqloom bench translate --quick")
def bench_translate(
    *,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Translation, its search, and sampling, against those peers that are installed."""
    from seqloom.bench import translate

    translate.main(quick=quick, as_json=as_json)


@bench.command("ctc", epilog="Example: seqloom bench ctc --quick")
def bench_ctc(
    *,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """The loss of CTC and its searches, against those peers that are installed."""
    from seqloom.bench import ctc

    ctc.main(quick=quick, as_json=as_json)


@bench.command("embed", epilog="Example: seqloom bench embed --quick")
def bench_embed(
    *,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Word vectors against gensim: speed, quality, memory; SEQLOOM_DATA names the folder of the text."""
    from seqloom.bench import embed

    embed.main(quick=quick, as_json=as_json)
