"""Commands that use a trained model. Slow imports are inside the command that needs them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import (
    AsJson,
    Captions,
    Constrain,
    Ensemble,
    Folder,
    Lag,
    LanguageModel,
    Layer,
    Lexicon,
    PlotTheme,
    Rate,
    RunFolder,
    RunFolders,
    Search,
    SentencePooling,
    Stream,
    Timings,
    TimingsFolder,
    errors,
)
from seqloom.formats import visible

if TYPE_CHECKING:
    from seqloom.metrics.learning import Remedies
    from seqloom.model import Model


def load_model(run: Path, layer: str = "", ensemble: Ensemble = None, **options: Any) -> "Model":
    """The model of a run; ``options`` are further ones of ``seqloom.load``."""
    from seqloom import terminal
    from seqloom.model import load
    from seqloom.run_config import find_layer

    model = load(run, layer=find_layer(layer), ensemble=ensemble or [], **options)
    for note in model.task.prediction_notes:
        terminal.print_note(note)
    return model


def evaluate(
    run: RunFolders,
    file: Annotated[str, typer.Argument(help="File with labelled data.")],
    *,
    by: Annotated[
        str, typer.Option(metavar="length", help="Score bins of examples: length shows the metric by input length.")
    ] = "",
    bins: Annotated[
        str, typer.Option(help="With --by: largest length of each bin, such as 10,20,40 (default: quantiles).")
    ] = "",
    backtest: Annotated[
        bool, typer.Option("--backtest", help="forecast: score forecasts from several origins, by horizon and origin.")
    ] = False,
    step: Annotated[int, typer.Option(min=0, help="With --backtest: time steps between origins (0: the horizon).")] = 0,
    origins: Annotated[
        int, typer.Option(min=0, help="With --backtest: number of origins, the last ones (0: all).")
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(help="With --by or --backtest: file of the picture, .png, .svg or .pdf (default: in RUN)."),
    ] = None,
    theme: PlotTheme = "",
    layer: Layer = "",
    search: Search = "",
    constrain: Constrain = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    folder: Folder = "",
    captions: Captions = "",
    ensemble: Ensemble = None,
    top_words: Annotated[
        int, typer.Option(min=0, help="Evaluate word vectors on this many of the most frequent words (0: all).")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Score a model on labelled data. Prints its metrics with 95 % confidence intervals.

    With --by length, several runs can be given, whose scores are drawn in one picture. With --backtest, a forecaster
    predicts from several origins as if the rest were not known yet; it is not trained again.
    """
    from seqloom import terminal
    from seqloom.data.readers.text_files import pluralize
    from seqloom.tasks.forecast.verdict import compare_with_baselines

    with errors():
        files = {"constrain": constrain, "lexicon": lexicon, "lm": lm, "folder": folder, "captions": captions}
        draws = bool(by) or backtest
        _check_grouping(run, by=by, bins=bins, top_words=top_words, backtest=backtest)
        if not draws and (output is not None or theme):
            raise ValueError(f"--{'theme' if theme else 'output'} needs --by length or --backtest")
        if not backtest and (step or origins):
            raise ValueError(f"--{'step' if step else 'origins'} needs --backtest")
        models = [load_model(path, layer, ensemble, search=search, **files) for path in run]
        if by:
            _report_by_length(run, models, file, bins=bins, output=output, theme=theme, as_json=as_json)
            return
        (model,) = models
        if backtest:
            remedies = _remedies(run[0], model)
            _report_backtest(
                model, file, step, origins, output or run[0], remedies=remedies, theme=theme, as_json=as_json
            )
            return
        metrics = model.evaluate(file, top_words=top_words)
        if trained := metrics.get("in_train"):
            terminal.print_warning(
                f"{file}: the model was trained on {pluralize(trained, 'example')} of this file, so that the scores do "
                "not show how well it does on new data"
            )
        terminal.print_data_warnings(file, metrics.get("warnings", []))
        if unseen := model.task.describe_unseen(metrics):
            terminal.print_warning(f"{file}: labels that do not occur in the training data count as errors: {unseen}")
        if as_json:
            terminal.print_json(metrics)
        else:
            baseline = metrics.get("baseline", {})
            sentences = [_describe_baseline(baseline)] if baseline else []
            if baselines := metrics.get("baselines"):
                overfitting = _remedies(run[0], model).overfitting
                verdict = compare_with_baselines(metrics, baselines, overfitting=overfitting)
                sentences = [verdict]
            terminal.print_results(metrics, baseline, source="value", sentences=sentences)


