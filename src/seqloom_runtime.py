"""Run models that ``seqloom export`` has written, with NumPy and onnxruntime only: without Seqloom, without PyTorch.

    import seqloom_runtime

    model = seqloom_runtime.load("tagger.onnx")
    model.predict(["the clouds are in the sky"])

or, for the lines of standard input, each answered as a line of JSON::

    python seqloom_runtime.py tagger.onnx < sentences.txt

The answers are those of ``seqloom predict --json``. ``generate`` of a language model gives the text of ``seqloom
generate``. This file is complete in itself: copy it next to your model.
"""

import json
import math
import re
import sys
import unicodedata
from bisect import insort_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

FORMAT = 1  # of the description in a file; a larger one needs a newer runtime
CHECKSUM_ENTRY = 76  # bytes at the end of a file: the entry sha256 of its metadata
PADDING, UNKNOWN = 0, 1
RESERVED = ("<pad>", "<s>", "</s>")  # unknown if they occur in a text
BATCH = 32  # inputs that are computed at once
Array = np.ndarray[Any, Any]


class ModelError(ValueError):
    """A file that is damaged or not a model, or an input that the model cannot read."""


# Models


def load(path: "str | Path", *, threads: int = 1) -> "Model":
    """Open an exported model; ModelError if the file is damaged."""
    path = Path(path)
    session = _open(path, threads)
    metadata = session.get_modelmeta().custom_metadata_map
    if "seqloom" not in metadata:
        raise ModelError(f"{path}: is a part of a model; load the model itself")
    description = json.loads(metadata["seqloom"])
    if description["format"] > FORMAT:
        raise ModelError(f"{path}: is of format {description['format']}; this runtime reads formats up to {FORMAT}")
    if description["output"]["kind"] == "tokens":
        parts = {name: path.with_suffix(f".{name}.onnx") for name in ("encoder", "step")}
        sessions = {name: _open(part, threads) for name, part in parts.items() if part.exists()}
        return Translator(session, description, metadata, sessions)
    kind = LanguageModel if description["task"] == "language_model" else Model
    return kind(session, description, metadata)


def _open(path: Path, threads: int) -> Any:
    data = path.read_bytes()
    if not _is_intact(data):
        raise ModelError(f"{path}: is damaged, or was not written by seqloom export (its checksum is wrong)")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _is_intact(data: bytes) -> bool:
    entry = data[-CHECKSUM_ENTRY:]
    return (
        entry.startswith(b"\x72\x4a\x0a\x06sha256\x12\x40")
        and entry[12:] == sha256(data[:-CHECKSUM_ENTRY]).hexdigest().encode()
    )


class Model:
    """An exported model: ``predict`` answers for texts, words, vectors or series."""

    def __init__(self, session: Any, description: dict[str, Any], metadata: dict[str, str]) -> None:
        self.session, self.description, self.metadata = session, description, metadata
        self.task: str = description["task"]
        self._read = INPUTS[description["input"]["kind"]](description["input"])
        self._answer: Callable[..., list[dict[str, Any]]] | None = ANSWERS.get(description["output"]["kind"])

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """An answer for each input: a text, a list of words, or an array (time, size), as the model reads them."""
        if isinstance(inputs, str):
            raise ModelError("expected a list of inputs, found one text: predict([text])")
        return list(self.stream(inputs))

    def stream(self, inputs: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """The answers one by one; inputs are read as they are needed."""
        batch: list[Any] = []
        for item in inputs:
            batch.append(item)
            if len(batch) == BATCH:
                yield from self._predict(batch)
                batch = []
        if batch:
            yield from self._predict(batch)

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        feed, words = self._read(items)
        outputs = self.run(feed)
        assert self._answer is not None  # noqa: S101  only language models have none
        return self._answer(self.description["output"], outputs, feed["lengths"].tolist(), words)

    def run(self, feed: dict[str, Array]) -> dict[str, Array]:
        """The outputs of the graph by name, for its inputs by name."""
        names = [port.name for port in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, feed), strict=True))


