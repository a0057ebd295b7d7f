"""Why a model says what it says: where it looked, what else it considered, how sure it is of each part."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from seqloom import terminal
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, START
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.search_record import SearchRecord
from seqloom.insight import Trace, alignments, trace
from seqloom.insight.contexts import compare
from seqloom.insight.explanation import Asked, Choice, Explanation, Weighted, average, every, layers_of, shares_of
from seqloom.insight.heard import explain_transcript
from seqloom.insight.symbols import branches, pieces, steps
from seqloom.insight.telling import tell
from seqloom.insight.words import explain_words
from seqloom.model import Model
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.pooling import AttentionPooling as Pooling
from seqloom.tasks.classify import Classify
from seqloom.tasks.embed import Embed
from seqloom.tasks.forecast import Forecast
from seqloom.tasks.language_model import LanguageModel
from seqloom.tasks.tag import Tag
from seqloom.tasks.transcribe import Transcribe

TAKEN = r"\.given\.|reader\.back"
"""In the names of parts that read for another model, or from the end: where they looked is not where the model did."""

INSTEAD = Beam(size=5, nbest=3)
"""What is shown as a tree where the search of a model is no beam."""


def explain_all(
    model: Model,
    given: Sequence[str],  # as for questions
    folder: Path,
    *,
    beam: bool = False,
    heads: bool = False,
    gates: bool = False,
    as_json: bool = False,
) -> None:
    """Print what is behind the answer to each source, and draw it in a folder, or in a numbered one for each."""
    examples = list(questions(model, given))
    if not examples:
        raise ValueError("there is nothing to explain: no source was given")
    if isinstance(model.task, Embed):
        explain_words(model.task, model.module, examples, folder, as_json=as_json)
        return
    for number, example in enumerate(examples, start=1):
        own = folder / str(number) if len(examples) > 1 else folder
        found = explain(model, example, beam=beam, heads=heads)
        terminal.say(*[""] * (number > 1 and not as_json))
        tell(found, own, traced=traces(model, example) if gates else [], as_json=as_json)
    if getattr(model.task, "direction", "") == "both":
        compared = _compared(model, examples)
        if compared.contexts or len(examples) > 1:
            terminal.say(*[""] * (not as_json))
            tell(compared, folder, as_json=as_json)


def questions(model: Model, given: Sequence[str]) -> Iterator[Any]:
    """Examples of texts; ``-`` is standard input, a text on each line; of models that read no texts, of files."""
    for each in given:
        if each == "-":
            yield from model.read("-")
        elif _reads_texts(model.task):
            if not each.strip():
                raise ValueError("the source is empty: there is nothing to explain")
            yield from model.task.read_inputs([each])
        else:
            yield from islice(model.read(each), 1)


def _reads_texts(task: Any) -> bool:
    if isinstance(task, Tag):
        return task.fitted.words is not None
    if isinstance(task, Classify):
        return getattr(task.learned, "text", None) is not None
    return not isinstance(task, Forecast | Transcribe)


def explain(
    model: Model,
    source: Any,  # a text, an array, or an example of the task
    *,
    beam: bool = False,  # keep what became of every hypothesis
    heads: bool = False,  # keep every layer and head
) -> Explanation:
    """The answer to one source, and what is behind it; nothing that the model says later is changed by it."""
    example, task = _example(model, source), model.task
    saying = hasattr(task, "search")
    if beam and not saying:
        raise ValueError(f"a model of the task {model.config.name} does not search: there is no beam to show")
    ways = ((Tag, _tagged), (Classify, _classified), (LanguageModel, _scored))
    with torch.no_grad():
        if isinstance(task, Transcribe):
            found = explain_transcript(task, model.module, example, beam=beam)
        elif saying:
            found = _said(model, example, beam=beam, heads=heads)
        elif way := next((way for kind, way in ways if isinstance(task, kind)), None):
            found = way(model, example, heads=heads)
        else:
            found = _answered(model, example)
        return replace(found, mixture=shares_of(model.module))


def _example(model: Model, source: Any) -> Any:
    if hasattr(source, "place"):
        return source
    if not len(source.strip() if isinstance(source, str) else source):
        raise ValueError("the source is empty: there is nothing to explain")
    return next(iter(model.task.read_inputs([source])))


class _Noted(Beam):
    """The same search, with what became of every hypothesis."""

    record: SearchRecord = Field(default_factory=SearchRecord, exclude=True)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return super().__call__(*arguments, **options, record=self.record)


def _said(model: Model, example: Any, *, beam: bool, heads: bool) -> Explanation:
    """Of an encoder and a decoder: what it looked at for each symbol that it said."""
    task: Any = model.task
    encoding = _saying(task)
    remarks = []
    search: Any = task.search
    if beam:
        if not isinstance(search, Beam):
            remarks.append(f"the search of the model is {search.name}: the beam is one of {INSTEAD.size}")
            search = INSTEAD
        search = _Noted(**search.model_dump())
        search.record.children = search.size
    batch = task.collate([example])
    (answer,) = task.model_copy(update={"search": search}).predict(model.module, batch).answers
    columns, order = _seen(task, example, remarks)
    rows, fed = steps(encoding, answer.best[0])
    looks: list[tuple[str, Tensor]] = []
    if not isinstance(model.module, EncoderDecoder):
        remarks.append("several models answer together: explain one of them to see where it looked")
    elif len(columns) > 1:
        state = model.module.start(*batch.inputs)
        _, found = alignments(model.module.decoder, torch.tensor([fed]), state)
        layers = layers_of(model.module.decoder, found, own=False)
        looks = [(name, weights[..., order] if order else weights) for name, weights in layers]
        if not looks:
            remarks.append("the model has no attention: there is no place where it looked")
    else:
        remarks.append("there is but one vector to look at")
    pixels = getattr(example, "image", None)
    return Explanation(
        task=task.name,
        source=example.name if hasattr(example, "name") else example.source,
        answer=answer,
        said=[steps(encoding, each)[0] for each in answer.best],
        look=average(looks, rows, columns),
        heads=every(looks, rows, columns) if heads else [],
        beam=branches(search.record, encoding) if beam else [],
        remarks=remarks,
        grid=task.grid if looks and pixels is not None else None,
        image=pixels,
    )


def _saying(task: Any) -> Tokenizer:
    """The symbols that are said."""
    learned = task.learned
    found: Tokenizer = getattr(learned, "target", None) or getattr(learned, "source", None) or learned.text
    return found


def _seen(task: Any, example: Any, remarks: list[str]) -> tuple[list[str], list[int]]:
    """What can be looked at, and the order that makes it that of the text, if it was read in another one.

    A task whose source is no text has a ``grid``: rows and columns of what can be looked at, row by row.
    """
    if hasattr(task, "grid"):
        height, width = task.grid
        return [f"{row + 1},{column + 1}" for row in range(height) for column in range(width)], []
    symbols = pieces(task.learned.source, example.source, remarks)
    return [*symbols, END], [*range(len(symbols))[::-1], len(symbols)] if task.reverse_source else []


def _looked(model: Model, example: Any) -> tuple[Any, Sequence[tuple[str, Tensor]], list[Tensor], Any]:
    """The answer, its layers of attention, the weights of the pooling (T,), and the batch."""
    batch = model.task.collate([example])
    asked = Asked(model.module, lambda: model.task.predict(model.module, batch))
    predictions, found = alignments(asked)
    found = [each for each in found if not re.search(TAKEN, each.name)]
    (answer,) = predictions.answers
    pooled = [each.weights[0, 0, 0] for each in found if isinstance(asked.get_submodule(each.name), Pooling)]
    return answer, layers_of(asked, found, own=True), pooled, batch


def _tagged(model: Model, example: Any, *, heads: bool) -> Explanation:
    module: Any = model.module
    task: Any = model.task
    answer, layers, _, batch = _looked(model, example)
    emissions, _ = module(batch.inputs, None)
    names = task.fitted.labels.names
    words = answer.words or [str(number) for number in range(1, len(answer.labels) + 1)]
    choices = []
    for word, label, own, row in zip(
        words,
        answer.labels,
        answer.probabilities,
        module.marginals(emissions, batch.inputs.mask)[0].tolist(),
        strict=False,
    ):
        others = [(value, name) for name, value in zip(names, row, strict=True) if name != label]
        value, second = max(others, default=(0.0, ""))
        choices.append(Choice(word, label, own, second, value))
    return Explanation(
        task=task.name,
        source=" ".join(answer.words),
        answer=answer,
        look=average(layers, words, words),
        heads=every(layers, words, words) if heads else [],
        choices=choices,
    )


def _classified(model: Model, example: Any, *, heads: bool) -> Explanation:
    task: Any = model.task
    answer, layers, pooled, _ = _looked(model, example)
    remarks: list[str] = []
    text = example.content if isinstance(example.content, str) else ""
    if task.learned.text is not None:
        symbols = pieces(task.learned.text, text, remarks)
    else:
        symbols = [str(number) for number in range(1, len(example.content) + 1)]
    look, weighted = average(layers, symbols, symbols), None
    if pooled:
        weighted = Weighted("share of the pooling", symbols, pooled[0].tolist(), 0.0)
    elif look is not None:
        received = np.mean(look.weights, axis=0).tolist()
        weighted = Weighted(f"attention that it got, {look.name}", symbols, received, 0.0)
    else:
        remarks.append('the model has no attention: task.pooling = "attention" shows how much each element counts')
    return Explanation(
        task=task.name,
        source=text,
        answer=answer,
        look=look,
        heads=every(layers, symbols, symbols) if heads else [],
        weighted=weighted,
        remarks=remarks,
    )


def _scored(model: Model, example: Any, *, heads: bool) -> Explanation:
    task: Any = model.task
    answer, layers, _, _ = _looked(model, example)
    remarks: list[str] = []
    symbols = pieces(task.symbols, example.text, remarks)
    values = [-value / math.log(2) for value in answer.log_probabilities]
    rows, columns = [*symbols, END], [START, *symbols]
    return Explanation(
        task=task.name,
        source=example.text,
        answer=answer,
        look=average(layers, rows, columns),
        heads=every(layers, rows, columns) if heads else [],
        weighted=Weighted("surprise, bits", rows, values, 0.0),
        remarks=remarks,
    )


def _compared(model: Model, examples: Sequence[Any]) -> Explanation:
    """Of a language model in both directions: words that occur at several places."""
    found = compare([text for texts in model.embed_batches(examples) for text in texts])
    remark = "no word occurs twice: give several texts that share one, to see how its vectors differ"
    return Explanation(
        task=model.config.name,
        source=" | ".join(example.text for example in examples),
        answer="Words that occur several times, and how similar their vectors are (cosine):" if found else "",
        contexts=found,
        remarks=[] if found else [remark],
    )


def _answered(model: Model, example: Any) -> Explanation:
    (answer,) = model.task.predict(model.module, model.task.collate([example])).answers
    remark = f"of the task {model.config.name} there is nothing to explain yet but the gates of recurrent layers"
    return Explanation(task=model.config.name, source=str(example.place), answer=answer, remarks=[remark])


def traces(model: Model, source: Any) -> list[tuple[Trace, list[str]]]:
    """What happened in each recurrent layer while a source was read and answered, and the names of its steps."""
    task: Any = model.task
    module: Any = model.module
    example = _example(model, source)
    batch = task.collate([example])
    read = _fed(task, example)
    with torch.no_grad():
        if isinstance(module, EncoderDecoder):
            (answer,) = task.predict(module, batch).answers
            said, numbers = steps(_saying(task), answer.best[0])
            fed = torch.tensor([numbers])
            _, found = trace(Asked(module, lambda: module.decoder(fed, module.start(*batch.inputs))))
            names = {"encoder": read, "decoder": [START, *said][: len(numbers)]}
        else:
            _, found = trace(Asked(module, lambda: task.predict(module, batch)))
            names = {}
    kept = []
    for each in found:
        name = each.name.removeprefix("module.")
        if ".given." in name:
            continue  # the language model has a run of its own, with which it is explained
        labels = names.get(name.partition(".")[0], read)
        if name.startswith("reader.back"):
            labels = [*labels[:1], *labels[:0:-1]]
        rows, length = next(iter(each.states.values())).shape[:2]
        if rows == 1 and length:  # others, such as those over the characters of words, are not about the sequence
            kept.append((replace(each, name=name), labels if len(labels) == length else []))
    return kept


def _fed(task: Any, example: Any) -> list[str]:
    """The names of what is read at each step, in the order of reading; none where it is no symbols."""
    if isinstance(task, LanguageModel):
        return [START, *pieces(task.symbols, example.text, [])]
    if hasattr(example, "source"):
        symbols, order = _seen(task, example, [])
        return [symbols[place] for place in order] if order else symbols
    if isinstance(task, Classify) and isinstance(example.content, str) and task.learned:
        return pieces(task.learned.text, example.content, []) if task.learned.text else []
    return list(getattr(example, "words", ()))
