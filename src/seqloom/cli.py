"""The command line. Every import that takes time stands inside the command that needs it."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom import __version__
from seqloom.bench.commands import bench
from seqloom.compare.command import compare
from seqloom.options import (
    Allowed,
    Also,
    AsJson,
    ConfigurableCommand,
    Configuration,
    Folder,
    Lag,
    Language,
    Layer,
    Lexicon,
    Overrides,
    RunFolder,
    Search,
    Stream,
    errors,
    print_json,
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench, name="bench", help="Measure ours side by side with others.")


def main() -> None:
    """Run the command line."""
    app(prog_name="seqloom")


def print_version(wanted: bool) -> None:  # noqa: FBT001
    if wanted:
        print(f"seqloom {__version__}")
        raise typer.Exit


@app.callback()
def seqloom(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Small sequence models on the machine you have.

    Exit codes: 0 done, 1 failed, 2 called wrongly, 3 the training diverged, 130 interrupted.
    """


@app.command(epilog="Example: seqloom init tag > tagger.toml")
def init(task: Annotated[str, typer.Argument(help="Such as tag; without it all are listed.")] = "") -> None:
    """Print a complete, commented configuration."""
    from seqloom import config, tasks

    with errors():
        if not task:
            for name in tasks.names():
                print(f"{name:16}{(tasks.find(name).__doc__ or '').splitlines()[0]}")
            return
        from seqloom.training.loop import Train

        kind = tasks.find(task)
        print(config.template({"task": kind, "train": Train}, kind.recommended), end="")


@app.command(cls=ConfigurableCommand, epilog="Example: seqloom check tagger.toml")
def check(config: Configuration, overrides: Overrides = None, *, as_json: AsJson = False) -> None:
    """Look at the data before training: counts, lengths, what is unseen, double or wrong."""
    from seqloom.check import examine, show
    from seqloom.model import Config, document

    with errors():
        report = examine(Config.build(document(config, overrides or [])))
        if as_json:
            print_json(asdict(report))
        else:
            show(report)
        if report.problems:
            raise typer.Exit(1)


