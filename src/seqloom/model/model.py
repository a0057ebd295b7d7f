"""A trained model that is loaded from a run: predict, explain, evaluate, generate, embed, stream, export."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom import html
from seqloom.answers import INPUT_LENGTH, Answers, describe_empty
from seqloom.data.batch import Batch, split_by_padding
from seqloom.data.dataset_summary import Findings
from seqloom.data.readers.memory import as_source
from seqloom.data.readers.text_files import resolve
from seqloom.data.text.vocabulary import END
from seqloom.decoding.frames.frame_search import FrameSearch
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Search
from seqloom.evaluation import LengthScore, compare_with_baseline, predict_all, score, score_by_length
from seqloom.formats import shorten
from seqloom.insight.attribution import check_method, default_method
from seqloom.insight.drawing import Drawing
from seqloom.insight.explanation import Explanation, layer_weights
from seqloom.insight.forecast_paths import ForecastPaths
from seqloom.insight.label_paths import MAX_PATHS
from seqloom.insight.piano_roll import PianoRoll
from seqloom.insight.plotting import named_plots
from seqloom.layers.layer import count_parameters
from seqloom.metrics.backtest import Backtest
from seqloom.metrics.length_bins import LengthBins, quantile_bins
from seqloom.model.exporting import ExportTarget, write_export
from seqloom.model.inputs import InputReader, origin
from seqloom.models.baseline import Baseline
from seqloom.models.generation import GeneratedToken
from seqloom.models.sentence_vectors import (
    NearSentence,
    SentenceIndex,
    SentencePooling,
    SentenceVector,
    sentence_vectors,
)
from seqloom.models.transcription.streaming import StreamingSession
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.training.memory import check_memory
from seqloom.training_data import count_trained

if TYPE_CHECKING:
    from seqloom.export_check import ExportCheck

Precision = Literal["float32", "int8"]

SHOWN_DEPTH, SHOWN_PARTS = 2, 20  # of the parts of a model in a notebook


class Model:
    """A fitted task and its trained module."""

    def __init__(
        self,
        config: Config,  # its task is evaluated
        module: nn.Module,
        *,
        baseline: Baseline | None = None,
        task: Task | None = None,  # that predicts; None: that of the configuration
        name: str = "",  # of its run
        trained_on: Mapping[str, Any] | None = None,  # fingerprints of the data of its run
        precision: Precision = "float32",
    ) -> None:
        self.config, self.baseline, self.name = config, baseline, name
        self.precision = precision
        self.task = task or config.task
        self.trained_on = trained_on or {}
        self.module = module.eval()

    def __repr__(self) -> str:
        return f"<Model: {', '.join(f'{name} {value}' for name, value in self._summary().items())}>"

    def _repr_html_(self) -> str:
        rows = [
            (html.escape(name), html.remark(type(part).__name__), f"{count_parameters(part):,}")
            for name, part in self.module.named_modules()
            if name and name.count(".") < SHOWN_DEPTH and count_parameters(part)
        ]
        parts = html.table(("part", "", "parameters"), rows[:SHOWN_PARTS], right=[2])
        more = html.remark(f"… {len(rows) - SHOWN_PARTS} more") if len(rows) > SHOWN_PARTS else ""
        return html.block(html.heading("Model"), html.pairs(self._summary()), parts, more)

    def _summary(self) -> dict[str, str]:
        values = {"task": self.task.name, "parameters": f"{count_parameters(self.module):,}"}
        if self.precision != "float32":
            values["precision"] = self.precision
        labels = getattr(getattr(self.task.learned, "labels", None), "names", ())
        if labels:
            values["labels"] = shorten(", ".join(map(str, labels)), 60)
        return values

    def with_search(self, search: Search | FrameSearch) -> "Model":
        """The same weights with another decoding method."""
        return self._with_task(self.config.task.with_options(search=search))

    def for_single_texts(self) -> "Model":
        """The same weights for sentence vectors: a model of pairs reads single texts."""
        self.task.require_sentence_vectors()
        task = self.task.single_texts()
        return self if task is self.task else self._with_task(task)

    def _with_task(self, task: Task) -> "Model":
        return Model(
            self.config._replace(task=task),
            self.module,
            baseline=self.baseline,
            name=self.name,
            trained_on=self.trained_on,
            precision=self.precision,
        )

    @property
    def inputs(self) -> InputReader:
        """What reads the inputs of the model."""
        return InputReader(self.task)

    def read(
        self,
        source: Any,  # the path of a file, or texts, arrays or a table
        *,
        file_format: str = "",  # instead of that of the training data
        encoding: str = "",
    ) -> Iterator[Any]:
        """The examples to predict; standard input, ``-``, has one on each line, in UTF-8, unless options are given."""
        return self.inputs.read(source, file_format=file_format, encoding=encoding)

    def predict(self, source: Any, *, batch_size: int = 64) -> Answers:
        """The predictions in order for texts, arrays or a table, for one text, or for a file by its path."""
        inputs: list[str] = []
        counts: Counter[str] = Counter()
        empty = Findings()
        examples = self._noting_inputs(self.read(self.inputs.source(source)), inputs, counts, empty)
        answers = chain.from_iterable(self.predict_batches(examples, batch_size=batch_size))
        given = list(map(self.task.as_given, _with_warnings(answers)))
        notes = [f"{count:,} of {len(given):,}: {warning}" for warning, count in counts.items()]
        if empty:
            notes = [describe_empty(empty.total, len(given), first=str(empty)), *notes]
            warnings.warn(notes[0], stacklevel=2)
        return Answers(given, inputs, notes)

    def _noting_inputs(
        self, examples: Iterable[Any], inputs: list[str], counts: Counter[str], empty: Findings
    ) -> Iterator[Any]:
        """The same examples; adds their texts to ``inputs``, where they are empty, and warnings with their counts."""
        for example in examples:
            inputs.append(shorten(self.task.input_text(example), INPUT_LENGTH))
            if self.task.is_empty_input(example):
                empty.add(example.location)
            elif warning := self.task.input_warning(example):
                counts[warning] += 1
            yield example

    def align(
        self,
        source: Any,  # a recording, or recordings with their texts: the path of a list, or pairs
        text: str = "",  # of the recording; empty: the source has texts
        *,
        batch_size: int = 16,
    ) -> list[Any]:
        """Forced alignment of known texts: for each recording the times of its tokens and words; for transcribers."""
        return list(chain.from_iterable(self.align_batches(self.read_aligned(source, text), batch_size=batch_size)))

    def read_aligned(self, source: Any, text: str = "") -> Iterator[Any]:
        """Recordings with their texts, as for ``align``."""
        if not text:
            return self.task.read(resolve(source) if isinstance(source, str) else as_source(source))
        return self.task.read([(resolve(source) if isinstance(source, str) else source, text)])

    def align_batches(self, examples: Iterable[Any], *, batch_size: int = 16) -> Iterator[list[Any]]:
        """The alignments of recordings with their texts, batch by batch."""
        for batch in self._batches(examples, batch_size):
            with torch.no_grad():
                answers = self.task.align(self.module, batch)
            yield answers

    def predict_batches(self, examples: Iterable[Any], *, batch_size: int = 64) -> Iterator[list[Any]]:
        """The predictions for examples, batch by batch and read lazily."""
        for batch in self._batches(examples, batch_size):
            with torch.no_grad():
                answers = self.task.predict(self.module, batch).answers
            yield answers

    def predict_lines(
        self,
        examples: Iterable[Any],
        *,
        batch_size: int = 64,
        answer: Callable[..., Iterator[list[Any]]] | None = None,  # None: predict_batches
    ) -> Iterator[list[Any]]:
        """The predictions for the lines of standard input, batch by batch; None for an empty line."""
        line = 0
        answer = answer or self.predict_batches
        remaining = iter(examples)
        while batch := list(islice(remaining, batch_size)):
            filled = [example for example in batch if len(example)]
            answers = chain.from_iterable(answer(filled, batch_size=batch_size))
            results: list[Any] = []
            for example in batch:
                results += [None] * (example.location.line - line - 1)  # lines that the reader skipped
                results.append(next(answers) if len(example) else None)
                line = example.location.line
            yield results

    def embed(
        self,
        source: Any,  # the path of a file, or texts
        *,
        pooling: SentencePooling = "mean",
        batch_size: int = 64,
    ) -> NDArray[np.float32]:
        """A vector for each text, in order, (N, D): the outputs of the encoder, pooled over the text."""
        model = self.for_single_texts()
        return model.embed_examples(list(model.read(model.inputs.source(source))), pooling, batch_size)

    def embed_words(
        self,
        source: Any,  # the path of a file, or texts
        *,
        batch_size: int = 64,
    ) -> list[Any]:
        """The contextual vectors of the words of each text; for bidirectional and masked language models."""
        examples = self.read(self.inputs.source(source))
        return list(chain.from_iterable(self.embed_batches(examples, batch_size=batch_size)))

    def embed_batches(
        self,
        examples: Iterable[Any],
        *,
        pooling: str = "",  # of sentence vectors; empty: word vectors
        batch_size: int = 64,
    ) -> Iterator[list[Any]]:
        """Contextual word vectors of examples, or their sentence vectors, batch by batch."""
        for batch in self._batches(examples, batch_size):
            with torch.no_grad():
                if pooling:
                    rows = self._pooled(batch, pooling).tolist()
                    yield [SentenceVector(row) for row in rows]
                else:
                    yield self.task.embed(self.module, batch)

    def _pooled(self, batch: Batch, pooling: str) -> Tensor:  # (B, D)
        return sentence_vectors(self.module, self.task.encode(self.module, batch), pooling)

    def embed_examples(self, examples: Sequence[Any], pooling: str, batch_size: int) -> NDArray[np.float32]:
        """The sentence vectors of examples, (N, D)."""
        with torch.no_grad():
            rows = [self._pooled(batch, pooling).float().cpu() for batch in self._batches(examples, batch_size)]
        if not rows:
            raise ValueError("there are no texts to embed")
        vectors: NDArray[np.float32] = torch.cat(rows).numpy()
        empty = Findings()
        for example, vector in zip(examples, vectors, strict=True):
            if self.task.is_empty_input(example) or not vector.any():
                empty.add(example.location)
        if empty:
            warnings.warn(describe_empty(empty.total, len(vectors), first=str(empty), answer="vector"), stacklevel=3)
        return vectors

    def index_sentences(
        self,
        source: Any,  # the path of a file, or texts
        *,
        pooling: SentencePooling = "mean",
        batch_size: int = 64,
    ) -> SentenceIndex:
        """Sentences with their vectors, among which ``nearest`` searches."""
        model = self.for_single_texts()
        examples = list(model.read(model.inputs.source(source)))
        texts = [self.task.input_text(example) or str(example.location) for example in examples]
        return SentenceIndex(texts, model.embed_examples(examples, pooling, batch_size), pooling)

    def nearest(
        self,
        source: Any,  # a text, or an example of the task
        sentences: SentenceIndex,
        *,
        count: int = 10,
    ) -> list[NearSentence]:
        """The sentences that are most similar to a text by the cosine of their vectors, the nearest first."""
        model = self.for_single_texts()
        (vector,) = model.embed_examples([model.inputs.example(source)], sentences.pooling, 1)
        return sentences.nearest(vector, count=count)

    def _batches(self, examples: Iterable[Any], batch_size: int) -> Iterator[Batch]:
        for batch in split_by_padding(examples, batch_size):
            longest = max(batch, key=len)
            check_memory(self.module, longest, steps=self.task.steps(longest), training=False)
            yield self.task.collate(batch)

    def explain(
        self,
        source: Any,  # a text, an array, an example of the task; of a file or a table, the first example is explained
        *,
        method: str = "",  # integrated_gradients, input_x_gradient, occlusion or none; empty: the default of the task
        target: str | int = "",  # label to explain; empty: the predicted one
        word: str
        | int = "",  # taggers: word whose label is explained, or its position from 1; empty: the least certain
        beam: bool = False,  # keep what became of every hypothesis of the search
        heads: bool = False,  # keep the attention of every layer and head
        gates: bool = False,  # keep the gates and states of every recurrent layer
        paths: bool = False,  # CTC: list the alignments of the predicted text, or of ``target``
        max_paths: int = MAX_PATHS,  # of these, the most probable ones
    ) -> Explanation:
        """The prediction for one input and what led to it. Later predictions of the model are not changed by it."""
        if beam and not self.task.uses_search:
            raise ValueError(f"the task {self.task.name} does not use a search: there is no beam to show")
        example, remarks = self.inputs.example_and_notes(source)
        with torch.no_grad():
            explanation = self.task.explain(self.module, example, beam=beam, heads=heads)
            attribution, notes = None, list[str]()
            listed = None
            if paths:
                label = str(target) or getattr(explanation.prediction, "text", "")
                if not label and self.task.uses_search:
                    raise ValueError("the predicted text is empty: give the text whose paths are listed as target")
                listed, target = self.task.label_paths(self.module, example, label=label, limit=max_paths), ""
            is_default = not method and target == "" and word == ""
            if method != "none" and (self.task.can_attribute or not is_default):
                method, notes = (method, []) if method else default_method(self.task.steps(example))
                check_memory(self.module, example, steps=self.task.steps(example), training=True)
                attribution = self.task.attribute(
                    self.module,
                    example,
                    prediction=explanation.prediction,
                    method=check_method(method),
                    target=str(target),
                    word=word,
                )
            return replace(
                explanation,
                run=self.name,
                origin=origin(example),
                attribution=attribution,
                paths=listed,
                layer_weights=layer_weights(self.module),
                gates=self.task.trace_gates(self.module, example) if gates else [],
                notes=[*explanation.notes, *notes, *remarks],
            )

    def evaluate(
        self,
        source: Any,  # the path of a file, or a table or pairs in memory
        *,
        top_words: int = 0,  # evaluate word vectors on this many of the most frequent words; 0: on all
    ) -> dict[str, Any]:
        """The scores on labelled data; ``baseline`` has those of a trivial model, and the p value of the difference.

        ``in_train`` is the number of examples that the model was trained on, if the data are its training data, and
        ``warnings`` says what is wrong with the data, such as gaps in time.
        """
        config = self.config
        if top_words:
            config = config._replace(task=self.task.with_top_words(top_words))
        data, examples = self.inputs.labelled(source)
        predictions = predict_all(config, self.module, examples)
        scores = score(config.task, predictions, examples)
        scores |= self.task.thorough_scores(examples, predict=self._predict_examples)
        if self.baseline is not None:
            scores["baseline"] = {"name": self.baseline.name, **self.task.score_baseline(self.baseline, examples)}
            sums = self.task.baseline_sums(self.baseline, examples)
            if (test := compare_with_baseline(config.task, predictions, examples, sums)) and test.is_possible:
                scores["baseline"]["p_value"] = test.p_value
        if trained := count_trained(self.config, data, examples, recorded=self.trained_on):
            scores["in_train"] = trained
        return scores | self._data_warnings(examples)

    def _data_warnings(self, examples: Sequence[Any]) -> dict[str, list[str]]:
        """What is wrong with evaluated data, as a part of their scores; empty: nothing."""
        problems = self.task.data_warnings(examples)
        return {"warnings": problems} if problems else {}

    def backtest(
        self,
        source: Any,  # the path of a file, or a table in memory
        *,
        step: int = 0,  # time steps from one origin to the next; 0: the horizon, so that forecasts do not overlap
        origins: int = 0,  # the last ones, of each series; 0: all
        picture: str | Path | None = None,  # file for a plot of the forecasts
    ) -> Backtest:
        """Forecast from several origins as if the rest were not known yet, and compare with what came.

        The model is not trained again at each origin. For forecasters.
        """
        _, examples = self.inputs.labelled(source)
        path = None if picture is None else Path(picture)
        with named_plots(self.name):
            result = self.task.backtest(
                examples, step=step, origins=origins, predict=self._predict_examples, picture=path
            )
        return replace(result, scores=result.scores | self._data_warnings(examples))

    def _predict_examples(self, examples: Sequence[Any]) -> list[Any]:
        """The answers to examples in memory."""
        return predict_all(self.config._replace(task=self.task), self.module, examples)

    def evaluate_by_length(
        self,
        source: Any,  # the path of a file, or a table or pairs in memory
        *,
        bins: Sequence[float] = (),  # largest length of each bin but the last; empty: quantiles of the lengths
        lengths: Sequence[float] = (),  # of the inputs; empty: as the task measures them, in ``task.length_unit``
    ) -> list[LengthScore]:
        """The scores on labelled data in bins of the length of their input."""
        _, examples = self.inputs.labelled(source)
        lengths = lengths or [self.task.input_length(example) for example in examples]
        if len(lengths) != len(examples):
            raise ValueError(f"expected the lengths of {len(examples):,} examples, got {len(lengths):,}")
        chosen = LengthBins(tuple(bins)) if bins else quantile_bins(lengths)
        predictions = predict_all(self.config, self.module, examples)
        return score_by_length(self.config, predictions, examples, lengths=lengths, bins=chosen)

    def input_lengths(self, source: Any) -> list[float]:
        """The length of each input of labelled data, in ``task.length_unit``."""
        return [self.task.input_length(example) for example in self.inputs.labelled(source)[1]]

    def generate(
        self,
        prompt: str = "",
        *,
        length: int = 200,  # maximum number of tokens
        lines: int = 1,  # stop after this many ends of a line; 0: only at the length
        sample: Sample | None = None,
    ) -> Iterator[str]:
        """Text that continues the prompt, piece by piece; for language models."""
        if note := self.task.describe_prompt(prompt):
            warnings.warn(note, stacklevel=2)
        return (token.text for token in self.generate_tokens(prompt, length=length, lines=lines, sample=sample))

    def generate_tokens(
        self,
        prompt: str = "",
        *,
        length: int = 200,
        lines: int = 1,
        sample: Sample | None = None,
        alternatives: int = 0,
    ) -> Iterator[GeneratedToken]:
        """The same with the log-probability of each token, and those of the most probable alternatives."""
        tokens = self.task.generate(
            self.module, prompt, length=length, sample=sample or Sample(), alternatives=alternatives
        )
        return _first_lines(tokens, lines)

    def draw(
        self,
        text: str = "",
        *,
        count: int = 1,
        bias: float = 0.0,  # 0: as varied as the training data; larger: tidier
        length: int = 0,  # maximum number of points; 0: by the training data
        seed: int = 1,
        prime: Any = None,  # a file or example whose style the drawings continue
    ) -> list[Drawing]:
        """Drawings, or the text in handwriting; for models of pen strokes."""
        if count < 1 or length < 0 or not 0 <= bias < float("inf"):
            raise ValueError(f"expected count ≥ 1, length ≥ 0 and bias ≥ 0, found {count}, {length} and {bias}")
        strokes = self.task.generate_strokes(
            self.module, text, count=count, bias=bias, length=length, seed=seed, prime=self.inputs.continued(prime)
        )
        return [Drawing(each, text) for each in strokes]

    def compose(
        self,
        *,
        count: int = 1,
        length: int = 0,  # frames; 0: as many as a piece of the training data has on average
        temperature: float = 1.0,  # below 1: fewer surprises; 0: only notes that are more probable than not
        seed: int = 1,
        prime: Any = None,  # a file or example that the pieces continue; its frames come first
    ) -> list[PianoRoll]:
        """Pieces of music; for models of music."""
        if count < 1 or length < 0 or not 0 <= temperature < float("inf"):
            raise ValueError(
                f"expected count ≥ 1, length ≥ 0 and temperature ≥ 0, found {count}, {length} and {temperature}"
            )
        example = self.inputs.continued(prime)
        task: Any = self.task
        pieces = self.task.compose(
            self.module, count=count, length=length, temperature=temperature, seed=seed, prime=example
        )
        given = 0 if example is None else len(example)
        return [PianoRoll(piece, task.frames_per_beat, task.fitted.tempo, given) for piece in pieces]

    def sample_paths(
        self,
        source: Any,  # the path of a file, or a table in memory; each series is continued after its end
        *,
        count: int = 10,
        seed: int = 1,
    ) -> list[ForecastPaths]:
        """Possible continuations of each series, drawn from the distribution of the forecast; for forecasters."""
        if count < 1:
            raise ValueError(f"expected count ≥ 1, found {count}")
        data = resolve(source) if isinstance(source, str) else as_source(source)
        return self.task.sample_paths(data, count=count, seed=seed, predict=self._predict_examples)

    def open_stream(self, *, lag: float = 0.0) -> StreamingSession[Any]:
        """Transcribe a recording while it is made: ``feed`` returns the final text so far, ``finish`` the prediction.

        Text becomes final ``lag`` seconds of audio, or frames, after it was read; 0: once nothing can change it.
        """
        return self.task.open_stream(self.module, lag=lag)

    def export(
        self,
        path: str | Path,
        *,
        check: Any = None,  # examples to compare the exported model with this one on; None: the dev data of the run
        runtime: bool = False,  # write seqloom_runtime.py beside an ONNX file, which runs it without Seqloom
        onnxruntime_web: str | Path = "",  # of a page: its folder; empty: where npm has installed it
        target: str = "",  # of an object file: the processor, such as "x86-64-v3"; empty: any like this one
    ) -> "ExportCheck | None":
        """Write the model for other programs.

        Suffixes are .onnx; .o, an object file with a C header beside it; .wasm; for n-grams .arpa or .arpa.gz; for word
        vectors .txt, .vec or .bin. A path without a suffix is a folder for a web page. ONNX files, pages and compiled
        models are written only if they give the answers of the model.
        """
        target_file = ExportTarget(Path(path), runtime=runtime, onnxruntime_web=str(onnxruntime_web), processor=target)
        return write_export(self, target_file, check=check)


def _with_warnings(predictions: Iterable[Any]) -> Iterator[Any]:
    """The same predictions; the first warning among them is given to Python's warnings."""
    is_warned = False
    for prediction in predictions:
        if not is_warned and (message := getattr(prediction, "warning", "")):
            is_warned = True
            warnings.warn(message, stacklevel=4)
        yield prediction


def _first_lines(tokens: Iterable[GeneratedToken], lines: int) -> Iterator[GeneratedToken]:
    """The tokens up to the end of this many lines; 0: all of them."""
    ended = 0
    for token in tokens:
        yield token
        ended += token.token == END
        if lines and ended == lines:
            return
