"""``seqloom generate``: text, handwriting, music or paths of a series from a trained model."""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom import files
from seqloom.cli.inference import load_model
from seqloom.cli.options import Layer, RunFolder, errors
from seqloom.formats import quote_names, single_precision, visible

if TYPE_CHECKING:
    from seqloom.model import Model

Writer = Callable[["Model", str, "GenerationOptions"], None]
MAX_TOKENS = 300  # of a text, unless --length says otherwise


@dataclass(frozen=True)
class GenerationOptions:
    """The options of the command, with their defaults; None: not given."""

    length: int = 0
    lines: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    bias: float = 0.0
    count: int = 1
    prime: str = ""
    output: Path | None = None
    seed: int = 1
    as_json: bool = False


TEXT = ("length", "lines", "temperature", "top_k", "top_p", "min_p", "count", "seed", "as_json")
DRAWINGS = ("length", "bias", "count", "prime", "output", "seed")
PATHS = ("count", "output", "seed")
MUSIC = ("length", "temperature", "count", "prime", "output", "seed")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise typer.BadParameter(f"expected a finite number, got {value}")
    return value


def _above_zero(value: float) -> float:
    if not value > 0:
        raise typer.BadParameter(f"expected a number above 0 and at most 1, got {value:g}")
    return value


def generate(
    run: RunFolder,
    prompt: Annotated[
        str, typer.Argument(help="Beginning of a text; handwriting: the text to write; forecast: file of the series.")
    ] = "",
    *,
    length: Annotated[
        int,
        typer.Option(
            min=0,
            help="Maximum number of tokens or points, or number of frames of music (0: 300 tokens; otherwise as the "
            "training data have).",
        ),
    ] = 0,
    lines: Annotated[int, typer.Option(min=0, help="Texts: stop after this many lines (0: only at the length).")] = 1,
    temperature: Annotated[
        float,
        typer.Option(min=0, callback=_finite, help="Sampling temperature (0: always the most probable token or note)."),
    ] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Sample from the k most probable tokens (0: all).")] = 0,
    top_p: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            callback=_above_zero,
            help="Sample from the most probable tokens that add up to this probability (1: all).",
        ),
    ] = 1.0,
    min_p: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            callback=_finite,
            help="Sample from tokens with at least this fraction of the highest probability (0: all).",
        ),
    ] = 0.0,
    bias: Annotated[
        float,
        typer.Option(
            min=0, callback=_finite, help="handwriting: 0 is as varied as the training data; larger values are tidier."
        ),
    ] = 0.0,
    count: Annotated[int, typer.Option(min=1, help="Number of texts, drawings, pieces or paths.")] = 1,
    prime: Annotated[
        str, typer.Option(help="handwriting, music: file whose first drawing or piece is continued (empty: none).")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            help="handwriting: picture to write, .svg, .png or .pdf (default: generated.svg); music: MIDI file, beside "
            "which the piano roll is drawn (default: generated.mid); forecast: CSV file, beside which the paths are "
            "drawn (default: generated.csv)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 1,
    layer: Layer = "",
    as_json: Annotated[bool, typer.Option("--json", help="Texts: print one JSON object per text.")] = False,
) -> None:
    """Generate text, handwriting, music or paths of a series.

    A language model prints text. Models of pen strokes and music, and forecasters, write files.
    """
    with errors():
        options = GenerationOptions(
            length, lines, temperature, top_k, top_p, min_p, bias, count, prime, output, seed, as_json
        )
        model = load_model(run, layer)
        kind = model.task.require_generation()
        writers: dict[str, tuple[Writer, tuple[str, ...]]]
        writers = {"drawings": (_draw, DRAWINGS), "music": (_compose, MUSIC), "paths": (_sample_paths, PATHS)}
        write, allowed = writers.get(kind, (_write_text, TEXT))
        _check_options(options, allowed, kind)
        write(model, prompt, options)


def _check_options(options: GenerationOptions, allowed: tuple[str, ...], kind: str) -> None:
    """Raise ValueError for an option that this kind of model does not have."""
    for field in fields(options):
        if field.name not in allowed and getattr(options, field.name) != field.default:
            names = ", ".join(map(_flag, allowed))
            raise ValueError(
                f"{_flag(field.name)} does not apply to this model, which generates {kind}: it has {names}"
            )


def _flag(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.removeprefix('as_').replace('_', '-')}"


def _write_text(model: "Model", prompt: str, options: GenerationOptions) -> None:
    from seqloom import terminal
    from seqloom.decoding.tokens.sample import Sample

    if note := model.task.describe_prompt(prompt):
        terminal.print_note(note)
    chosen = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    for number in range(options.count):
        sample = Sample(**chosen, seed=options.seed + number)
        tokens = model.generate_tokens(prompt, length=options.length or MAX_TOKENS, lines=options.lines, sample=sample)
        if options.as_json:
            terminal.print_lines(terminal.json_line(_as_json(prompt, list(tokens))))
            continue
        if number and options.lines != 1:  # an empty line separates texts of several lines
            print()
        _print_pieces(prompt, (token.text for token in tokens))


