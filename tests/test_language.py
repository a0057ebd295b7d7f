"""Keys, options and public names consist of common words and those of docs/glossary.md; retired words occur nowhere."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from typer.core import TyperGroup

import seqloom
from seqloom import lab, tasks
from seqloom.cli.main import app
from seqloom.config.schema import all_keys, fields, nested
from seqloom.training.config import TrainConfig
from seqloom.tuning.space import SweepConfig

ROOT = Path(__file__).parent.parent
SECTIONS: dict[str, type[BaseModel]] = {
    "train": TrainConfig,
    "sweep": SweepConfig,
    **{name: tasks.find(name) for name in tasks.names()},
}
PUBLIC_MODULES = [seqloom, *(import_module(f"seqloom.{name}") for name in ("cells", "insight", "layers", "testing"))]

SOURCES = [
    *(
        path
        for folder in ("src", "benchmarks")
        for suffix in ("py", "toml")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    ),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ARCHITECTURE.md",
]  # not CHANGELOG.md, which says what the retired names became
EXEMPT = {ROOT / "src/seqloom/config/hints.py"}  # suggests the new name for a retired one

PHRASES = {
    "small letters": "lowercase",
    "intervals? of confidence": "confidence interval",
    "by heart": "regularisation, overfitting",
    "polite signal": "SIGTERM",
    "put in,|put in and|replaced, put in": "substitutions, insertions, deletions",
    "left out": "deletions; omitted, ignored, skipped",
    "(?<!, )so many": "this many, number of",
    "(?:is|was|are|were|be|been) told": "gets, receives, knows",
    "(?:gone|goes|going|go) on with": "resume, continue",
    "played too fast": "infeasible",
    "likewise": "also",
    "what is said|what was said": "output, hypothesis, transcript",
}
"""What to write instead, by the phrase that is retired; matched without case."""
ANY_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b")

NAMES = (
    "hurried uncut is_taught Fluency Hearing Heard Ear Speaker Lesson Study Keeper Team BadData BadRun NotTOML "
    "Looks Look Looking Sight Anatomy Knowledge BothWays Placing Guided Growing Spoken Told TOLD Taken Joined Joint "
    "Mixed Asked Listening"
)
VARIABLES = "found wanted told said asked"
MODULES = "lessons hearing telling heard shaded running recurring script marks unchanged"
KEYS = (
    "rate steps average clip decay_wait decay_after pool smoothing minimum lower unknown best_by kind front change own "
    "alone tune bands band stretches stretch warp emphasis decibels best no_repeat never hidden embedding tied longest "
    "sight sound place dev_share vectors"
)
OPTIONS = "--also --allowed --restrict --language --all"
"""Retired names of classes and functions, of variables, of files, of configuration keys, and of options."""

COMMON_WORDS = """
    task, name, model, type, method, algorithm, function, options
    text, word, character, vector, image, audio, video, source, target, class
    file, folder, format, encoding, column, separator, parallel, date, missing, fill, resize, lines
    json, npz, arpa
    input, output, encoder, decoder, context, spelling, neighbours, negative
    recurrent, recurrence, projection, transformer, stack, bidirectional, direction, reverse
    LSTM, GRU, MGU, SRU, SLSTM, ind, RNN, mogrifier, ELU, Elman, peephole, coupled, norm
    activation, gate, heads, position, coordinate, channels, depth, order, relative, independent, predictive
    match, parameters
    size, width, height
    min, max, top, per, node, every, after, times, base, factor, offset, slope, floor, discount
    weight, threshold, decay, momentum, noise, coverage, diversity, groups, penalty
    mask, freq, perturb, speed, tempo, trim, vtlp, deltas, random, flip, shift, replace, shared, own, extra, feedback
    optimizer, schedule, loss, metric, log, save, resume, seed, device, threads, workers, minutes, epochs
    greedy, sample, stream, unknown, unk
    quick, thorough, quiet, version, schema
    load, write, draw, print, trace, capture, captured, from, to, torch
    symbols, distractors, forget, bias, lags, singular, value, matrices
    feed, forward, interval, bracket, other, test
    corridors, entropy
    map, plot, plots, curves, explanation, insight, testing, sklearn
    sentence, short, small, cut, off, sequence, recording, occurrence, kind, final, probability