class LanguageModel(Model):
    """A language model: ``predict`` scores texts, ``generate`` continues one."""

    def __init__(self, session: Any, description: dict[str, Any], metadata: dict[str, str]) -> None:
        super().__init__(session, description, metadata)
        self.tokenizer = Tokenizer(description["input"]["tokenizer"])
        self._end: int = description["output"]["end"]
        self._states = description["output"]["states"]

    def start(self, batch: int) -> dict[str, Array]:
        """The state before the first token."""
        return {
            field["input"]: np.zeros((batch, *(size or 0 for size in field["shape"])), field["dtype"])
            for field in self._states
        }

    def step(
        self,
        tokens: Array,  # (B, T)
        state: dict[str, Array],
        lengths: Array | None = None,  # (B,); None: all are T long
    ) -> tuple[Array, dict[str, Array]]:  # log-probabilities (B, T, V), state
        """The log-probabilities of the token after each one, and the state after the last."""
        lengths = np.full(len(tokens), tokens.shape[1]) if lengths is None else lengths
        outputs = self.run({"tokens": tokens.astype(np.int64), "lengths": lengths.astype(np.int64), **state})
        return outputs["log_probabilities"], {field["input"]: outputs[field["output"]] for field in self._states}

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        texts = [[self._end, *self.tokenizer.encode(_text(item)), self._end] for item in items]
        tokens, lengths = _pad([text[:-1] for text in texts])
        scores, _ = self.step(tokens, self.start(len(texts)), lengths)
        answers = []
        for row, text in enumerate(texts):
            targets = np.array(text[1:])
            values = scores[row, np.arange(len(targets)), targets].tolist()
            total = math.fsum(values)
            perplexity = math.exp(min(-total / max(len(values), 1), 700))
            answers.append({"log_probability": total, "perplexity": perplexity, "log_probabilities": values})
        return answers

    def generate(
        self,
        prompt: str = "",
        *,
        length: int = 300,  # tokens
        temperature: float = 1.0,  # 0: always the most probable token
        top_k: int = 0,  # sample from the k most probable tokens; 0: all
        top_p: float = 1.0,  # sample from the most probable tokens with this total probability
        min_p: float = 0.0,  # minimum probability relative to the most probable token
        seed: int = 1,
    ) -> Iterator[str]:
        """Sample a continuation of the prompt, and yield it as it grows: the text of ``seqloom generate``."""
        choose = Sampler(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
        *lines, line = (self.tokenizer.encode(text) for text in prompt.split("\n"))
        *context, last = [self._end, *(token for text in lines for token in (*text, self._end)), *line]
        state = self.start(1)
        if context:
            _, state = self.step(np.array([context]), state)
        printed = self.tokenizer.decode(line)
        for _ in range(length):
            scores, state = self.step(np.array([[last]]), state)
            scores[:, :, PADDING] = -np.inf
            last = choose(scores[0, -1])
            if last == self._end:
                yield self.tokenizer.decode(line)[len(printed) :] + "\n"
                line, printed = [], ""
                continue
            line.append(last)
            text = self.tokenizer.decode(line).rstrip("\ufffd")  # an incomplete multi-byte character
            yield text[len(printed) :]
            printed += text[len(printed) :]
        yield self.tokenizer.decode(line)[len(printed) :]


class Translator(Model):
    """An encoder-decoder: ``predict`` searches for the most probable outputs, as its configuration says."""

    def __init__(
        self,
        session: Any,
        description: dict[str, Any],
        metadata: dict[str, str],
        parts: dict[str, Any],  # sessions of the encoder and of one step, for beam search
    ) -> None:
        super().__init__(session, description, metadata)
        self.tokenizer = Tokenizer(description["output"]["tokenizer"])
        self.search: dict[str, Any] = description["output"]["search"]
        """The settings of the search; {"name": "greedy"} needs no further files."""
        self._parts = parts

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        feed, _ = self._read(items)
        output = self.description["output"]
        if self.search["name"] == "greedy":
            outputs = self.run(feed)
            limits = self._limits(feed["lengths"])
            rows = zip(outputs["output"], outputs["log_probabilities"], limits.tolist(), strict=True)
            nbest = [[_greedy(tokens, values, limit, output["end"])] for tokens, values, limit in rows]
        else:
            nbest = Beam(self.search, output["end"], output["suppress"])(
                self._step, self._start(feed), self._limits(feed["lengths"])
            )
        return [self._answer_of(hypotheses) for hypotheses in nbest]

    def _limits(self, lengths: Array) -> Array:  # (B,), maximum tokens of each output
        output = self.description["output"]
        scaled = (lengths - 1).astype(np.float32) * np.float32(output["factor"])
        limits: Array = np.ceil(scaled).astype(np.int64) + int(output["offset"])
        return limits

    def _start(self, feed: dict[str, Array]) -> dict[str, Array]:
        if len(self._parts) < 2:
            raise ModelError(
                f"the search {self.search['name']} needs the files .encoder.onnx and .step.onnx beside the model: "
                'export it with --runtime, or set model.search = {"name": "greedy"}'
            )
        fields = self.description["output"]["states"]
        values = self._parts["encoder"].run([field["output"] for field in fields], feed)
        return {field["input"]: value for field, value in zip(fields, values, strict=True)}

    def _step(self, tokens: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        fields = self.description["output"]["states"]
        names = ["log_probabilities", *(field["output"] for field in fields)]
        scores, *values = self._parts["step"].run(names, {"tokens": tokens, **state})
        return scores, {field["input"]: value for field, value in zip(fields, values, strict=True)}

    def _answer_of(self, hypotheses: list["Hypothesis"]) -> dict[str, Any]:
        if not hypotheses:
            raise ModelError("the search found no output that its settings allow: relax min_length or no_repeat_ngram")
        nbest = [
            {
                "text": self.tokenizer.decode(hypothesis.tokens),
                "score": hypothesis.score,
                "log_probability": hypothesis.log_probability,
                "tokens": [self.tokenizer.readable(token) for token in hypothesis.tokens],
                "log_probabilities": hypothesis.log_probabilities,
            }
            for hypothesis in hypotheses
        ]
        return {name: nbest[0][name] for name in ("text", "score", "tokens", "log_probabilities")} | {"nbest": nbest}


class Hypothesis(NamedTuple):
    """A sequence that a search returns."""

    tokens: list[int]  # without the end token
    score: float  # what hypotheses are ranked by; those that ended come first
    log_probability: float
    log_probabilities: list[float]  # of each token, and of the end token if it ended
    ended: bool


def _greedy(tokens: Array, values: Array, limit: int, end: int) -> Hypothesis:
    """The output of the graph, which is filled with the end token."""
    ends = np.flatnonzero(tokens[:limit] == end)
    ended = len(ends) > 0
    length = int(ends[0]) if ended else limit
    scores = values[: length + ended].astype(np.float64).tolist()
    return Hypothesis(tokens[:length].tolist(), math.fsum(scores), math.fsum(scores), scores, ended)


class Beam:
    """Beam search: the most probable partial hypotheses of each input are extended in parallel."""

    def __init__(self, settings: dict[str, Any], end: int, suppress: Sequence[int]) -> None:
        defaults: dict[str, Any] = {
            "size": 5,
            "nbest": 1,
            "length_penalty": "length",
            "alpha": 1.0,
            "min_length": 0,
            "threshold": 0.0,
        }
        defaults |= {"no_repeat_ngram": 0, "per_node": 0, "patience": 0.0, "groups": 1, "coverage_penalty": 0.0}
        self.settings = defaults | settings
        is_beam = self.settings.get("name", "beam") == "beam"
        if not is_beam or self.settings["groups"] > 1 or self.settings["coverage_penalty"]:
            raise ModelError("expected the search greedy, or beam without groups and coverage_penalty")
        self.end, self.suppress = end, list(suppress)

    def __call__(
        self,
        step: Callable[[Array, dict[str, Array]], tuple[Array, dict[str, Array]]],
        state: dict[str, Array],
        limits: Array,  # (B,), maximum tokens of each row, the end token included
    ) -> list[list[Hypothesis]]:
        """The n-best hypotheses of each row."""
        size = self.settings["size"]
        finished: list[list[Hypothesis]] = [[] for _ in limits]
        ended_counts = [0] * len(limits)
        # Live hypotheses: the row of the batch, tokens, log-probabilities, and their sum.
        live: list[tuple[int, list[int], list[float], float]] = [(row, [], [], 0.0) for row in range(len(limits))]
        last = np.full(len(live), self.end, dtype=np.int64)
        while live:
            scores, state = step(last, state)
            values = scores.astype(np.float64)
            values[:, self.suppress] = -np.inf
            candidates: dict[int, list[tuple[float, int, int]]] = {}  # of each row: total, hypothesis, token
            for index, (row, tokens, _, total) in enumerate(live):
                self._forbid(values[index], tokens)
                best = np.argsort(-values[index], kind="stable")[: min(self.settings["per_node"] or size, size)]
                options = [(total + float(values[index, token]), index, int(token)) for token in best]
                candidates.setdefault(row, []).extend(option for option in options if option[0] > -math.inf)
            following: list[tuple[int, int]] = []  # hypothesis, token
            for row, options in candidates.items():
                kept = sorted(options, key=lambda option: -option[0])[:size]
                if self.settings["threshold"] and kept:
                    kept = [option for option in kept if option[0] >= kept[0][0] - self.settings["threshold"]]
                going: list[tuple[float, int, int]] = []
                length = len(live[options[0][1]][1]) + 1 if options else 0
                for total, index, token in kept:
                    _, tokens, previous, _ = live[index]
                    is_end = token == self.end
                    if not is_end and length < limits[row]:
                        going.append((total, index, token))
                        continue
                    ended_counts[row] += is_end
                    cutoff = self._cutoff(finished[row])
                    score = total / self._divisor(length)
                    if (is_end or cutoff == -math.inf) and score > cutoff:
                        whole = tokens if is_end else [*tokens, token]
                        scored = [*previous, float(values[index, token])]
                        self._add(finished[row], Hypothesis(whole, score, total, scored, is_end))
                if going and not self._is_final(finished[row], ended_counts[row], going[0][0], int(limits[row])):
                    following += [(index, token) for _, index, token in going]
            chosen = np.array([index for index, _ in following], dtype=np.int64)
            last = np.array([token for _, token in following], dtype=np.int64)
            state = {name: value[chosen] for name, value in state.items()}
            live = [
                (
                    live[index][0],
                    [*live[index][1], token],
                    [*live[index][2], float(values[index, token])],
                    live[index][3] + float(values[index, token]),
                )
                for index, token in following
            ]
        return finished

    def _forbid(self, values: Array, tokens: list[int]) -> None:
        """Exclude the end before the minimum length, and tokens that would repeat an n-gram."""
        if len(tokens) < self.settings["min_length"]:
            values[self.end] = -np.inf
        order = self.settings["no_repeat_ngram"]
        if order and len(tokens) >= order:
            context = tokens[len(tokens) - order + 1 :]
            for place in range(len(tokens) - order + 1):
                if tokens[place : place + order - 1] == context:
                    values[tokens[place + order - 1]] = -np.inf

    def _divisor(self, length: int) -> float:
        kind, alpha = self.settings["length_penalty"], self.settings["alpha"]
        return 1.0 if kind == "none" else float((length if kind == "length" else (5 + length) / 6) ** alpha)

    def _cutoff(self, entries: list[Hypothesis]) -> float:
        """The score that a hypothesis has to exceed to enter the n-best."""
        is_full = len(entries) == self.settings["nbest"] and entries[-1].ended
        return entries[-1].score if is_full else -math.inf

    def _add(self, entries: list[Hypothesis], hypothesis: Hypothesis) -> None:
        if any(hypothesis.tokens == other.tokens and hypothesis.ended == other.ended for other in entries):
            return
        insort_right(entries, hypothesis, key=lambda entry: (not entry.ended, -entry.score))
        del entries[self.settings["nbest"] :]

    def _is_final(self, entries: list[Hypothesis], ended: int, best: float, limit: int) -> bool:
        """Whether no live hypothesis can reach the n-best, even if all its next tokens are certain."""
        patience = self.settings["patience"]
        if patience and ended >= patience * self.settings["size"]:
            return True
        return self._cutoff(entries) >= best / self._divisor(limit)


class Sampler:
    """Draws a token: temperature first, then top-k, top-p and min-p."""

    def __init__(self, *, temperature: float, top_k: int, top_p: float, min_p: float, seed: int) -> None:
        if temperature < 0 or top_k < 0 or not 0 < top_p <= 1 or not 0 <= min_p <= 1:
            raise ModelError(
                f"expected temperature ≥ 0, top_k ≥ 0, 0 < top_p ≤ 1 and 0 ≤ min_p ≤ 1, found {temperature}, {top_k}, "
                f"{top_p}, {min_p}"
            )
        self.temperature, self.top_k, self.top_p, self.min_p = temperature, top_k, top_p, min_p
        self._random = np.random.RandomState(seed)

    def __call__(self, scores: Array) -> int:  # log-probabilities (V,)
        if not np.isfinite(scores.max()):
            raise ModelError("cannot sample: no token has a positive probability, or a log-probability is NaN")
        if self.temperature == 0:
            return int(scores.argmax())
        weights = scores - scores.max()
        weights = np.exp(weights if self.temperature == 1 else weights / np.float32(self.temperature))
        tokens = np.arange(len(weights))
        if self.top_k or self.top_p < 1:
            tokens = np.argsort(-weights, kind="stable")
            mass = self.top_p * weights.sum()
            tokens = tokens[: self.top_k] if self.top_k else tokens
            ordered = weights[tokens].astype(np.float64)
            keep = (ordered >= self.min_p) & (np.cumsum(ordered) - ordered < mass)
            keep[0] = True
            weights = ordered * keep
        elif self.min_p:
            weights = np.where(weights < self.min_p, 0, weights)
        cumulative = np.cumsum(weights, dtype=np.float64)
        target = cumulative[-1] * (self._uniform() * (1 - 1e-12))
        return int(tokens[np.searchsorted(cumulative, target, side="right")])

    def _uniform(self) -> float:
        """A number from 0 to 1: that of torch's generator for the same seed."""
        high, low = np.frombuffer(self._random.bytes(8), "<u4").tolist()
        return float(((high << 32 | low) & ((1 << 53) - 1)) * 2.0**-53)


# Inputs: a function of the description that returns a reader, from inputs to the arrays of a batch and their words

Feed = tuple[dict[str, Array], list[list[str]]]
Read = Callable[[list[Any]], Feed]


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise ModelError(f"expected a text, found {type(item).__name__}")
    return item


def _pad(rows: Sequence[Sequence[int]]) -> tuple[Array, Array]:  # (B, T), (B,)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tokens = np.zeros((len(rows), max(1, lengths.max(initial=1))), dtype=np.int64)
    for row, values in zip(tokens, rows, strict=True):
        row[: len(values)] = values
    return tokens, lengths


def _read_texts(description: dict[str, Any]) -> Read:
    tokenizer = Tokenizer(description["tokenizer"])

    def read(items: list[Any]) -> Feed:
        tokens, lengths = _pad([tokenizer.encode(_text(item)) for item in items])
        return {"tokens": tokens, "lengths": lengths}, []

    return read


def _read_sources(description: dict[str, Any]) -> Read:
    tokenizer = Tokenizer(description["tokenizer"])

    def read(items: list[Any]) -> Feed:
        rows = [tokenizer.encode(_text(item)) for item in items]
        tokens, lengths = _pad([[*(row[::-1] if description["reverse"] else row), description["end"]] for row in rows])
        return {"tokens": tokens, "lengths": lengths}, []

    return read


def _read_words(description: dict[str, Any]) -> Read:
    words = {word: index for index, word in enumerate(description["vocabulary"])}
    spelling, longest = description["characters"], description["max_characters"]
    letters = {token: index for index, token in enumerate(spelling or ()) if len(token) == 1}

    def spell(word: str) -> list[int]:
        ids = [letters.get(letter, UNKNOWN) for letter in word]
        if len(ids) > longest:  # the start and the end of a long word
            ids = ids[: longest // 2] + ids[len(ids) - (longest - longest // 2) :]
        return ids + [PADDING] * (longest - len(ids))

    def read(items: list[Any]) -> Feed:
        sentences = [item.split() if isinstance(item, str) else [_text(word) for word in item] for item in items]
        forms = [[word.lower() if description["lowercase"] else word for word in sentence] for sentence in sentences]
        tokens, lengths = _pad([[words.get(form, UNKNOWN) for form in sentence] for sentence in forms])
        feed = {"words": tokens, "lengths": lengths}
        if spelling is not None:
            feed["characters"] = np.zeros((*tokens.shape, longest), dtype=np.int64)
            for row, sentence in zip(feed["characters"], sentences, strict=True):
                row[: len(sentence)] = [spell(word) for word in sentence] or np.zeros((0, longest))
        return feed, sentences

    return read


def _vectors(item: Any, size: int) -> Array:
    values = np.asarray(item, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 and size == 1 else values
    if values.ndim != 2 or values.shape[1] != size:
        raise ModelError(f"expected an array (time, {size}), found one of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ModelError("an input contains NaN or infinity")
    return values


def _read_vectors(description: dict[str, Any]) -> Read:
    def read(items: list[Any]) -> Feed:
        rows = [_vectors(item, description["size"]) for item in items]
        _, lengths = _pad([range(len(row)) for row in rows])
        values = np.zeros((len(rows), max(1, lengths.max()), description["size"]))
        for padded, row in zip(values, rows, strict=True):
            padded[: len(row)] = row
        return {"values": values, "lengths": lengths}, []

    return read


def _read_series(description: dict[str, Any]) -> Read:
    """The end of each series, from which the following values are forecast."""
    columns, history = len(description["columns"]), description["history"]
    read_vectors = _read_vectors({"size": columns})

    def read(items: list[Any]) -> Feed:
        rows = [_vectors(item, columns) for item in items]
        if not all(map(len, rows)):
            raise ModelError("a series has no rows")
        starts = [max(0, len(row) - history) if history else 0 for row in rows]
        feed, _ = read_vectors([row[start:] for row, start in zip(rows, starts, strict=True)])
        if description["previous"]:
            feed["previous"] = np.stack([row[max(start - 1, 0)] for row, start in zip(rows, starts, strict=True)])
        return feed, []

    return read


INPUTS: dict[str, Callable[[dict[str, Any]], Read]] = {
    "text": _read_texts,
    "source": _read_sources,
    "words": _read_words,
    "vectors": _read_vectors,
    "series": _read_series,
}


# Answers: from the outputs of the graph to what ``seqloom predict --json`` prints


def _classes(output: dict[str, Any], outputs: dict[str, Array], _lengths: list[int], _words: Any) -> list[Any]:
    answers = []
    for row in outputs["probabilities"]:
        probabilities = dict(zip(output["labels"], row.tolist(), strict=True))
        best = int(row.argmax())
        answers.append(
            {"label": output["labels"][best], "probability": float(row[best]), "probabilities": probabilities}
        )
    return answers


def _numbers(output: dict[str, Any], outputs: dict[str, Array], _lengths: list[int], _words: Any) -> list[Any]:
    rounded = _round(outputs["numbers"], output["deviations"])
    return [{"values": dict(zip(output["names"], row.tolist(), strict=True))} for row in rounded]


def _step_numbers(
    output: dict[str, Any], outputs: dict[str, Array], lengths: list[int], words: list[list[str]]
) -> list[Any]:
    rounded = _round(outputs["numbers"], output["deviations"])
    return [
        {
            "words": sentence,
            "values": dict(zip(output["names"], row[:length].T.tolist(), strict=True)),
        }
        for row, length, sentence in zip(rounded, lengths, words or [[]] * len(lengths), strict=True)
    ]


def _tags(output: dict[str, Any], outputs: dict[str, Array], lengths: list[int], words: list[list[str]]) -> list[Any]:
    names = output["labels"]
    rows = zip(outputs["labels"], outputs["probabilities"], lengths, words or [[]] * len(lengths), strict=True)
    return [
        {
            "words": sentence,
            "labels": [names[label] for label in labels[:length].tolist()],
            "probabilities": probabilities[:length].tolist(),
        }
        for labels, probabilities, length, sentence in rows
    ]


def _forecast(output: dict[str, Any], outputs: dict[str, Array], lengths: list[int], _words: Any) -> list[Any]:
    values, levels = outputs["forecast"], output["levels"]
    quantiles = np.moveaxis(outputs["quantiles"], -1, 0) if levels else None  # (levels, B, T or 1, horizon, columns)
    if output["deviations"] is not None:
        values = _round(values, output["deviations"])
        quantiles = None if quantiles is None else _round(quantiles, output["deviations"])
    answers = []
    for row, length in enumerate(lengths):
        last = length - 1 if output["every_step"] else 0
        answers.append(
            {
                "columns": output["columns"],
                "values": values[row, last].tolist(),
                "steps": values[row, :length].tolist() if output["every_step"] else [],
                "quantiles": {}
                if quantiles is None
                else {f"{level:g}": quantiles[place, row, last].tolist() for place, level in enumerate(levels)},
            }
        )
    return answers


def _round(values: Array, deviations: Sequence[float]) -> Array:
    """Values without the digits that single precision does not determine, given the deviation of each column."""
    decimals = np.maximum(5 - np.floor(np.log10(deviations)), 0).astype(int).tolist()
    return np.stack([values[..., column].round(count) for column, count in enumerate(decimals)], axis=-1)


ANSWERS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "classes": _classes,
    "numbers": _numbers,
    "step_numbers": _step_numbers,
    "tags": _tags,
    "forecast": _forecast,
}


# Text


class Tokenizer:
    """Text → ids → text: characters, words or subwords."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.unit, self.split, self.lowercase = (description[name] for name in ("unit", "split", "lowercase"))
        self.tokens: list[str] = description["vocabulary"]["tokens"]
        self._first_text_id = 2 + len(description["specials"])
        ids = {token: index for index, token in enumerate(self.tokens)}
        self._subwords: BytePairs | Unigram | None = None
        if self.unit == "subwords":
            model = json.loads(description["tokenizer"])["model"]
            self._subwords = BytePairs(model) if model["type"] == "BPE" else Unigram(model)
            self._ids = ids
        else:
            self._ids = {token: index for token, index in ids.items() if token not in RESERVED}

    def encode(self, text: str) -> list[int]:
        """The ids of the tokens of a text."""
        if self.lowercase:
            text = text.lower()
        if self._subwords is not None:
            pieces = self._subwords.encode(text)
        elif self.unit == "words":
            pieces = split_words(text) if self.split == "punctuation" else text.split()
        else:
            pieces = list(text)
        return [self._ids.get(piece, UNKNOWN) for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without padding and special tokens."""
        kept = [index for index in ids if index == UNKNOWN or index >= self._first_text_id]
        tokens = [self.tokens[index] for index in kept]
        if self._subwords is not None:
            return self._subwords.decode(tokens)
        if self.unit == "words":
            return join_words(tokens) if self.split == "punctuation" else " ".join(tokens)
        return "".join("\ufffd" if index == UNKNOWN else token for index, token in zip(kept, tokens, strict=True))

    def readable(self, index: int) -> str:
        """A token as it appears in a text; subwords store spaces and bytes as other characters."""
        token = self.tokens[index]
        if self._subwords is None or index < self._first_text_id:
            return token
        return token.replace("▁", " ") if "▁" in token else self.decode([index]) or token


CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
IDEOGRAPH = re.compile(f"[{CJK}、。！？，；：（）「」『』【】]")
NO_BLANK_BEFORE = frozenset(",.!?;:)]}%…»”’،؛؟、。！？，；：）」』】〉》‥")
NO_BLANK_AFTER = frozenset("([{«“‘¿¡$£€¥#@（「『【〈《„")
NO_BLANK_AROUND = frozenset("/\\")
CLOSING = {'"': '"', "“": "„"}
OPENING = frozenset(CLOSING.values())
LAST_MARK = 0x1F000


@cache
def _word_pattern() -> "re.Pattern[str]":
    """Addresses, abbreviations, numbers, endings, words with hyphens and apostrophes, and single marks."""
    marks = "".join(chr(code) for code in range(LAST_MARK) if unicodedata.category(chr(code)).startswith("M"))
    letter = f"(?:[^\\W\\d_{CJK}]|[{marks}])"
    word = f"(?:{letter}|[\\d_])"
    return re.compile(
        "|".join(
            (
                r"https?://\S*[^\s.,;:!?'\")\]}>]",
                r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
                r"[@#]\w+",
                r"<[a-zA-Z_]+>",
                f"[{CJK}][{marks}]*",
                rf"(?:{letter}\.){{2,}}",
                r"\d+(?:[.,:]\d+)+(?!\w)",
                r"['’](?:s|re|ve|ll|d|m|t|em)(?!\w)",
                rf"{word}+(?:['’·-]{word}+)*(?:-$)?",
                r"\.{2,}|-{2,}|`{2}|'{2}",
                rf"[^\w\s][{marks}\u200d]*",
            )
        )
    )


def split_words(text: str) -> list[str]:
    """The words and the punctuation marks of a text."""
    return [token for word in text.split() for token in _split(word)]


@lru_cache(1 << 16)
def _split(word: str) -> tuple[str, ...]:
    return (word,) if word.isascii() and word.isalnum() else tuple(_word_pattern().findall(word))


def join_words(tokens: Iterable[str]) -> str:
    """A text with blanks where they are usual between these words and punctuation marks."""
    text, glue = "", True
    opened: set[str] = set()  # quotation marks that wait for the second of a pair
    for token in tokens:
        closing = CLOSING.get(token, "") in opened
        near = token[:1] in NO_BLANK_BEFORE or token[:1] in NO_BLANK_AROUND or closing
        wide = all(IDEOGRAPH.search(letter) for letter in (token[:1], text[-1:]))
        text += token if glue or near or wide or not text else f" {token}"
        opens = not closing and token in OPENING
        if closing:
            opened.discard(CLOSING[token])
        elif opens:
            opened.add(token)
        glue = token[-1:] in NO_BLANK_AROUND or opens or (token in NO_BLANK_AFTER and not closing)
    return text


SPACES = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))
SPACE = re.compile(f"[{''.join(sorted(SPACES))}]+")
ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


@cache
def _byte_letters() -> dict[int, str]:
    """The letter that stands for each byte: itself if it is printable, otherwise one from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(256) if byte not in printable)
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}


class BytePairs:
    """Byte-level byte pair encoding (Sennrich et al. 2016)."""

    def __init__(self, model: dict[str, Any]) -> None:
        merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._pieces = model["vocab"].keys()
        self._merged = lru_cache(1 << 14)(self._merge)

    def encode(self, text: str) -> list[str]:
        letters = _byte_letters()
        parts = ("".join(letters[byte] for byte in part.encode()) for part in _byte_level_parts(text))
        return [piece for part in parts for piece in self._merged(part)]

    def _merge(self, part: str) -> tuple[str, ...]:
        pieces = list(part)
        while len(pieces) > 1:
            ranks = [self._ranks.get(pair, math.inf) for pair in pairwise(pieces)]
            rank = min(ranks)
            if rank == math.inf:
                break
            index = ranks.index(rank)
            pieces[index : index + 2] = [pieces[index] + pieces[index + 1]]
        return tuple(pieces)

    def decode(self, pieces: Iterable[str]) -> str:
        values = {letter: byte for byte, letter in _byte_letters().items()}
        known = (piece for piece in pieces if piece in self._pieces)
        return bytes(values[letter] for piece in known for letter in piece).decode(errors="replace")


def _byte_level_parts(text: str) -> Iterator[str]:
    """The parts that are encoded one by one: endings, letters, digits, others with a blank before them, and blanks."""
    start = 0
    while start < len(text):
        ending = next((ending for ending in ENDINGS if text.startswith(ending, start)), "")
        if ending:
            yield ending
            start += len(ending)
            continue
        first = start + (text[start] == " " and start + 1 < len(text) and text[start + 1] not in SPACES)
        kind = _kind(text[first])
        stop = first
        while stop < len(text) and _kind(text[stop]) == kind:
            stop += 1
        if kind == "space" and stop < len(text) and stop - start > 1:
            stop -= 1  # the last blank belongs to what follows
        yield text[start:stop]
        start = stop


def _kind(letter: str) -> str:
    if letter in SPACES:
        return "space"
    category = unicodedata.category(letter)[0]
    return category if category in "LN" else "other"


class Unigram:
    """The most probable subwords (Kudo 2018); ▁ stands for a space."""

    def __init__(self, model: dict[str, Any]) -> None:
        self._scores: dict[str, float] = dict(map(tuple, model["vocab"]))
        self._unknown: str = model["vocab"][model["unk_id"]][0]
        self._unknown_score = min(self._scores.values()) - 10
        self._longest = max(map(len, self._scores))

    def encode(self, text: str) -> list[str]:
        text = SPACE.sub(" ", unicodedata.normalize("NFKC", text)).strip(" ")
        words = [word for word in re.split("(?=▁)", "▁" * (not text.startswith("▁")) + text.replace(" ", "▁")) if word]
        return [piece for word in words for piece in self._best(word)] if text else []

    def _best(self, word: str) -> list[str]:
        """The pieces of a word with the largest sum of scores; neighbouring unknown letters are one piece."""
        best: list[tuple[float, int]] = [(0.0, 0)] + [(-math.inf, 0)] * len(word)  # score, start of the last piece
        for start in range(len(word)):
            score = best[start][0]
            has_single = False
            for stop in range(start + 1, min(len(word), start + self._longest) + 1):
                piece = self._scores.get(word[start:stop])
                if piece is not None:
                    has_single = has_single or stop == start + 1
                    if score + piece > best[stop][0]:
                        best[stop] = score + piece, start
            if not has_single and score + self._unknown_score > best[start + 1][0]:
                best[start + 1] = score + self._unknown_score, start
        pieces: list[str] = []
        stop = len(word)
        while stop:
            start = best[stop][1]
            known = word[start:stop] in self._scores
            if not known and pieces and pieces[-1] == "":
                pass
            else:
                pieces.append(word[start:stop] if known else "")
            stop = start
        return [piece or self._unknown for piece in reversed(pieces)]

    def decode(self, pieces: Iterable[str]) -> str:
        return "".join(pieces).replace("▁", " ").removeprefix(" ")


def _shorten(value: Any) -> Any:
    """Numbers without the digits that single precision does not determine."""
    if isinstance(value, dict):
        return {name: _shorten(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shorten(part) for part in value]
    if not isinstance(value, float) or not math.isfinite(value) or not value:
        return value
    single = np.float32(value)
    if float(single) == value:
        return float(str(single))
    return round(value, max(8 - math.floor(math.log10(abs(value))), 6))


def main(arguments: Sequence[str]) -> int:
    """Answer the lines of standard input."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        model = load(arguments[0])
        series = model.description["input"]["kind"] in ("vectors", "series")
        lines = (line.rstrip("\r\n") for line in sys.stdin)
        for answer in model.stream(map(json.loads, lines) if series else lines):
            print(json.dumps(_shorten(answer), ensure_ascii=False))
    except json.JSONDecodeError as error:
        print(f"seqloom_runtime: expected an array (time, size) as JSON on each line: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"seqloom_runtime: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except ModelError as error:
        print(f"seqloom_runtime: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