def _remedies(run: Path, model: "Model") -> "Remedies":
    """What to change about the training of a run."""
    from seqloom.run import Run
    from seqloom.run_summary import remedies

    return remedies(Run.open(run), model.config)


def _describe_baseline(baseline: Mapping[str, Any]) -> str:
    """What the baseline does, and whether the difference from it is significant."""
    if "p_value" not in baseline:
        return f"Baseline: {baseline['name']}."
    return f"Baseline: {baseline['name']}; the difference has p = {baseline['p_value']:.2g} in a paired test."


def _report_backtest(
    model: "Model",
    file: str,
    step: int,
    origins: int,
    output: Path,
    *,
    remedies: "Remedies",
    theme: str,
    as_json: bool,
) -> None:
    from seqloom.cli.backtests import print_backtest
    from seqloom.insight.plotting import check_theme, plot_theme

    settings = model.config.train
    picture = output / f"backtest.{settings.plot_format}" if output.is_dir() else output
    with plot_theme(check_theme(theme or settings.plot_theme)):
        print_backtest(
            model, file, step=step, origins=origins, picture=picture, overfitting=remedies.overfitting, as_json=as_json
        )


def _check_grouping(runs: Sequence[Path], *, by: str, bins: str, top_words: int, backtest: bool) -> None:
    """Raise ValueError for options of ``evaluate`` that do not fit together."""
    if by not in ("", "length"):
        raise ValueError(f"--by: expected length, got {by!r}")
    if by and top_words:
        raise ValueError("--top-words: word vectors are not evaluated by length")
    if by and backtest:
        raise ValueError("--by and --backtest exclude each other")
    if not by and bins:
        raise ValueError("--bins needs --by length")
    if not by and len(runs) > 1:
        raise ValueError(f"found {len(runs)} runs: --by length compares several, otherwise give one")


def _report_by_length(
    runs: Sequence[Path],
    models: "Sequence[Model]",
    file: str,
    *,
    bins: str,
    output: Path | None,
    theme: str,
    as_json: bool,
) -> None:
    from seqloom.insight.plotting import check_theme, plot_theme
    from seqloom.length_report import report_by_length
    from seqloom.metrics.length_bins import parse_bins

    settings = models[0].config.train
    with plot_theme(check_theme(theme or settings.plot_theme)):
        report_by_length(
            models,
            file,
            names=[str(run.resolve()) for run in runs],
            bins=parse_bins(bins),
            output=output or runs[0] / f"by_length.{settings.plot_format}",
            as_json=as_json,
        )


