"""Demos, data sets that are built in or made from yours, versions and hardware."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.completion import complete_run, complete_task
from seqloom.cli.options import (
    AsJson,
    Layer,
    PlotTheme,
    errors,
)


def demo(
    task: Annotated[
        str,
        typer.Argument(help="Task.", autocompletion=complete_task),
    ] = "translate",
    *,
    output: Annotated[Path, typer.Option(help="Folder for the data and the run.")] = Path("runs"),
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same result.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Train for a few seconds only; the scores will be poor.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train and use a small model on built-in data. Takes about a minute."""
    from seqloom import terminal
    from seqloom.demos.runner import run

    with errors():
        results = run(task, output=output, seed=seed, quick=quick, quiet=as_json)
        if as_json:
            terminal.print_json(results)


def data(
    name: Annotated[str, typer.Argument(help="Data set, such as python_tags; omit it to list all data sets.")] = "",
    folder: Annotated[Path | None, typer.Argument(help="Output folder; default: NAME in the current folder.")] = None,
) -> None:
    """Write a built-in data set: train, dev and test files."""
    from seqloom.data.builtin import datasets

    with errors():
        if not name:
            for known, build in datasets.BUILDERS.items():
                print(f"{known:16}{(build.__doc__ or '').splitlines()[0]}")
            return
        for path in datasets.build(name, folder or Path(name)):
            print(path)


def synthesize(
    texts: Annotated[
        Path, typer.Argument(help="File with the texts, one per line; after a tab, optionally the label in the list.")
    ],
    folder: Annotated[Path, typer.Argument(help="Folder of the recordings; their list is FOLDER.tsv beside it.")],
    *,
    voices: Annotated[int, typer.Option(min=1, help="Number of voices; each of them speaks all texts.")] = 100,
    accents: Annotated[
        str, typer.Option(help="Language of espeak-ng, all accents of which are used, or one accent, such as en-us.")
    ] = "en",
    rate: Annotated[int, typer.Option(min=1000, help="Samples per second.")] = 16000,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same voices.")] = 1,
) -> None:
    """Speak texts with many synthetic voices.

    espeak-ng speaks them. The recordings are further speakers for the training of classify and transcribe.
    """
    from seqloom.data import synthetic_speech

    with errors():
        chosen = synthetic_speech.choose_voices(voices, accents=accents, seed=seed)
        print(synthetic_speech.synthesize(synthetic_speech.read_texts(texts), folder, voices=chosen, rate=rate))


def recombine(
    pairs: Annotated[
        str,
        typer.Argument(help="File of pairs in a format of the task translate, or two files: train.{en,de}."),
    ],
    output: Annotated[Path, typer.Argument(help="TSV file to write: the same pairs, followed by the new ones.")],
    *,
    count: Annotated[int, typer.Option(min=0, help="Number of new pairs (0: as many as the file has).")] = 0,
    max_source: Annotated[int, typer.Option(min=1, help="Most words of a phrase of the source.")] = 3,
    max_target: Annotated[int, typer.Option(min=1, help="Most words of its translation.")] = 8,
    any_length: Annotated[
        bool,
        typer.Option("--any-length", help="Also exchange phrases that have different numbers of words in the source."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same pairs.")] = 1,
) -> None:
    """Make new training pairs by exchanging phrases.

    Phrases that occur in the same place of two pairs are exchanged elsewhere, with their translations (Andreas 2020).
    """
    from seqloom.data.readers.text_files import pluralize, resolve
    from seqloom.data.recombination import recombine_file

    with errors():
        known, new = recombine_file(
            resolve(pairs),
            output,
            count=count,
            max_source=max_source,
            max_target=max_target,
            same_length=not any_length,
            seed=seed,
        )
        note = "" if new >= (count or known) else "; others were not found"
        print(f"{output}: {pluralize(known, 'pair')} and {new:,} new{note}")


def info(
    run: Annotated[
        Path | None,
        typer.Argument(help="Folder of a training run; omit it to describe this machine.", autocompletion=complete_run),
    ] = None,
    *,
    anatomy: Annotated[
        bool, typer.Option("--anatomy", help="Show the parts of the model with their widths and parameters.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="With --anatomy: draw the parts to this .png, .svg or .pdf file.")
    ] = None,
    theme: PlotTheme = "",
    layer: Layer = "",
    as_json: AsJson = False,
) -> None:
    """Show versions and hardware, or describe a run. Without a run, also lists which cells are fused."""
    from seqloom import info as information
    from seqloom import terminal
    from seqloom.run_config import find_layer

    with errors():
        if anatomy and run is None:
            raise ValueError("--anatomy shows the parts of a model: give the folder of a run")
        if (output is not None or theme) and not anatomy:
            raise ValueError(f"--{'output' if output is not None else 'theme'} needs --anatomy")
        if run is not None and anatomy:
            _show_anatomy(run, output, theme=theme, layer=layer, as_json=as_json)
            return
        if run is not None:
            if as_json:
                terminal.print_json(information.describe_run(run, layer=find_layer(layer)))
            else:
                information.print_run(run, layer=find_layer(layer))
            return
        machine = information.machine_info()
        if as_json:
            terminal.print_json(asdict(machine))
        else:
            information.print_machine_info(machine)


def _show_anatomy(run: Path, output: Path | None, *, theme: str, layer: str, as_json: bool) -> None:
    from seqloom import info as information
    from seqloom import terminal
    from seqloom.insight.model_parts import print_anatomy
    from seqloom.run_config import find_layer

    root = information.run_anatomy(run, layer=find_layer(layer))
    if output is not None:
        information.draw_run_anatomy(root, run, output, theme=theme)
    if as_json:
        terminal.print_json({**root.to_dict(), **({"plot": str(output)} if output is not None else {})})
        return
    print_anatomy(root)
    terminal.print_lines("", f"Plot: {output}" if output is not None else "Draw it:  --output anatomy.png")
