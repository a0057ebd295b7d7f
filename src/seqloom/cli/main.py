"""The commands of ``seqloom``. Slow imports are inside the command that needs them."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqloom import __version__
from seqloom.cli.completion import complete_run, complete_task
from seqloom.cli.options import (
    AsJson,
    ConfigurableCommand,
    Configuration,
    Constrain,
    DataFiles,
    Ensemble,
    Folder,
    Lag,
    LanguageModel,
    Layer,
    Lexicon,
    Overrides,
    Rate,
    RunFolder,
    Search,
    Stream,
    TaskName,
    errors,
)

if TYPE_CHECKING:
    from seqloom.model import Model

MAX_TRIALS = 20
"""Rows of the table that ``seqloom sweep`` prints."""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    app(prog_name="seqloom")


def _load(run: Path, layer: str = "", ensemble: Ensemble = None, **options: Any) -> "Model":
    """The model of a run; ``options`` are further ones of ``seqloom.load``."""
    from seqloom import terminal
    from seqloom.model import load
    from seqloom.run_config import find_layer

    model = load(run, layer=find_layer(layer), ensemble=ensemble or [], **options)
    for note in model.task.prediction_notes:
        terminal.print_note(note)
    return model


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


@app.command(epilog="Example: seqloom init tag > tagger.toml")
def init(
    task: Annotated[
        str, typer.Argument(help="Task, such as tag; omit it to list all tasks.", autocompletion=complete_task)
    ] = "",
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema, with which editors complete and check the file.")
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print the short configuration that seqloom demo uses.")
    ] = False,
    data: Annotated[
        str, typer.Option(help="Training file, or folder with a train and a dev file, to choose defaults for.")
    ] = "",
) -> None:
    """Print a configuration with a comment for each key, or its JSON Schema for editors."""
    from seqloom import examples, tasks

    with errors():
        if example:
            print(examples.text(task) if task else examples.listing(), end="")
            return
        if not task:
            for name in tasks.names():
                print(f"{name:16}{(tasks.find(name).__doc__ or '').splitlines()[0]}")
            return
        from seqloom.run_config import config_template

        if schema:
            from seqloom.tuning.schema import config_schema

            print(json.dumps(config_schema(task), indent=2, ensure_ascii=False))
            return
        template = config_template(task, data=data)
        print(f"#:schema ./{task}.schema.json")
        print(f"# For completion and checks in an editor: seqloom init {task} --schema > {task}.schema.json\n")
        print(template, end="")


@app.command(cls=ConfigurableCommand, epilog="Example: seqloom check tagger.toml")
def check(
    config: Configuration = "",
    overrides: Overrides = None,
    *,
    task: TaskName = "",
    data: DataFiles = "",
    learning_rate: Annotated[
        bool,
        typer.Option("--learning-rate", help="Suggest a learning rate instead: train briefly with rising ones."),
    ] = False,
    output: Annotated[
        Path, typer.Option(help="With --learning-rate: file for the curve, such as .png, .svg or .pdf.")
    ] = Path("learning_rate.png"),
    as_json: AsJson = False,
) -> None:
    """Look for problems in data and configuration. Reports sizes, lengths, unknown tokens, duplicates and errors."""
    from seqloom import terminal
    from seqloom.check import check_data, print_report
    from seqloom.learning_rate_finder import find_learning_rate, print_test
    from seqloom.run_config import Config, read_document

    with errors():
        settings = Config.build(read_document(config, overrides or [], task=task, data=data))
        if learning_rate:
            test = find_learning_rate(settings)
            if as_json:
                terminal.print_json(asdict(test))
            else:
                print_test(test, output)
            return
        report = check_data(settings)
        if as_json:
            terminal.print_json(asdict(report))
        else:
            print_report(report)
        if report.problems:
            raise typer.Exit(1)


@app.command(cls=ConfigurableCommand, epilog="Example: seqloom train tagger.toml train.epochs=5")
def train(
    config: Configuration = "",
    overrides: Overrides = None,
    *,
    output: Annotated[Path | None, typer.Option(help="New folder for the run; default: runs/TASK.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Run to resume; the result equals that of an uninterrupted run. A finished run continues if a limit "
            "is raised, such as train.epochs=30.",
            autocompletion=complete_run,
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option("--from", help="Run whose weights a new run starts from.", autocompletion=complete_run),
    ] = None,
    vocabulary: Annotated[
        Literal["shared", "mapped"],
        typer.Option(
            help="With --from: shared uses the vocabulary of that run; mapped uses that of the new data, with the "
            "weights of all tokens that both have."
        ),
    ] = "shared",
    task: TaskName = "",
    data: DataFiles = "",
    layer: Layer = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model. Its checkpoints, metrics and learning curves are written to a new run folder.

    Ctrl-C saves and stops; --resume continues. Several processes: torchrun --nproc-per-node 2 -m seqloom train CONFIG
    """
    from seqloom import terminal, workflow
    from seqloom.run_config import Config, find_layer, load_config, read_document
    from seqloom.run_summary import print_summary, summarize

    with errors(), terminal.TrainingProgress(quiet=quiet or not workflow.is_main_process()) as progress:
        custom_layer = find_layer(layer)
        if resume is None:
            settings = Config.build(read_document(config, overrides or [], task=task, data=data))
            run = workflow.train(
                settings,
                output=output,
                layer=custom_layer,
                start_from=start_from,
                vocabulary=vocabulary,
                listeners=[progress],
            )
        elif ("=" not in config and config) or task or data or output or start_from:
            raise ValueError(
                "--resume uses the configuration of the run: remove all other arguments but --layer and changes such "
                "as train.epochs=30"
            )
        else:
            changes = [*filter(None, [config]), *(overrides or [])]
            run = workflow.resume(resume, changes, layer=custom_layer, listeners=[progress])
            if not (progress.started or progress.quiet):
                print(f"{resume}: training is complete; nothing is left to do", file=sys.stderr)
    with errors():
        if not workflow.is_main_process():
            return
        summary = summarize(run, load_config(run))
        if as_json:
            baseline = {"name": summary.baseline, **summary.baseline_scores}
            terminal.print_json({"run": summary.path, **summary.metrics, "baseline": baseline})
        elif not quiet:
            print_summary(summary, run.details())