def predict(
    run: RunFolder,
    file: Annotated[
        list[str] | None, typer.Argument(help="Files with input data, or texts; - for standard input, the default.")
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
    timings: Timings = "",
    output: TimingsFolder = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Print contextual word vectors; with --pooling, one vector per text.")
    ] = False,
    pooling: SentencePooling = "",
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences per batch.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per prediction.")] = False,
) -> None:
    """Predict from files, texts or standard input. Standard input is answered line by line.

    An argument that names no file is a text, if the model reads texts. With several inputs or a folder, each answer
    follows its text or the name of its file; in tables of sequences, the id.
    """
    from seqloom import terminal
    from seqloom.cli.predictions import NamedInput, PredictionPrinter, expand_patterns
    from seqloom.model import AGAIN
    from seqloom.streaming import transcribe_stream

    files = expand_patterns(file or ["-"])
    with errors():
        model = load_model(
            run, layer, ensemble, search=search, constrain=constrain, lexicon=lexicon, lm=lm, folder=folder
        )
        if rate and not stream:
            raise ValueError("--rate is the sample rate of raw audio for --stream; files say theirs")
        if output is not None and not timings:
            raise ValueError("--output is the folder for --timings")
        if timings:
            if stream or vectors or as_json:
                raise ValueError("--timings excludes --stream, --vectors and --json")
            read = (model.read(name, file_format=file_format, encoding=encoding) for name in files)
            _write_timings(
                model, chain.from_iterable(read), model.predict_batches, timings, output, batch_size=batch_size
            )
            return
        if stream:
            if files != ["-"]:
                raise ValueError(f"--stream reads from standard input: give - instead of {files[0]}")
            pieces = transcribe_stream(
                model, sys.stdin.buffer, rate=rate, lag=lag, as_json=as_json, note=terminal.print_note
            )
            for piece in pieces:
                print(visible(piece), end="", flush=True)
            return
        interactive = files == ["-"] and sys.stdin.isatty()
        if pooling and not vectors:
            raise ValueError("--pooling is that of sentence vectors: add --vectors")
        model = model.for_single_texts() if pooling else model
        to_json = asdict if vectors else model.task.to_json
        printer = PredictionPrinter(
            model.task, to_json=to_json, as_json=as_json, names=len(files) > 1, interactive=interactive
        )
        answer = partial(model.embed_batches, pooling=pooling) if vectors else model.predict_batches

        def read_source(name: str) -> NamedInput:
            source = model.inputs.source(name, again=AGAIN)
            if note := model.inputs.note(source, file_format=file_format, encoding=encoding):
                terminal.print_note(f"{name}: {note}")
            examples = model.read(source, file_format=file_format, encoding=encoding)
            return NamedInput(name, examples, is_text=isinstance(source, list))

        examples = printer.watch(read_source(name) for name in files)
        size = 1 if interactive else batch_size
        if files == ["-"] and not file_format and model.task.answers_each_line:
            printer.by_line = True
            batches = model.predict_lines(examples, batch_size=size, answer=answer)
        else:
            batches = answer(examples, batch_size=size)
        for predictions in batches:
            printer.print(predictions)
        printer.finish()


def _write_timings(
    model: "Model",
    examples: Iterable[Any],
    answer: Callable[..., Iterator[list[Any]]],  # predict_batches or align_batches
    timings: str,
    folder: Path | None,
    *,
    batch_size: int,
) -> None:
    from seqloom.cli.timings import TimingWriter

    writer = TimingWriter(model.task, timings, folder)
    for answers in answer(writer.watch(examples), batch_size=batch_size):
        writer.write(answers)
    writer.finish()


def align(
    run: RunFolder,
    recording: Annotated[str, typer.Argument(help="Recording, or a list of recordings with their texts.")],
    text: Annotated[str, typer.Argument(help="Text of the recording; not with a list.")] = "",
    *,
    timings: Timings = "tsv",
    output: TimingsFolder = None,
    layer: Layer = "",
    lexicon: Lexicon = "",
    folder: Folder = "",
    batch_size: Annotated[int, typer.Option(min=1, help="Recordings per batch.")] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per recording.")] = False,
) -> None:
    """Align a known text with its recording. Finds when each word and token is spoken (forced alignment by CTC)."""
    from seqloom.cli.predictions import PredictionPrinter

    with errors():
        model = load_model(run, layer, lexicon=lexicon, folder=folder)
        examples = model.read_aligned(recording, text)
        if not as_json:
            _write_timings(model, examples, model.align_batches, timings, output, batch_size=batch_size)
            return
        printer = PredictionPrinter(model.task, as_json=True, names=False, interactive=False)
        for answers in model.align_batches(examples, batch_size=batch_size):
            printer.print(answers)