def _print_pieces(prompt: str, pieces: Iterable[str]) -> None:
    """Print a text as it grows."""
    text = prompt
    for number, piece in enumerate(pieces):
        text = piece if number else prompt + piece
        print(visible(text) if sys.stdout.isatty() else text, end="", flush=True)
    print(end="" if text.endswith("\n") else "\n")


def _as_json(prompt: str, tokens: Sequence[Any]) -> dict[str, Any]:
    """What follows a prompt, with the log-probability of each token."""
    sampled = [token for token in tokens if token.token]
    return {
        "prompt": prompt,
        "text": "".join(token.text for token in tokens),
        "tokens": [token.token for token in sampled],
        "log_probabilities": [single_precision(token.log_probability) for token in sampled],
    }


def _draw(model: "Model", prompt: str, options: GenerationOptions) -> None:
    from seqloom import terminal
    from seqloom.insight.drawing import SVG, save_drawings

    names = ("count", "bias", "length", "seed")
    chosen: dict[str, Any] = {name: getattr(options, name) for name in names}
    path = options.output or Path(f"generated{SVG}")
    files.refuse_input(path, options.prime)
    drawings = model.draw(prompt, **chosen, prime=options.prime or None)
    try:
        save_drawings(drawings, path)
    except ModuleNotFoundError as error:
        terminal.print_note(
            f"{path.name} is written as {SVG}: {error.name} is not installed; run pip install 'seqloom[plots]'"
        )
        path = path.with_suffix(SVG)
        save_drawings(drawings, path)
    print(path)


def _compose(model: "Model", prompt: str, options: GenerationOptions) -> None:
    from seqloom import terminal
    from seqloom.insight.piano_roll import MIDI

    if prompt:
        given = prompt if Path(prompt).is_file() else "FILE"
        raise ValueError(f"a model of music has no prompt; --prime {given} continues a piece")
    path = options.output or Path(f"generated{MIDI}")
    if path.suffix.lower() != MIDI:
        raise ValueError(f"{path}: expected a file that ends in {MIDI}; the piano roll is drawn beside it")
    outputs = _numbered(path, options.count)
    for file in outputs:
        files.refuse_input(file, options.prime)
    names = ("count", "length", "temperature", "seed")
    chosen: dict[str, Any] = {name: getattr(options, name) for name in names}
    for file, roll in zip(outputs, model.compose(**chosen, prime=options.prime or None), strict=True):
        roll.save(file)
        print(f"{file} ({len(roll.frames)} frames, {len(roll.notes())} notes, {roll.seconds:.0f} s)")
        if not roll.notes():
            terminal.print_note(
                f"{file.name} is silent: no key is probable enough at --temperature {options.temperature:g}"
            )
        _draw_beside(file, model, roll.save, "piano roll")


def _sample_paths(model: "Model", prompt: str, options: GenerationOptions) -> None:
    from seqloom import terminal
    from seqloom.insight.forecast_paths import draw_paths, write_paths

    if not prompt:
        raise ValueError("a forecaster continues a series: give its file, as in seqloom generate RUN series.csv")
    path = options.output or Path("generated.csv")
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path}: expected a file that ends in .csv; the plot is drawn beside it")
    files.refuse_input(path, prompt)
    series = model.sample_paths(prompt, count=options.count, seed=options.seed)
    write_paths(series, path)
    print(path)
    names: dict[str, list[str]] = {}
    for paths in series:
        names.setdefault(paths.warning, []).append(paths.name)
    for warning, warned in names.items():
        if warning:
            terminal.print_note(f"{quote_names(warned)}: {warning}" if all(warned) else warning)
    for file, paths in zip(_numbered(path, len(series)), series, strict=True):
        _draw_beside(file, model, partial(draw_paths, paths, title=paths.name), "plot")


def _numbered(path: Path, count: int) -> list[Path]:
    """The names of several files, such as song-1.mid and song-2.mid; a single one has no number."""
    return [path] if count == 1 else [path.with_stem(f"{path.stem}-{number}") for number in range(1, count + 1)]


def _draw_beside(file: Path, model: "Model", draw: Callable[[Path], Any], name: str) -> None:
    """Draw a picture beside a file, in the format of the run; without matplotlib, say so."""
    from seqloom import terminal
    from seqloom.insight.plotting import plot_theme

    settings = model.config.train
    picture = file.with_suffix(f".{settings.plot_format}")
    try:
        with plot_theme(settings.plot_theme):
            draw(picture)
    except ModuleNotFoundError as error:
        terminal.print_note(f"no {name}: {error.name} is not installed; run pip install 'seqloom[plots]'")
        return
    print(picture)