"""
"""Words of names that the glossary need not explain."""

DESCRIPTION = re.compile(r"(?!Of |Likewise|By |So )[^.]")


def words(name: str) -> list[str]:
    """The words of a name in snake_case, kebab-case or CamelCase, in the singular."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return [re.sub(r"(?<=[^su])s$", "", part.lower()) for part in parts]


def known_words() -> set[str]:
    """The common words, and those in the first column of the tables of the glossary."""
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    return {word for row in (COMMON_WORDS, *rows) for word in words(row)}


def commands() -> dict[str, Any]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return dict(group.commands)


def keys() -> Iterator[str]:
    for name, section in SECTIONS.items():
        yield from (".".join(map(str, path)) for path in all_keys({name: section}))
    for name in lab.names():
        yield from (option for option in fields(lab.find(name)))


def command_line() -> Iterator[str]:
    for name, command in commands().items():
        yield name
        yield from (option for parameter in command.params for option in parameter.opts if option.startswith("--"))


def public_names() -> Iterator[str]:
    for module in PUBLIC_MODULES:
        yield from module.__all__


@pytest.mark.parametrize("names", [keys, command_line, public_names], ids=lambda names: names.__name__)
def test_names_consist_of_known_words(names: object) -> None:
    known = known_words()
    assert callable(names)
    unknown = {name: [word for word in words(name) if word not in known] for name in names()}
    assert {name: missing for name, missing in unknown.items() if missing} == {}


def test_retired_keys_are_gone() -> None:
    assert {key.rpartition(".")[2] for key in keys()}.isdisjoint(KEYS.split())


def descriptions(section: type[BaseModel], path: str) -> Iterator[tuple[str, str]]:
    for name, field in fields(section).items():
        yield f"{path}.{name}", field.description or ""
        for inner in nested(field.annotation):
            yield from descriptions(inner, f"{path}.{name}")


@pytest.mark.parametrize("name", SECTIONS)
def test_descriptions_are_noun_phrases_or_imperatives(name: str) -> None:
    described = {path: text for path, text in descriptions(SECTIONS[name], name) if not path.endswith(".name")}
    wrong = {path: text for path, text in described.items() if not (DESCRIPTION.match(text) and text.endswith("."))}
    assert wrong == {}


@pytest.mark.parametrize("name", commands())
def test_options_are_described(name: str) -> None:
    for parameter in commands()[name].params:
        text = getattr(parameter, "help", None) or ""
        assert DESCRIPTION.match(text), (parameter.name, text)


def defined_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What a module defines: (``name`` or ``variable``, the identifier)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield "name", node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield "variable", node.id
        elif isinstance(node, ast.arg):
            yield "variable", node.arg


def retired(path: Path) -> set[str]:
    """The retired words in a file."""
    text = path.read_text()
    running = re.sub(r"\s+(?:# )?", " ", text).lower()  # a phrase may continue on the next line
    used = {match[0] for match in ANY_PHRASE.finditer(running)}
    used |= {option for option in OPTIONS.split() if re.search(rf"(?<![\w-]){option}(?![\w-])", text)}
    if path.suffix == ".py":
        defined = set(defined_names(ast.parse(text)))
        used |= {name for name in NAMES.split() if ("name", name) in defined}
        used |= {name for name in (VARIABLES + " " + NAMES).split() if ("variable", name) in defined}
        used |= {path.stem} & set(MODULES.split())
    elif path.suffix == ".md":
        used |= {name for name in NAMES.split() if re.search(rf"`(?:[\w.]+\.)?{name}\b", text)}
    return used


def test_retired_words_do_not_occur() -> None:
    found = {str(path.relative_to(ROOT)): retired(path) for path in SOURCES if path not in EXEMPT}
    assert {path: words for path, words in found.items() if words} == {}


def test_exempt_files_exist() -> None:
    assert set(SOURCES) >= EXEMPT
