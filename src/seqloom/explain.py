"""Why a model predicts what it predicts: which inputs mattered, attention, alternatives and gates."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch

from seqloom import files, terminal
from seqloom.formats import describe_type, shorten
from seqloom.insight.ctc_plot import BLANK_SIGN
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.label_paths import MAX_PATHS
from seqloom.insight.plotting import SUFFIXES, check_theme, named_plots
from seqloom.insight.report import report
from seqloom.insight.unrolled import START, UnrolledNetwork
from seqloom.insight.unrolled import unroll as unroll_module
from seqloom.model import AGAIN, Model, check_not_empty
from seqloom.models.sentence_vectors import SentenceIndex


def explain_all(
    model: Model,
    inputs: Sequence[str],  # as for read_inputs
    folder: Path,
    *,
    numbers: Sequence[int] = (),  # as for read_inputs
    method: str = "",  # of Model.explain, as the next six
    target: str = "",
    word: str = "",
    beam: bool = False,
    heads: bool = False,
    paths: bool = False,
    max_paths: int = MAX_PATHS,
    gates: bool = False,
    unroll: bool = False,  # draw the network unrolled over time
    nearest: str = "",  # file of sentences, of which the nearest are listed; empty: none
    pooling: str = "",  # of their vectors; empty: mean
    suffix: str = "",  # of the plots: .png, .svg or .pdf; empty: as the run says (train.plot_format)
    theme: str = "",  # of the plots: light or dark; empty: as the run says (train.plot_theme)
    as_json: bool = False,
) -> None:
    """Print explanations and draw them into a folder; with several inputs, into a numbered subfolder for each."""
    if not inputs:
        dev = str(getattr(model.config.task, "dev", "") or "FILE")
        raise ValueError(f"there is nothing to explain: give a text or a file, such as {dev} --example 3")
    examples = list(read_inputs(model, inputs, numbers=numbers))
    if not examples:
        raise ValueError("there is nothing to explain: no input was given")
    suffix = suffix or f".{model.config.train.plot_format}"
    if suffix not in SUFFIXES:
        raise ValueError(f"plots cannot be written as {suffix}: choose one of {', '.join(SUFFIXES)}")
    if pooling and not nearest:
        raise ValueError("--pooling is that of the sentence vectors for --nearest: name a file of sentences")
    if nearest and model.task.reads_pairs:
        raise ValueError("--nearest compares the vectors of single texts, but the inputs of this model are pairs")
    sentences = model.index_sentences(nearest, pooling=cast(Any, pooling or "mean")) if nearest else None
    options = {
        "method": method,
        "target": target,
        "word": word,
        "beam": beam,
        "heads": heads,
        "gates": gates,
        "paths": paths,
        "max_paths": max_paths,
    }
    with named_plots(model.name, theme=check_theme(theme or model.config.train.plot_theme)):
        _explain_examples(
            model,
            examples,
            folder,
            options=options,
            sentences=sentences,
            unroll=unroll,
            suffix=suffix,
            as_json=as_json,
        )


def _explain_examples(
    model: Model,
    examples: Sequence[Any],
    folder: Path,
    *,
    options: dict[str, Any],
    sentences: SentenceIndex | None,
    unroll: bool,
    suffix: str,
    as_json: bool,
) -> None:
    for number, example in enumerate([] if model.task.explained_together else examples, start=1):
        subfolder = folder / str(number) if len(examples) > 1 else folder
        files.refuse_linked_folders(subfolder / "plot", inside=folder)
        explanation = _with_missing(explain(model, example, **options), heads=options["heads"], gates=options["gates"])
        if sentences is not None:
            explanation = replace(explanation, nearest=model.nearest(example, sentences))
        terminal.print_lines(*[""] * (number > 1 and not as_json))
        network = unrolled(model, example, explanation) if unroll else None
        report(explanation, subfolder, network=network, suffix=suffix, as_json=as_json)
    with torch.no_grad():
        together = model.task.explain_together(model.module, examples)
    if together is not None:
        terminal.print_lines(*[""] * (not model.task.explained_together and not as_json))
        report(together, folder, suffix=suffix, as_json=as_json)


def _with_missing(explanation: Explanation, *, heads: bool, gates: bool) -> Explanation:
    """The explanation with a note for each picture that was asked for and is not there."""
    notes = [
        note
        for note, is_asked, pictures in (
            ("there are no attention heads to draw", heads, explanation.heads),
            ("there are no gates to plot: the model has no recurrent layers", gates, explanation.gates),
        )
        if is_asked and not pictures
    ]
    return replace(explanation, notes=[*explanation.notes, *notes])


def read_inputs(
    model: Model,
    inputs: Sequence[str],
    *,
    numbers: Sequence[int] = (),  # examples of each file or of standard input, counted from 1; empty: as below
) -> Iterator[Any]:
    """Examples from command-line arguments: texts, ``-`` for the lines of standard input, or the first of each file."""
    for text_or_file in inputs:
        if numbers:
            yield from _numbered(model, text_or_file, numbers)
        elif text_or_file == "-":
            yield from model.read("-")
        else:
            check_not_empty(text_or_file)
            source = model.inputs.source(text_or_file, again=AGAIN)
            if isinstance(source, list):
                yield from model.task.read_inputs(source)
                continue
            example, notes = model.inputs.first(source)
            for note in notes:
                terminal.print_note(note)
            yield example


def _numbered(model: Model, file: str, numbers: Sequence[int]) -> Iterator[Any]:
    """The examples of a file with these numbers, in the order of the numbers."""
    check_not_empty(file)
    source = file if file == "-" else model.inputs.source(file, again=AGAIN)
    is_text = isinstance(source, list)
    if is_text:
        raise ValueError(f"--example chooses from a file or from standard input, but {shorten(file, 60)!r} is a text")
    if file != "-" and (note := model.inputs.note(source)):
        terminal.print_note(f"{file}: {note}")
    chosen, count = {}, 0
    for count, example in enumerate(islice(model.read(source), max(numbers)), start=1):
        if count in numbers:
            chosen[count] = example
    if max(numbers) > count:
        where = "standard input" if file == "-" else file
        raise ValueError(f"{where}: there is no example {max(numbers)}; it has {count:,}")
    yield from (chosen[number] for number in numbers)


def explain(
    model: Model,
    source: Any,  # a text, an array, or an example of the task
    **options: Any,  # as for Model.explain
) -> Explanation:
    """The prediction for one input and what led to it; ``model.explain`` does the same."""
    _check_model(model)
    return model.explain(source, **options)


def unrolled(
    model: Model,
    source: Any,  # a text, an array, or an example of the task
    explanation: Explanation | None = None,  # of this input, if it is known
) -> UnrolledNetwork:
    """The network of a model, unrolled over the time steps of an input."""
    _check_model(model)
    if model.task.reads_pairs:
        raise ValueError("a pair of texts is read as two sequences: there is no single one to unroll")
    example = model.inputs.example(source)
    known = explanation or model.explain(example, method="none")
    module, task = model.module, model.task
    labelled: list[LabelledTrace] = []

    def run() -> None:
        with torch.no_grad():
            labelled.extend(task.trace_gates(module, example))

    outputs, pooling = _step_outputs(module, known)
    generated = known.nbest_tokens[0] if known.nbest_tokens else []
    tokens = task.input_tokens(example)
    return unroll_module(
        module,
        run,
        inputs={"": tokens, "encoder": tokens, "decoder": [START, *generated][: len(generated)]},
        outputs={"decoder": generated, "": outputs} if generated and not known.frames else {"": outputs},
        pooling=pooling,
        chained=hasattr(getattr(module, "output", None), "transitions"),
    )


def _step_outputs(module: torch.nn.Module, explanation: Explanation) -> tuple[list[str], str]:
    """The output at each step, or that of the whole sequence and how its steps are pooled."""
    if explanation.label_choices:
        return [choice.label for choice in explanation.label_choices], ""
    if explanation.frames is not None:
        return [token or BLANK_SIGN for token in explanation.frames.most_probable], ""
    pooling = getattr(module, "pooling", None) or getattr(module, "last", None)
    if pooling is not None:
        kind = type(pooling).__name__.removesuffix("Pooling").lower()
        label = next(iter(explanation.label_probabilities), explanation.task)
        return [label], kind
    return list(explanation.token_values.tokens) if explanation.token_values else [], ""


def traces(model: Model, source: Any) -> list[LabelledTrace]:
    """Gates and states of each recurrent layer while an input is predicted, with the names of the time steps."""
    _check_model(model)
    with torch.no_grad():
        return model.task.trace_gates(model.module, model.inputs.example(source))


def _check_model(model: object) -> None:
    if not isinstance(model, Model):
        raise TypeError(f"expected a model, as seqloom.load(run) returns it, found {describe_type(model)}")