@app.command(cls=ConfigurableCommand, epilog="Example: seqloom train tagger.toml train.epochs=5")
def train(
    config: Annotated[str, typer.Argument(help="A TOML file; see seqloom init.")] = "",
    overrides: Overrides = None,
    *,
    output: Annotated[Path | None, typer.Option(help="Folder of the run; runs/TASK if none is given.")] = None,
    resume: Annotated[Path | None, typer.Option(help="A run to go on with, bit for bit.")] = None,
    task: Annotated[str, typer.Option(help="Without a configuration: what to learn.")] = "",
    data: Annotated[str, typer.Option(help="Without a configuration: a file, or a folder with train and dev.")] = "",
    layer: Layer = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but errors.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model: progress, curves, best and last model in a new run.

    Ctrl-C stops and saves; --resume goes on. Several processes: torchrun --nproc-per-node 2 -m seqloom train CONFIG
    """
    from seqloom import terminal, workflow
    from seqloom.compare.outcome import outcome
    from seqloom.model import Config, document, find_layer

    with errors(), terminal.Watch(quiet=quiet or not workflow.leads()) as watch:
        given = find_layer(layer)
        if resume is None:
            settings = Config.build(document(config, overrides or [], task=task, data=data))
            run = workflow.train(settings, output=output, layer=given, listeners=[watch])
        elif config or overrides or task or data or output:
            raise ValueError("--resume takes the configuration of its run, and none besides")
        else:
            run = workflow.resume(resume, layer=given, listeners=[watch])
    with errors():
        if not workflow.leads():
            return
        found = outcome(run)
        if as_json:
            print_json({"run": str(run.path), **found})
        elif not quiet:
            terminal.table(("run", str(run.path)), terminal.numbers(found))


@app.command(epilog="Example: seqloom evaluate runs/tag test.conllu")
def evaluate(
    run: RunFolder,
    file: Annotated[str, typer.Argument(help="Labelled data.")],
    *,
    layer: Layer = "",
    search: Search = "",
    allowed: Allowed = "",
    lexicon: Lexicon = "",
    language: Language = "",
    folder: Folder = "",
    also: Also = None,
    restrict: Annotated[
        int, typer.Option(min=0, help="Only so many of the most frequent words count; of analogies. 0: all.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Score a trained model on labelled data, with intervals of confidence."""
    from seqloom import terminal
    from seqloom.model import find_layer, load

    with errors():
        given: dict[str, Any] = {"allowed": allowed, "lexicon": lexicon, "language": language, "folder": folder}
        model = load(run, layer=find_layer(layer), search=search, also=also or [], **given)
        found = model.evaluate(file, restrict=restrict)
        if as_json:
            print_json(found)
        else:
            terminal.table(("metric", "value"), terminal.numbers(found))
            terminal.mistakes(found)


@app.command(epilog="Example: echo 'the clouds are in the sky' | seqloom predict runs/tag -")
def predict(
    run: RunFolder,
    file: Annotated[str, typer.Argument(help="Data without labels; - is standard input.")] = "-",
    *,
    file_format: Annotated[str, typer.Option("--format", help="Of this file, if not that of the training.")] = "",
    encoding: Annotated[str, typer.Option(help="Likewise, such as latin-1.")] = "",
    layer: Layer = "",
    search: Search = "",
    allowed: Allowed = "",
    lexicon: Lexicon = "",
    language: Language = "",
    folder: Folder = "",
    also: Also = None,
    stream: Stream = False,
    lag: Lag = 2.0,
    vectors: Annotated[bool, typer.Option("--vectors", help="Of each word, by a language model both ways.")] = False,
    batch: Annotated[int, typer.Option(min=1, help="Sequences answered together.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each answer.")] = False,
) -> None:
    """Answer for each sequence of a file, or of standard input as it comes."""
    from seqloom.listen import transcribe
    from seqloom.model import find_layer, load

    with errors():
        guided: dict[str, Any] = {"allowed": allowed, "lexicon": lexicon, "language": language, "folder": folder}
        model = load(run, layer=find_layer(layer), search=search, also=also or [], **guided)
        if stream:
            if file != "-":
                raise ValueError(f"--stream hears standard input, which is -, and the file is {file}")
            for piece in transcribe(model, sys.stdin.buffer, lag=lag, as_json=as_json):
                print(piece, end="", flush=True)
            return
        together = 1 if file == "-" and sys.stdin.isatty() else batch
        given = {name: value for name, value in (("format", file_format), ("encoding", encoding)) if value}
        for answers in model.stream(file, batch=together, vectors=vectors, **given):
            for answer in answers:
                print(json.dumps(asdict(answer)) if as_json else answer)
            sys.stdout.flush()


@app.command(epilog="Example: seqloom explain runs/translate 'le 14 juillet 1789' --beam")
def explain(
    run: RunFolder,
    source: Annotated[
        list[str], typer.Argument(help="Texts, or - for standard input; of vectors, images and sound, files.")
    ],
    *,
    output: Annotated[Path | None, typer.Option(help="Folder for pictures; RUN/explain if none is given.")] = None,
    beam: Annotated[bool, typer.Option("--beam", help="Show the search as a tree: why each branch ended.")] = False,
    heads: Annotated[bool, typer.Option("--all", help="Draw every layer and head of the attention.")] = False,
    gates: Annotated[bool, typer.Option("--gates", help="Draw the gates of recurrent layers.")] = False,
    search: Search = "",
    lexicon: Lexicon = "",
    language: Language = "",
    layer: Layer = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each source.")] = False,
) -> None:
    """Show what is behind an answer: where the model looked, what else it considered, how sure it was."""
    from seqloom.explain import explain_all
    from seqloom.model import find_layer, load

    with errors():
        model = load(run, layer=find_layer(layer), search=search, lexicon=lexicon, language=language)
        explain_all(model, source, output or run / "explain", beam=beam, heads=heads, gates=gates, as_json=as_json)


@app.command(epilog="Example: seqloom generate runs/language_model 'KING:' --length 300 --temperature 0.8")
def generate(
    run: RunFolder,
    prompt: Annotated[str, typer.Argument(help="How the text begins.")] = "",
    *,
    length: Annotated[int, typer.Option(min=1, help="Symbols to draw.")] = 300,
    temperature: Annotated[
        float, typer.Option(min=0, help="Below 1 safer, above 1 wilder; 0: the most probable.")
    ] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from the k most probable; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the most probable with this share together.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Draw from those at least this share as probable as the best.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 1,
    layer: Layer = "",
) -> None:
    """Draw text from a language model; it appears as it is drawn."""
    from seqloom.decoding.tokens.sample import Sample
    from seqloom.model import find_layer, load

    with errors():
        sample = Sample(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
        model = load(run, layer=find_layer(layer))
        for number, piece in enumerate(model.generate(prompt, length=length, sample=sample)):
            print(piece if number else prompt + piece, end="", flush=True)
        print()


app.command(
    cls=ConfigurableCommand,
    epilog="Example: seqloom compare lm.toml base task.model=ngram task.decoder.cell=gru --seeds 3",
)(compare)


@app.command(epilog="Example: seqloom demo tag")
def demo(
    task: Annotated[str, typer.Argument(help="A task, or memory: how far back networks remember.")] = "translate",
    *,
    output: Annotated[Path, typer.Option(help="Folder for what it makes.")] = Path("runs"),
    seed: Annotated[int, typer.Option(help="Of the random numbers: the same seed, the same result.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it works.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train, evaluate and use a first model in about a minute; needs no data."""
    from seqloom.demo import run

    with errors():
        found = run(task, output=output, seed=seed, quick=quick, quiet=as_json)
        if as_json:
            print_json(found)


@app.command(epilog="Example: seqloom data python_tags python_tags")
def data(
    name: Annotated[str, typer.Argument(help="Such as python_tags; without it all are listed.")] = "",
    folder: Annotated[Path | None, typer.Argument(help="Where to write them; ./NAME if none is given.")] = None,
) -> None:
    """Write data that come with Seqloom: train, dev and test files to try things with."""
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
    run: Annotated[Path | None, typer.Argument(help="A run; without it, the machine.")] = None,
    *,
    layer: Layer = "",
    as_json: AsJson = False,
) -> None:
    """Show versions, machine and fused cells, or what a run is and reached."""
    from seqloom import terminal
    from seqloom.info import collect, show

    if run is not None:
        from seqloom.compare.outcome import describe
        from seqloom.model import find_layer

        with errors():
            described = describe(run, layer=find_layer(layer))
            if as_json:
                print_json(described)
            else:
                terminal.table(("what", "found"), terminal.numbers(described))
        return
    found = collect()
    if as_json:
        print_json(asdict(found))
        return
    show(found)


@app.command(epilog="Example: seqloom export runs/ngram model.arpa")
def export(
    run: RunFolder, file: Annotated[Path, typer.Argument(help=".arpa, .arpa.gz; .txt, .vec, .bin of word vectors.")]
) -> None:
    """Write a trained model in a format of the field."""
    from seqloom.model import load

    with errors():
        load(run).export(file)