def explain(
    run: RunFolder,
    source: Annotated[
        list[str] | None,
        typer.Argument(help="Texts, files (their first example), or - for standard input."),
    ] = None,
    *,
    example: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Example of the file or of standard input, counted from 1; repeatable."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="classify, tag, forecast: how to compute which inputs mattered: integrated_gradients (default), "
            "input_x_gradient, occlusion or none."
        ),
    ] = "",
    target: Annotated[
        str,
        typer.Option(
            help="classify, tag: label to explain; default: the predicted one. forecast: column; default: the first."
        ),
    ] = "",
    word: Annotated[
        str,
        typer.Option(
            help="tag: word whose label is explained, or its position from 1; default: the least certain. forecast: "
            "step to explain; default: 1."
        ),
    ] = "",
    output: Annotated[Path | None, typer.Option(help="Folder for plots and pages; default: RUN/explain.")] = None,
    beam: Annotated[
        bool, typer.Option("--beam", help="Show the beam search as a tree, and why each branch ended.")
    ] = False,
    heads: Annotated[bool, typer.Option("--heads", help="Plot every layer and head of the attention.")] = False,
    paths: Annotated[
        bool,
        typer.Option("--paths", help="transcribe: list the CTC paths of the predicted text, or of that of --target."),
    ] = False,
    max_paths: Annotated[
        int | None,
        typer.Option(min=1, help="Paths that --paths lists, the most probable ones; default: 20.", metavar="N"),
    ] = None,
    gates: Annotated[bool, typer.Option("--gates", help="Plot the gates of recurrent layers.")] = False,
    unroll: Annotated[
        bool, typer.Option("--unroll", help="Plot the network unrolled over the first time steps of the input.")
    ] = False,
    nearest: Annotated[
        str, typer.Option(help="File of sentences, of which the most similar ones are listed.", metavar="FILE")
    ] = "",
    pooling: SentencePooling = "",
    plots: Annotated[
        str, typer.Option(help="Format of the plots: png, svg or pdf (default: train.plot_format of the run).")
    ] = "",
    theme: PlotTheme = "",
    search: Search = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    folder: Folder = "",
    layer: Layer = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per source.")] = False,
) -> None:
    """Explain a prediction. Shows what mattered, attention, alternatives and probabilities, as text, plots and HTML."""
    from seqloom.explain import explain_all
    from seqloom.insight.label_paths import MAX_PATHS

    with errors():
        model = load_model(run, layer, search=search, lexicon=lexicon, lm=lm, folder=folder)
        explain_all(
            model,
            source or [],
            output or run / "explain",
            numbers=example or [],
            method=method,
            target=target,
            word=word,
            beam=beam,
            heads=heads,
            paths=paths or max_paths is not None,
            max_paths=max_paths or MAX_PATHS,
            gates=gates,
            unroll=unroll,
            nearest=nearest,
            pooling=pooling,
            suffix=f".{plots.lower().lstrip('.')}" if plots else "",
            theme=theme,
            as_json=as_json,
        )


def doctor(
    run: RunFolder,
    file: Annotated[
        str, typer.Argument(help="File with labelled data; default: the dev data of the run, if they are unchanged.")
    ] = "",
    *,
    reach: Annotated[
        int, typer.Option(min=0, help="Steps back that the model has to see (0: as the data suggest).")
    ] = 0,
    targets: Annotated[int, typer.Option(min=1, help="Losses whose gradients are measured.")] = 200,
    output: Annotated[Path | None, typer.Option(help="Folder for a plot of each finding; default: RUN/doctor.")] = None,
    plots: Annotated[
        str, typer.Option(help="Format of the plots: png, svg or pdf (default: train.plot_format of the run).")
    ] = "",
    theme: PlotTheme = "",
    folder: Folder = "",
    captions: Captions = "",
    layer: Layer = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all measurements as JSON; plots are drawn with --output only.")
    ] = False,
) -> None:
    """Find out why a model does not learn. Measures gradients, gates, attention and the record of its training."""
    from seqloom.diagnosis.run_doctor import report_run
    from seqloom.run_config import find_layer

    with errors():
        report_run(
            run,
            file,
            output=output or (None if as_json else run / "doctor"),
            suffix=f".{plots.lower().lstrip('.')}" if plots else "",
            theme=theme,
            as_json=as_json,
            layer=find_layer(layer),
            reach=reach,
            targets=targets,
            folder=folder,
            captions=captions,
        )