@app.command(epilog="Example: seqloom evaluate runs/tag test.conllu")
def evaluate(
    run: RunFolder,
    file: Annotated[str, typer.Argument(help="File with labelled data.")],
    *,
    layer: Layer = "",
    search: Search = "",
    constrain: Constrain = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    folder: Folder = "",
    ensemble: Ensemble = None,
    top_words: Annotated[
        int, typer.Option(min=0, help="Evaluate word vectors on this many of the most frequent words (0: all).")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Score a model on labelled data. Prints its metrics with 95 % confidence intervals."""
    from seqloom import terminal

    with errors():
        model = _load(run, layer, ensemble, search=search, constrain=constrain, lexicon=lexicon, lm=lm, folder=folder)
        metrics = model.evaluate(file, top_words=top_words)
        if as_json:
            terminal.print_json(metrics)
        else:
            baseline = metrics.get("baseline", {})
            terminal.print_scores(metrics, baseline, source="value")
            if baseline:
                terminal.print_wrapped(f"Baseline: {baseline['name']}.")
            terminal.print_details(metrics)


@app.command(epilog="Example: echo 'the clouds are in the sky' | seqloom predict runs/tag -")
def predict(
    run: RunFolder,
    file: Annotated[
        list[str] | None, typer.Argument(help="Files with input data; - for standard input, the default.")
    ] = None,
    *,
    file_format: Annotated[
        str, typer.Option("--format", help="Input format, if it differs from that of the training data.")
    ] = "",
    encoding: Annotated[
        str,
        typer.Option(help="Text encoding of the input, such as latin-1, if it differs from that of the training data."),
    ] = "",
    layer: Layer = "",
    search: Search = "",
    constrain: Constrain = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    folder: Folder = "",
    ensemble: Ensemble = None,
    stream: Stream = False,
    lag: Lag = 2.0,
    rate: Rate = 0,
    vectors: Annotated[bool, typer.Option("--vectors", help="Print contextual word vectors.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences per batch.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per prediction.")] = False,
) -> None:
    """Predict from files or from standard input. Standard input is answered line by line.

    With several files, each answer follows the name of its file.
    """
    from seqloom import terminal
    from seqloom.cli.predictions import PredictionPrinter, expand_patterns
    from seqloom.streaming import transcribe_stream

    files = expand_patterns(file or ["-"])
    with errors():
        model = _load(run, layer, ensemble, search=search, constrain=constrain, lexicon=lexicon, lm=lm, folder=folder)
        if rate and not stream:
            raise ValueError("--rate is the sample rate of raw audio for --stream; files say theirs")
        if stream:
            if files != ["-"]:
                raise ValueError(f"--stream reads from standard input: give - instead of {files[0]}")
            pieces = transcribe_stream(
                model, sys.stdin.buffer, rate=rate, lag=lag, as_json=as_json, note=terminal.print_note
            )
            for piece in pieces:
                print(piece, end="", flush=True)
            return
        interactive = files == ["-"] and sys.stdin.isatty()
        printer = PredictionPrinter(model.task, as_json=as_json, names=len(files) > 1, interactive=interactive)
        examples = printer.watch((name, model.read(name, file_format=file_format, encoding=encoding)) for name in files)
        size = 1 if interactive else batch_size
        if files == ["-"] and not file_format and model.task.answers_each_line:
            batches = model.predict_lines(examples, batch_size=size, vectors=vectors)
        else:
            batches = (model.embed_batches if vectors else model.predict_batches)(examples, batch_size=size)
        for predictions in batches:
            printer.print(predictions)
        printer.finish()


@app.command(epilog="Example: seqloom explain runs/translate 'le 14 juillet 1789' --beam")
def explain(
    run: RunFolder,
    source: Annotated[
        list[str],
        typer.Argument(help="Texts, or - for standard input; for vectors, images and audio: files."),
    ],
    *,
    output: Annotated[Path | None, typer.Option(help="Folder for plots; default: RUN/explain.")] = None,
    beam: Annotated[
        bool, typer.Option("--beam", help="Show the beam search as a tree, and why each branch ended.")
    ] = False,
    heads: Annotated[bool, typer.Option("--heads", help="Plot every layer and head of the attention.")] = False,
    gates: Annotated[bool, typer.Option("--gates", help="Plot the gates of recurrent layers.")] = False,
    plots: Annotated[str, typer.Option(help="Format of the plots: png, svg or pdf.")] = "png",
    search: Search = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    layer: Layer = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per source.")] = False,
) -> None:
    """Explain a prediction. Shows attention, alternatives and the probability of each part, as text and plots."""
    from seqloom.explain import explain_all

    with errors():
        model = _load(run, layer, search=search, lexicon=lexicon, lm=lm)
        options = {"beam": beam, "heads": heads, "gates": gates, "as_json": as_json}
        explain_all(model, source, output or run / "explain", suffix=f".{plots.lower().lstrip('.')}", **options)


@app.command(epilog="Example: seqloom generate runs/language_model 'KING:' --length 300 --temperature 0.8")
def generate(
    run: RunFolder,
    prompt: Annotated[str, typer.Argument(help="Beginning of the text.")] = "",
    *,
    length: Annotated[int, typer.Option(min=1, help="Number of tokens to generate.")] = 300,
    temperature: Annotated[
        float, typer.Option(min=0, help="Sampling temperature (0: always the most probable token).")
    ] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Sample from the k most probable tokens (0: all).")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Sample from the most probable tokens that add up to this probability (1: all).")
    ] = 1.0,
    min_p: Annotated[
        float, typer.Option(help="Sample from tokens with at least this fraction of the highest probability (0: all).")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 1,
    layer: Layer = "",
) -> None:
    """Generate text with a language model. Prints each token as soon as it is sampled."""
    from seqloom.decoding.tokens.sample import Sample

    with errors():
        sample = Sample(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
        model = _load(run, layer)
        for number, piece in enumerate(model.generate(prompt, length=length, sample=sample)):
            print(piece if number else prompt + piece, end="", flush=True)
        print()


@app.command(
    cls=ConfigurableCommand,
    epilog="Example: seqloom compare lm.toml base task.model=ngram task.decoder.cell=gru --seeds 3",
)
def compare(
    config: Configuration,
    variants: Annotated[
        list[str] | None, typer.Argument(help="Variants: comma-separated changes, a .toml file, or base (no changes).")
    ] = None,
    *,
    minutes: Annotated[
        float, typer.Option(min=0, help="Training budget of each run in minutes (0: as configured).")
    ] = 0.0,
    tokens: Annotated[int, typer.Option(min=0, help="Training budget of each run in tokens (0: as configured).")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per variant, each with another random seed.")] = 1,
    folds: Annotated[
        int, typer.Option(min=0, help="Folds of a cross-validation on the training file (0: no cross-validation).")
    ] = 0,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--override", help="Change for all variants, such as train.epochs=5; repeatable."),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option("--layer", help="Variant with a custom layer or cell, as module:name; repeatable."),
    ] = None,
    match_parameters: Annotated[
        bool,
        typer.Option("--match-parameters", help="Change hidden_size so that all variants are as large as the first."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the runs and the table; finished runs in it are not repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train variants at equal budget and compare them. Prints scores, speed and memory in a table.

    Each variant is compared with the first one: example by example, or fold by fold with --folds.
    """
    from seqloom import terminal
    from seqloom.comparison import compare as comparison
    from seqloom.comparison import table
    from seqloom.interrupt import Interrupted
    from seqloom.workflow import unused_folder

    with errors():
        folder = output or unused_folder(comparison.OUTPUT)
        try:
            result = comparison.compare(
                config,
                [*(variants or []), *(f"layer={layer}" for layer in layers or [])],
                overrides or [],
                minutes=minutes,
                tokens=tokens,
                seeds=seeds,
                folds=folds,
                match_parameters=match_parameters,
                output=folder,
            )
        except Interrupted:
            typer.echo(f"stopped and saved; continue with the same command and --output {folder}", err=True)
            raise typer.Exit(130) from None
        if as_json:
            terminal.print_json(result.rows)
        else:
            terminal.table(*table.format_table(result.rows))
            plot = f", learning curves to {result.plot}" if result.plot else ""
            terminal.print_lines("", *result.footnotes(), f"Table written to {folder / 'compare.md'}{plot}")
        if any(row["errors"] for row in result):
            raise typer.Exit(1)


@app.command(cls=ConfigurableCommand, epilog="Example: seqloom sweep tagger.toml sweep.trials=50")
def sweep(
    config: Annotated[
        str, typer.Argument(help="TOML file with a table [sweep], or the folder of a sweep to continue or join.")
    ],
    overrides: Overrides = None,
    *,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the sweep; an existing sweep is continued or joined.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train with many settings and find the best. Prints the trials and the importance of each key.

    Ctrl-C saves and stops; the same command with --output continues, and further processes may join.
    """
    from seqloom import terminal
    from seqloom.interrupt import Interrupted
    from seqloom.tuning.sweep import sweep as run_sweep

    with errors():
        try:
            result = run_sweep(config, overrides or [], output=output)
        except Interrupted as interrupted:
            typer.echo(f"stopped and saved; continue with: seqloom sweep {interrupted}", err=True)
            raise typer.Exit(130) from None
        if as_json:
            terminal.print_json(json.loads((result.path / "sweep.json").read_text(encoding="utf-8")))
        else:
            columns, rows = result.table()
            terminal.table(columns, rows[:MAX_TRIALS])
            terminal.print_lines(*[f"and {len(rows) - MAX_TRIALS} more trials"] * (len(rows) > MAX_TRIALS), "")
            if result.importance:
                terminal.table(*result.importance_table())
                terminal.print_lines("")
            terminal.print_lines(*result.notes(), f"Tables and plots written to {result.path}")
            if result.best:
                terminal.print_lines(
                    f"Best model:      seqloom info {result.best_run}",
                    f"Train it again:  seqloom train {result.best_config}",
                )
        if result.best is None:
            raise typer.Exit(1)


@app.command(epilog="Example: seqloom demo tag")
def demo(
    task: Annotated[
        str,
        typer.Argument(help="Task, or memory: how far back recurrent networks remember.", autocompletion=complete_task),
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


@app.command(epilog="Example: seqloom data python_tags")
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


@app.command(epilog="Example: seqloom info runs/tag")
def info(
    run: Annotated[
        Path | None,
        typer.Argument(help="Folder of a training run; omit it to describe this machine.", autocompletion=complete_run),
    ] = None,
    *,
    layer: Layer = "",
    as_json: AsJson = False,
) -> None:
    """Show versions and hardware, or describe a run. Without a run, also lists which cells are fused."""
    from seqloom import info as information
    from seqloom import terminal
    from seqloom.run_config import find_layer

    with errors():
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


@app.command(epilog="Example: seqloom export runs/ngram model.arpa")
def export(
    run: RunFolder,
    file: Annotated[
        Path, typer.Argument(help="Output: .arpa or .arpa.gz for n-grams; .txt, .vec or .bin for word vectors.")
    ],
) -> None:
    """Export a model for other programs. Writes n-grams as ARPA files and word vectors as word2vec files."""
    with errors():
        _load(run).export(file)