def quantize(
    run: RunFolder,
    new: Annotated[Path, typer.Argument(help="Folder of the new run.")],
    *,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0,
            help="Largest loss of the main metric on the dev data: of a score from 0 to 1 this much, of other metrics "
            "(such as perplexity) this fraction.",
        ),
    ] = 0.01,
    check: Annotated[
        str, typer.Option(help="File with labelled data to compare on (default: the dev data of the run).")
    ] = "",
    constrain: Constrain = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    folder: Folder = "",
    captions: Captions = "",
    layer: Layer = "",
) -> None:
    """Write a smaller and faster copy of a run, with int8 weights.

    Both models are evaluated on the dev data. Nothing is written if the int8 model is worse by more than the tolerance.
    """
    from seqloom.quantization import print_quantized, quantize_run
    from seqloom.run_config import find_layer

    with errors():
        options = {"constrain": constrain, "lexicon": lexicon, "lm": lm, "folder": folder, "captions": captions}
        result = quantize_run(run, new, tolerance=tolerance, check=check, layer=find_layer(layer), **options)
        print_quantized(result)
        print(f"wrote {result.path}")


def export(
    run: RunFolder,
    file: Annotated[
        Path,
        typer.Argument(
            help="Output: .onnx; .o for C, with a header .h beside it; .wasm; a folder for a web page; .arpa or "
            ".arpa.gz for n-grams; .txt, .vec or .bin for word vectors."
        ),
    ],
    *,
    check: Annotated[
        str, typer.Option(help="Inputs to compare the exported model on (default: the dev data of the run).")
    ] = "",
    target: Annotated[
        str,
        typer.Option(
            metavar="PROCESSOR",
            help="Object file: x86-64, x86-64-v2, x86-64-v3, x86-64-v4, aarch64, or native for this machine only "
            "(default: any processor of the architecture of this machine).",
        ),
    ] = "",
    runtime: Annotated[
        bool,
        typer.Option("--runtime", help="ONNX: also write seqloom_runtime.py, which runs the file without Seqloom."),
    ] = False,
    onnxruntime_web: Annotated[
        str,
        typer.Option(
            metavar="FOLDER", help="Page: the npm package onnxruntime-web (default: where npm has installed it)."
        ),
    ] = "",
    search: Search = "",
    constrain: Constrain = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    layer: Layer = "",
) -> None:
    """Export a model for other programs.

    FILE is an ONNX file (.onnx), an object file for C (.o), a WebAssembly module (.wasm), or a folder for a web page.
    n-grams become ARPA files, word vectors word2vec files. A model is written only if it gives the answers of the run.
    """
    with errors():
        if file.suffix and onnxruntime_web:
            raise ValueError(f"--onnxruntime-web is for a page, which is a folder; {file} is a file")
        if not file.suffix and runtime:
            raise ValueError(f"--runtime is for a file .onnx; {file} is a folder, for a page")
        if file.suffix not in (".o", ".wasm") and target:
            raise ValueError(f"--target is for a file .o or .wasm, not for {file}")
        if file.suffix in (".o", ".wasm") and runtime:
            raise ValueError(f"--runtime is for a file .onnx; {file} needs no runtime")
        if file.suffix in (".o", ".wasm") and search:
            raise ValueError(f"--search is for a file .onnx; {file} gives the most probable labels, or the best path")
        result = load_model(run, layer, search=search, constrain=constrain, lexicon=lexicon, lm=lm).export(
            file, check=check or None, runtime=runtime, onnxruntime_web=onnxruntime_web, target=target
        )
        if result is None:
            return
        header = f" and {file.with_suffix('.h')}" if file.suffix == ".o" else ""
        print(f"wrote {file}{header} ({result.size:,} bytes); same answers as the run: {result}")
        if result.target:
            print(f"compared on this machine: the same code, compiled for it instead of for {result.target}")
        if not file.suffix:
            print(f"open it by a web server: python -m http.server --directory {file}")
            if not (file / "onnxruntime-web").is_dir():
                print("onnxruntime-web was not found; the page says how to add it")
