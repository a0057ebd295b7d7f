"""Run models that ``seqloom export`` has written, with NumPy and onnxruntime only: without Seqloom, without PyTorch.

    import seqloom_runtime

    model = seqloom_runtime.load("tagger.onnx")
    model.predict(["the clouds are in the sky"])

or, for the lines of standard input, each answered as a line of JSON::

    python seqloom_runtime.py tagger.onnx < sentences.txt

Models of sound, images and videos read the names of files.

The answers are those of ``seqloom predict --json``. ``generate`` of a language model gives the text of ``seqloom
generate``. This file is complete in itself: copy it next to your model.
"""

import io
import json
import math
import re
import struct
import sys
import unicodedata
from base64 import b64decode
from bisect import insort_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import sha256
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

FORMAT = 1  # of the description in a file; a larger one needs a newer runtime
CHECKSUM_ENTRY = 76  # bytes at the end of a file: the entry sha256 of its metadata
PADDING, UNKNOWN = 0, 1
BLANK = 0  # of CTC
END = "</s>"  # the boundary of texts
MASK = "[MASK]"  # stands for a hidden token in a text
RESERVED = ("<pad>", "<s>", "</s>")  # unknown if they occur in a text
BATCH = 32  # inputs that are computed at once
EMPTY_INPUT = "the input is empty, so that this answer says nothing about it"
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
    if description["output"]["kind"] in ("tokens", "transcript"):
        parts = {name: path.with_suffix(f".{name}.onnx") for name in ("encoder", "step", "lm")}
        sessions = {name: _open(part, threads) for name, part in parts.items() if part.exists()}
        generator = Transcriber if description["output"]["kind"] == "transcript" else Translator
        return generator(session, description, metadata, sessions)
    kinds = {
        "next_token": LanguageModel,
        "both_directions": BidirectionalLanguageModel,
        "masked": MaskedLanguageModel,
        "music": Music,
        "strokes": Handwriting,
    }
    return kinds.get(description["output"]["kind"], Model)(session, description, metadata)


def _open(path: Path, threads: int) -> Any:
    if not _is_intact(path):
        raise ModelError(f"{path}: is damaged, or was not written by seqloom export (its checksum is wrong)")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _is_intact(path: Path) -> bool:
    """Whether the checksum at the end of a file is that of what stands before it."""
    digest, left = sha256(), path.stat().st_size - CHECKSUM_ENTRY
    with path.open("rb") as file:  # in pieces: a file with word vectors is large
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
        entry = file.read()
    return entry.startswith(b"\x72\x4a\x0a\x06sha256\x12\x40") and entry[12:] == digest.hexdigest().encode()


class Model:
    """An exported model: ``predict`` answers for texts, words, vectors, series, sound, images or videos."""

    def __init__(self, session: Any, description: dict[str, Any], metadata: dict[str, str]) -> None:
        self.session, self.description, self.metadata = session, description, metadata
        self.task: str = description["task"]
        self._read = INPUTS[description["input"]["kind"]](description["input"])
        self._answer: Callable[..., list[dict[str, Any]]] | None = ANSWERS.get(description["output"]["kind"])

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """An answer for each input: a text, a list of words, an array or the name of a file."""
        if isinstance(inputs, str):
            raise ModelError("expected a list of inputs, found one text: predict([text])")
        return list(self.stream(inputs))

    def stream(self, inputs: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """The answers one by one; inputs are read as they are needed."""
        batch: list[Any] = []
        for item in inputs:
            batch.append(item)
            if len(batch) == BATCH:
                yield from self._with_warnings(batch)
                batch = []
        if batch:
            yield from self._with_warnings(batch)

    def _with_warnings(self, items: list[Any]) -> Iterator[dict[str, Any]]:
        """The answers to some inputs; those to empty texts, which say nothing about them, come with a warning."""
        for item, answer in zip(items, self._predict(items), strict=True):
            is_empty = isinstance(item, str) and not item.strip() and self.task != "language_model"
            yield {**answer, "warning": EMPTY_INPUT} if is_empty else answer

    def check(self, item: Any) -> None:
        """Raise ModelError if the model cannot read an input."""
        self._read([item])

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        feed, words = self._read(items)
        outputs = self.run(feed)
        assert self._answer is not None  # noqa: S101  only language models have none
        return self._answer(self.description["output"], outputs, self._lengths(feed), words)

    def _lengths(self, feed: dict[str, Array]) -> list[int]:
        """The number of elements of each input that get an answer."""
        if "samples" not in feed:
            return feed["lengths"].tolist() if "lengths" in feed else []
        window, hop = self.description["input"]["window"], self.description["input"]["hop"]
        frames: list[int] = ((feed["lengths"] - window) // hop + 1).tolist()
        return frames

    def run(self, feed: dict[str, Array]) -> dict[str, Array]:
        """The outputs of the graph by name, for its inputs by name."""
        names = [port.name for port in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, feed), strict=True))


class GeneratedToken(NamedTuple):
    """A token that was sampled from a language model."""

    text: str  # what it adds to the text; empty within a character of several bytes
    token: str  # empty: the rest of a text that ended within such a character
    log_probability: float = 0.0  # by the model, before temperature and truncation
    alternatives: tuple[tuple[str, float], ...] = ()  # the most probable tokens


class Stateful(Model):
    """A model that is run step by step, with its state as an input and an output."""

    def __init__(self, session: Any, description: dict[str, Any], metadata: dict[str, str]) -> None:
        super().__init__(session, description, metadata)
        self._states = description["output"]["states"]

    def start(self, batch: int) -> dict[str, Array]:
        """The state before the first element."""
        return {
            field["input"]: np.zeros((batch, *(size or 0 for size in field["shape"])), field["dtype"])
            for field in self._states
        }

    def advance(self, feed: dict[str, Array], state: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """The outputs for some elements, and the state after them."""
        outputs = self.run({**feed, **state})
        return outputs, {field["input"]: outputs.pop(field["output"]) for field in self._states}


class LanguageModel(Stateful):
    """A language model: ``predict`` scores texts, ``generate`` continues one."""

    def __init__(self, session: Any, description: dict[str, Any], metadata: dict[str, str]) -> None:
        super().__init__(session, description, metadata)
        self.tokenizer = Tokenizer(description["input"]["tokenizer"])
        self._end: int = description["output"]["end"]

    def step(
        self,
        tokens: Array,  # (B, T)
        state: dict[str, Array],
        lengths: Array | None = None,  # (B,); None: all are T long
    ) -> tuple[Array, dict[str, Array]]:  # log-probabilities (B, T, V), state
        """The log-probabilities of the token after each one, and the state after the last."""
        lengths = np.full(len(tokens), tokens.shape[1]) if lengths is None else lengths
        feed = {"tokens": tokens.astype(np.int64), "lengths": lengths.astype(np.int64)}
        outputs, state = self.advance(feed, state)
        return outputs["log_probabilities"], state

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        texts = [[self._end, *self.tokenizer.encode(_text(item)), self._end] for item in items]
        tokens, lengths = _pad([text[:-1] for text in texts])
        scores, _ = self.step(tokens, self.start(len(texts)), lengths)
        answers = []
        for row, text in enumerate(texts):
            targets = np.array(text[1:])
            answers.append(_text_score(scores[row, np.arange(len(targets)), targets].tolist()))
        return answers

    def generate(
        self,
        prompt: str = "",
        *,
        length: int = 300,  # maximum number of tokens
        lines: int = 1,  # stop after this many ends of a line; 0: only at the length
        temperature: float = 1.0,  # 0: always the most probable token
        top_k: int = 0,  # sample from the k most probable tokens; 0: all
        top_p: float = 1.0,  # sample from the most probable tokens with this total probability
        min_p: float = 0.0,  # minimum probability relative to the most probable token
        seed: int = 1,
    ) -> Iterator[str]:
        """Sample a continuation of the prompt, and yield it as it grows: that of ``seqloom generate``."""
        options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
        tokens = self.generate_tokens(prompt, length=length, lines=lines, seed=seed, **options)
        return (token.text for token in tokens)

    def generate_tokens(
        self,
        prompt: str,
        *,
        length: int,
        lines: int = 1,
        alternatives: int = 0,  # most probable tokens to return with each
        **options: Any,  # as of ``generate``
    ) -> Iterator[GeneratedToken]:
        """The same with the log-probability of each token."""
        defaults: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 1}
        choose = Sampler(**(defaults | options))
        return self._sample(prompt, length, choose, lines=lines, alternatives=alternatives)

    def score_tokens(self, text: str, *, alternatives: int = 0) -> Iterator[GeneratedToken]:
        """The tokens of the lines of a text with their log-probabilities."""
        first, *others = map(self.tokenizer.encode, text.split("\n"))
        tokens = [*first, *(token for line in others for token in (self._end, *line))]
        following = iter(tokens)
        return self._sample("", len(tokens), lambda _: next(following), lines=0, alternatives=alternatives)

    def _sample(
        self, prompt: str, length: int, choose: Callable[[Array], int], *, lines: int, alternatives: int
    ) -> Iterator[GeneratedToken]:
        readable = self.tokenizer.readable

        def described(text: str, token: int, scores: Array) -> GeneratedToken:
            best = np.argsort(-scores, kind="stable")[:alternatives].tolist()
            pairs = tuple((readable(index), float(scores[index])) for index in best)
            return GeneratedToken(text, readable(token), float(scores[token]), pairs)

        *earlier, line = (self.tokenizer.encode(text) for text in prompt.split("\n"))
        *context, last = [self._end, *(token for text in earlier for token in (*text, self._end)), *line]
        state = self.start(1)
        if context:
            _, state = self.step(np.array([context]), state)
        printed, ended = self.tokenizer.decode(line), 0
        for _ in range(length):
            table, state = self.step(np.array([[last]]), state)
            scores = table[0, -1]
            allowed = scores.copy()
            allowed[PADDING] = -np.inf
            last = choose(allowed)
            if last == self._end:
                yield described(self.tokenizer.decode(line)[len(printed) :] + "\n", last, scores)
                line, printed, ended = [], "", ended + 1
                if ended == lines:
                    return
                continue
            line.append(last)
            text = self.tokenizer.decode(line).rstrip("\ufffd")  # an incomplete multi-byte character
            yield described(text[len(printed) :], last, scores)
            printed += text[len(printed) :]
        if rest := self.tokenizer.decode(line)[len(printed) :]:
            yield GeneratedToken(rest, "")


class BidirectionalLanguageModel(Model):
    """A language model of both directions: ``predict`` scores texts."""

    def __init__(self, session: Any, description: dict[str, Any], metadata: dict[str, str]) -> None:
        super().__init__(session, description, metadata)
        self._reader = LanguageModelText(description["input"])
        self.tokenizer = self._reader.tokenizer

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        words = [self.tokenizer.cased_tokens(_text(item)) for item in items]
        ids = [*map(self.tokenizer.encode, items)]
        name = "characters" if self._reader.reads_characters else "tokens"
        lengths = np.array([1 + len(row) for row in words], dtype=np.int64)
        outputs = self.run({name: self._reader.read(words, ids), "lengths": lengths})
        end, answers = self._reader.end, []
        for row, tokens in enumerate(ids):
            steps = np.arange(len(tokens) + 1)
            forward = outputs["log_probabilities"][row, steps, np.array([*tokens, end])].tolist()
            backward = outputs["backward_log_probabilities"][row, steps, np.array([*tokens[::-1], end])].tolist()
            score = _text_score([*forward, *backward])
            score |= {"log_probability": score["log_probability"] / 2, "log_probabilities": forward}
            answers.append({**score, "backward": backward[::-1]})
        return answers


class MaskedLanguageModel(Model):
    """A masked language model: ``predict`` fills each [MASK] of a text, or scores a text without any."""

    def __init__(self, session: Any, description: dict[str, Any], metadata: dict[str, str]) -> None:
        super().__init__(session, description, metadata)
        self._reader = LanguageModelText(description["input"])
        self.tokenizer = self._reader.tokenizer

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        texts = [self._parts(_text(item)) for item in items]
        rows = [self._tokens(parts) for parts in texts]
        tables = self._tables(rows)
        answers = []
        for (words, ids), parts, table in zip(rows, texts, tables, strict=True):
            hidden = [1 + place for place, word in enumerate(words) if word == MASK]
            answers.append(self._fill(parts, table[hidden]) if len(parts) > 1 else self._score(words, ids))
        return answers

    def _tables(self, rows: "list[tuple[list[str], list[int]]]") -> Array:  # (B, T, V)
        """The log-probabilities of the tokens at each place, the boundary token first."""
        name = "characters" if self._reader.reads_characters else "tokens"
        lengths = np.array([1 + len(ids) for _, ids in rows], dtype=np.int64)
        values = self._reader.read([words for words, _ in rows], [ids for _, ids in rows])
        return self.run({name: values, "lengths": lengths})["log_probabilities"]

    def _parts(self, text: str) -> list[str]:
        """The text before, between and after its [MASK]s; the space before a subword is a part of the subword."""
        *before, last = text.split(MASK)
        return [*(part.rstrip() if self.tokenizer.unit == "subwords" else part for part in before), last]

    def _tokens(self, parts: list[str]) -> tuple[list[str], list[int]]:
        """The tokens of a text as they are written, and their ids."""
        words: list[str] = []
        ids: list[int] = []
        for number, part in enumerate(parts):
            words += [MASK] * (number > 0)
            ids += [self.description["output"]["mask"]] * (number > 0)
            words += self.tokenizer.cased_tokens(part)
            ids += self.tokenizer.encode(part)
        return words, ids

    def _fill(self, parts: list[str], table: Array) -> dict[str, Any]:  # (masks, V)
        start = self.tokenizer.first_text_id
        masks = []
        for scores in table[:, start:]:
            best = np.argsort(-scores, kind="stable")[: self.description["output"]["nbest"]].tolist()
            pairs = ((self.tokenizer.readable(start + index), math.exp(scores[index])) for index in best)
            masks.append([{"token": token, "probability": probability} for token, probability in pairs])
        text = parts[0] + "".join(f"{mask[0]['token']}{part}" for mask, part in zip(masks, parts[1:], strict=True))
        return {"text": text.strip(), "masks": masks}

    def _score(self, words: list[str], ids: list[int]) -> dict[str, Any]:
        """The log-probability of each token given all others, by hiding one after the other."""
        values: list[float] = []
        for start in range(0, len(words), BATCH):
            places = range(start, min(start + BATCH, len(words)))
            mask = self.description["output"]["mask"]
            copies = [
                ([*words[:place], MASK, *words[place + 1 :]], [*ids[:place], mask, *ids[place + 1 :]])
                for place in places
            ]
            tables = self._tables(copies)
            values += [float(table[1 + place, ids[place]]) for place, table in zip(places, tables, strict=True)]
        return _text_score(values)


class Music(Stateful):
    """A model of music: ``predict`` gives the likelihood of pieces, ``compose`` plays new ones.

    A piece is an array (frames, 88) of 0 and 1, or for each frame a list of the MIDI numbers that sound.
    """

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        feed, _ = self._read(items)
        outputs, _ = self.advance(feed, self.start(len(items)))
        rows = zip(outputs["log_probabilities"], feed["lengths"].tolist(), strict=True)
        return [_likelihood(values[:length].tolist()) for values, length in rows]

    def compose(
        self,
        *,
        count: int = 1,
        length: int = 0,  # frames; 0: as many as a piece of the training data has on average
        temperature: float = 1.0,  # below 1: fewer surprises; 0: only notes that are more probable than not
        seed: int = 1,
        prime: Any = None,  # a piece to continue; its frames come first
    ) -> list[Array]:
        """Pieces (frames, 88): those of ``compose`` of Seqloom with the same seed."""
        if count < 1 or length < 0 or not 0 <= temperature < math.inf:
            raise ModelError(
                f"expected count ≥ 1, length ≥ 0 and temperature ≥ 0, found {count}, {length} and {temperature}"
            )
        random, keys = TorchRandom(seed), self.description["input"]["keys"]
        given = np.zeros((0, keys)) if prime is None else _keys(prime, self.description["input"])
        pieces = np.repeat(given[None], count, axis=0).astype(np.float32)
        frame, state = np.zeros((count, 1, keys), np.float32), self.start(count)
        if len(given):
            _, state = self._advance(np.concatenate([frame, pieces[:, :-1]], axis=1), state)
            frame = pieces[:, -1:]
        played = [pieces]
        for _ in range(length or self.description["output"]["length"]):
            outputs, state = self._advance(frame, state)
            frame = self._draw(outputs, temperature, random)[:, None]
            played.append(frame)
        return list(np.concatenate(played, axis=1).astype(np.uint8))

    def _advance(self, frames: Array, state: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        lengths = np.full(len(frames), frames.shape[1])
        return self.advance({"frames": frames, "following": np.zeros_like(frames), "lengths": lengths}, state)

    def _draw(self, outputs: dict[str, Array], temperature: float, random: "TorchRandom") -> Array:  # (B, K)
        """The keys of the next frame; with a joint distribution, one after the other."""
        bias, weights = outputs["bias"][:, -1], self.description["output"]["nade"]
        if weights is None:
            return random.bernoulli(bias, temperature)
        units = outputs["unit_bias"][:, -1]
        inputs, outs = (_array(weights[name], "<f4").reshape(-1, units.shape[1]) for name in ("inputs", "outputs"))
        drawn = np.zeros_like(bias)
        for key in range(bias.shape[1]):
            drawn[:, key] = random.bernoulli(bias[:, key] + np.tanh(units) @ outs[key], temperature)
            units = units + drawn[:, key, None] * inputs[key]
        return drawn

    def midi(self, piece: Array) -> bytes:
        """A piece as a Standard MIDI File."""
        output, division = self.description["output"], 480
        ticks = division / output["frames_per_beat"]
        changes = np.diff(np.pad(np.asarray(piece, np.int8), ((1, 1), (0, 0))), axis=0)  # 1: starts, -1: ends
        track = bytearray(b"\x00\xff\x51\x03" + round(60e6 / output["tempo"]).to_bytes(3, "big"))
        before = 0
        for frame, key in zip(*np.nonzero(changes), strict=True):
            tick, velocity = round(int(frame) * ticks), 80 if changes[frame, key] > 0 else 0
            number = int(key) + self.description["input"]["lowest"]
            track += _variable_length(tick - before) + bytes((0x90, number, velocity))
            before = tick
        track += _variable_length(round(len(piece) * ticks) - before) + b"\xff\x2f\x00"
        return (
            b"MThd" + struct.pack(">IHHH", 6, 0, 1, division) + b"MTrk" + struct.pack(">I", len(track)) + bytes(track)
        )


def _variable_length(value: int) -> bytes:
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


def _likelihood(values: list[float]) -> dict[str, Any]:
    return {"nll": -math.fsum(values) / max(len(values), 1), "log_likelihoods": values}


class Handwriting(Stateful):
    """A model of pen strokes: ``predict`` gives the likelihood of drawings, ``draw`` makes new ones.

    A drawing is an array (points, 3): dx, dy, and 1 where the pen is lifted. A model that writes texts reads pairs of a
    drawing and its text.
    """

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        feed, texts = self._read(items)
        outputs, _ = self.advance(feed, self.start(len(items)))
        answers = []
        for row, length in enumerate(feed["lengths"].tolist()):
            parts = {name: outputs[name][row, :length].astype(np.float64) for name in PEN_OUTPUTS}
            movement = feed["points"][row, 1:length, :2] / self.description["output"]["scale"]
            density = _log_density(parts, np.concatenate([movement, np.zeros((1, 2))]))[:-1]
            pens = np.append(feed["points"][row, 1:length, 2] > 0, 2).astype(np.int64)
            values = parts["log_pen"][np.arange(length), pens]
            values[:-1] += density - 2 * math.log(self.description["output"]["scale"])
            answers.append(_likelihood(values.tolist()) | {"text": "".join(texts[row])})
        return answers

    def draw(
        self,
        text: str = "",
        *,
        count: int = 1,
        bias: float = 0.0,  # 0: as varied as the training data; larger: tidier
        length: int = 0,  # maximum number of points; 0: by the training data
        seed: int = 1,
        prime: Any = None,  # a drawing, or a pair of one and its text, whose style the drawings continue
    ) -> list[Array]:
        """Drawings (points, 3), or the text in handwriting: those of ``draw`` of Seqloom with the same seed."""
        output, known = self.description["output"], self.description["input"]["characters"]
        if count < 1 or length < 0 or not 0 <= bias < math.inf:
            raise ModelError(f"expected count ≥ 1, length ≥ 0 and bias ≥ 0, found {count}, {length} and {bias}")
        if bool(text) != bool(known):
            raise ModelError(
                "this model writes texts: say which" if known else "this model draws freely, without a text"
            )
        given, before = (np.zeros((0, 3)), "") if prime is None else _drawing(prime)
        shown = before + text
        if unknown := sorted(set(shown) - set(known)) if known else []:
            raise ModelError(f"the training data have no {', '.join(map(repr, unknown))}")
        source = self._text([shown] * count)
        point, state = np.zeros((count, 1, 3)), self.start(count)
        if len(given):
            earlier = np.repeat(given[None], count, axis=0)
            _, state = self._advance(np.concatenate([point, earlier[:, :-1]], axis=1), source, state)
            point = earlier[:, -1:]
        random, active, is_first = TorchRandom(seed), np.ones(count, np.bool_), not len(given)
        drawings: list[list[Array]] = [[] for _ in range(count)]
        for _ in range(length or math.ceil(output["longest"] * max(1.0, len(text) / 10))):
            outputs, state = self._advance(point, source, state)
            beyond = outputs["centre"] - (len(shown) - 1) if known else np.zeros(count)
            goes_on = (beyond < -output["at_end"]) | is_first
            movement, pen = _sample_pen(outputs, bias, goes_on, random)
            active, is_first = active & (pen != 2) & (goes_on | (beyond < output["past_end"])), False
            if not active.any():
                break
            moved = movement * np.float32(output["scale"])
            point = np.concatenate([moved, (pen == 1)[:, None]], axis=1).astype(np.float64)[:, None]
            point[~active] = 0
            for row in np.flatnonzero(active).tolist():
                drawings[row].append(point[row, 0])
        return [np.array(drawing, np.float32).reshape(-1, 3) for drawing in drawings]

    def _text(self, texts: list[str]) -> dict[str, Array]:
        return _letters(texts, self.description["input"])

    def _advance(
        self, points: Array, source: dict[str, Array], state: dict[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        lengths = np.full(len(points), points.shape[1])
        return self.advance({"points": points, "lengths": lengths, **source}, state)


PEN_OUTPUTS = ("log_weights", "means", "deviations", "correlations", "log_pen")


def _letters(texts: list[str], description: dict[str, Any]) -> dict[str, Array]:
    """The ids of characters and of the end of the text; 0 is an unknown one. Nothing for a model without texts."""
    known: list[str] = description["characters"]
    if not known:
        return {}
    ids = {letter: number for number, letter in enumerate(known, start=1)}
    end = [len(known) + 1] if description.get("end_of_text") else []
    values, lengths = _pad([[ids.get(letter, 0) for letter in text] + end for text in texts])
    return {"characters": values, "text_lengths": lengths}


def _log_density(parts: dict[str, Array], movement: Array) -> Array:  # (T, 2) → (T,)
    """The logarithm of the density of movements under mixtures of Gaussians."""
    x, y = np.moveaxis((movement[:, None] - parts["means"]) / parts["deviations"], -1, 0)
    rest = 1 - parts["correlations"] ** 2
    exponent = (x**2 + y**2 - 2 * parts["correlations"] * x * y) / (2 * rest)
    norm = math.log(2 * math.pi) + np.log(parts["deviations"]).sum(axis=-1) + 0.5 * np.log(rest)
    return _log_sum(parts["log_weights"] - exponent - norm)


def _log_softmax(values: Array) -> Array:
    shifted = values - values.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def _sample_pen(
    outputs: dict[str, Array], bias: float, go_on: Array, random: "TorchRandom"
) -> tuple[Array, Array]:  # (B, 2), (B,)
    """A movement, in units of the usual one, and a state of the pen: 0 draws, 1 is lifted, 2 ends."""
    weights, means, deviations, correlations, pens = (outputs[name][:, -1] for name in PEN_OUTPUTS)
    if bias:
        weights, deviations = _log_softmax(weights * np.float32(1 + bias)), deviations * np.float32(math.exp(-bias))
    pens = pens.copy()
    pens[go_on, 2] = -np.inf
    pen, component = random.choose(np.exp(_log_softmax(pens))), random.choose(np.exp(weights))
    rows = np.arange(len(pen))
    mean, deviation, correlation = means[rows, component], deviations[rows, component], correlations[rows, component]
    noise = random.normal(2 * len(pen)).reshape(-1, 2)
    y = correlation * noise[:, 0] + np.sqrt(1 - correlation**2) * noise[:, 1]
    return mean + deviation * np.stack([noise[:, 0], y], axis=-1), pen


class Generator(Model):
    """A model with a decoder that generates tokens one by one."""

    def __init__(
        self,
        session: Any,
        description: dict[str, Any],
        metadata: dict[str, str],
        parts: dict[str, Any],  # sessions of the encoder and of one step, for searches outside the graph
    ) -> None:
        super().__init__(session, description, metadata)
        self.tokenizer = Tokenizer(description["output"]["tokenizer"])
        self.search: dict[str, Any] = description["output"]["search"]
        """The settings of the search; {"name": "greedy"} and {"name": "best_path"} need no further files."""
        self._parts = parts
        guide = description["output"].get("guide")
        self.guide: Guide | None = None
        """The lexicon and the language model of the search; None: there are none, or they are not to be used."""
        if guide is not None:
            if (guide["lm"] or {}).get("kind") == "neural" and "lm" not in parts:
                raise ModelError("the language model of the search is missing: the file .lm.onnx beside the model")
            self.guide = Guide(guide, len(self.tokenizer.tokens), parts.get("lm"))

    def _greedy_in_graph(self, feed: dict[str, Array]) -> list[list["Hypothesis"]]:
        outputs, end = self.run(feed), self.description["output"]["end"]
        rows = zip(outputs["output"], outputs["log_probabilities"], outputs["limits"].tolist(), strict=True)
        return [[_greedy(tokens, values, limit, end)] for tokens, values, limit in rows]

    def _encode(self, feed: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """The state before the first token, and the other outputs of the encoder: limits, and frames of CTC."""
        if not {"encoder", "step"} <= self._parts.keys():
            raise ModelError(
                f"the search {self.search['name']} needs the files .encoder.onnx and .step.onnx beside the model: "
                "export it with --runtime, or choose another search: model.search = "
                + ('{"name": "best_path"}' if self.description["output"].get("ctc") else '{"name": "greedy"}')
            )
        encoder = self._parts["encoder"]
        names = [port.name for port in encoder.get_outputs()]
        values = dict(zip(names, encoder.run(names, feed), strict=True))
        return {field["input"]: values.pop(field["output"]) for field in self._fields}, values

    @property
    def _fields(self) -> list[dict[str, Any]]:
        fields: list[dict[str, Any]] = self.description["output"]["states"]
        return fields

    def _step(self, tokens: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        names = ["log_probabilities", *(field["output"] for field in self._fields)]
        inputs = {field["input"]: state[field["input"]] for field in self._fields}
        scores, *values = self._parts["step"].run(names, {"tokens": tokens, **inputs})
        return scores, {field["input"]: value for field, value in zip(self._fields, values, strict=True)}

    def _search(self, step: "Step", state: dict[str, Array], limits: Array) -> list[list["ScoredHypothesis"]]:
        """The n-best of each row, with the scores of the guide."""
        output, guide = self.description["output"], self.guide
        guided = None if guide is None else GuidedStep(step, guide, output["end"])
        if guided is not None:
            step, state = guided, {**state, **guided.start(len(limits))}
        beam = None
        if self.search["name"] == "greedy":
            rows = greedy(step, state, limits, end=output["end"], suppress=output["suppress"])
        else:
            beam = Beam(self.search, output["end"], output["suppress"], guided)
            rows = beam(step, state, limits)
        if guide is None or guided is None:
            return [[ScoredHypothesis(hypothesis) for hypothesis in hypotheses] for hypotheses in rows]
        return [_guided(hypotheses, guide, guided, beam) for hypotheses in rows]


class Translator(Generator):
    """An encoder-decoder: ``predict`` searches for the most probable outputs, as its configuration says."""

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        feed, _ = self._read(items)
        allowed = self.description["output"].get("allowed")
        if self.search["name"] == "greedy" and self.guide is None and allowed is None:
            rows = [[ScoredHypothesis(each) for each in row] for row in self._greedy_in_graph(feed)]
        else:
            state, others = self._encode(feed)
            step, limits = self._step, others["limits"]
            if allowed is not None:
                constrained = ConstrainedStep(step, allowed, self.description["output"]["end"])
                step, state = constrained, {**state, **constrained.start(len(items))}
                limits = np.full(len(items), 1 + max(map(len, allowed)))
            rows = self._search(step, state, limits)
        return [self._answer_of(row) for row in rows]

    def _answer_of(self, row: list["ScoredHypothesis"]) -> dict[str, Any]:
        if not row:
            raise ModelError("the search found no output that its settings allow: relax min_length or no_repeat_ngram")
        lm = None if self.guide is None else self.guide.lm
        nbest = []
        for guided in row:
            tokens, score, log_probability, log_probabilities, _ = guided.hypothesis
            candidate = {
                "text": self.tokenizer.decode(tokens),
                "score": score,
                "log_probability": log_probability,
                "tokens": [self.tokenizer.readable(token) for token in tokens],
                "log_probabilities": log_probabilities,
            }
            nbest.append(candidate if lm is None else {**candidate, "model": guided.model, "language": guided.language})
        return {name: nbest[0][name] for name in ("text", "score", "tokens", "log_probabilities")} | {"nbest": nbest}


class Transcriber(Generator):
    """A model from sound, pen strokes, lines of text or videos to text: by CTC, by a decoder, or by both."""

    def _predict(self, items: list[Any]) -> list[dict[str, Any]]:
        feed, _ = self._read(items)
        output, name = self.description["output"], self.search["name"]
        if name in ("best_path", "prefix_beam"):
            if not output["ctc"]:
                raise ModelError(f"the search {name} needs a model with CTC; this one has a decoder only")
            find = best_path if name == "best_path" else PrefixBeam(self.search, self.guide)
            return [self._answer_of(find(table)) for table in _frame_tables(self.run(feed))]
        if name == "greedy" and not output["ctc"] and self.guide is None:
            rows = [[ScoredHypothesis(hypothesis) for hypothesis in row] for row in self._greedy_in_graph(feed)]
            return [self._answer_of(self._transcripts(row, None)) for row in rows]
        if "states" not in output:
            raise ModelError(
                f"the search {name} needs a decoder; this model has CTC only: use best_path or prefix_beam"
            )
        state, others = self._encode(feed)
        if not output["ctc"]:
            nbest = self._search(self._step, state, others["limits"])
            return [self._answer_of(self._transcripts(row, None)) for row in nbest]
        scorer = CTCPrefixScorer(others["frame_log_probabilities"], others["frame_counts"], output["end"])
        weight = output["ctc_weight"]

        def step(tokens: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
            scores, following = self._step(tokens, state)
            by_frames, prefixes = scorer.step(tokens, state)
            return (1 - weight) * scores.astype(np.float64) + weight * by_frames, {**following, **prefixes}

        nbest = self._search(step, {**state, **scorer.start()}, others["limits"])
        tables = _frame_tables(others)
        return [self._answer_of(self._transcripts(*pair)) for pair in zip(nbest, tables, strict=True)]

    def _transcripts(self, row: list["ScoredHypothesis"], table: Array | None) -> list["Transcript"]:
        """The hypotheses of a decoder, with the frames of their tokens on the best path of CTC."""
        transcripts = []
        for guided in row:
            tokens, score, _, values, _ = guided.hypothesis
            frames = (None if table is None else align(table, tokens)) or []
            places = [(frames[first][0], frames[last][1]) for first, last in guided.spans] if frames else []
            language, words = guided.language, guided.words
            transcripts.append(Transcript(tokens, score, guided.model, frames, values, language, words, places))
        return transcripts

    def _answer_of(self, transcripts: list["Transcript"]) -> dict[str, Any]:
        names = ("tokens", "times", "words", "word_times", "nbest")
        if not transcripts:
            impossible = {"score": -math.inf, "acoustic": -math.inf, "language": 0.0}
            return {"text": "", **impossible, **{name: [] for name in names}}
        nbest = []
        for transcript in transcripts:
            candidate = {
                "text": self._text(transcript).strip(),
                "score": transcript.score,
                "acoustic": transcript.acoustic,
                "language": transcript.language,
            }
            if transcript.log_probabilities is not None:
                candidate["tokens"] = [self.tokenizer.readable(token) for token in transcript.tokens]
                candidate["log_probabilities"] = transcript.log_probabilities
            nbest.append(candidate)
        tokens, frames, spans = transcripts[0].tokens, transcripts[0].frames, transcripts[0].spans
        if self._lexicon is None:
            groups = self._word_groups(tokens)
            spans = [(frames[first][0], frames[last][1]) for first, last in groups] if frames else []
        return {name: nbest[0][name] for name in ("text", "score", "acoustic", "language")} | {
            "tokens": [self.tokenizer.readable(token) for token in tokens],
            "times": self._times(frames),
            "words": self._words(transcripts[0]),
            "word_times": self._times(spans),
            "nbest": nbest,
        }

    @property
    def _lexicon(self) -> "Lexicon | None":
        return None if self.guide is None or self.search["name"] == "best_path" else self.guide.lexicon

    def _text(self, transcript: "Transcript") -> str:
        lexicon, by_characters = self._lexicon, self.tokenizer.unit == "characters"
        if lexicon is not None:
            return ("" if by_characters and lexicon.separator is None else " ").join(self._words(transcript))
        return (
            self.tokenizer.decode(transcript.tokens)
            if by_characters
            else " ".join(filter(None, self._words(transcript)))
        )

    def _words(self, transcript: "Transcript") -> list[str]:
        if self._lexicon is not None:
            return [self._lexicon.words[word] for word in transcript.words]
        groups = self._word_groups(transcript.tokens)
        return [self.tokenizer.decode(transcript.tokens[first : last + 1]).strip() for first, last in groups]

    def _word_groups(self, tokens: list[int]) -> list[tuple[int, int]]:
        """The first and the last token of each word."""
        groups: list[tuple[int, int]] = []
        unit, after_space = self.tokenizer.unit, True
        for index, token in enumerate(self.tokenizer.tokens[token] for token in tokens):
            if unit == "characters" and token.isspace():
                after_space = True
                continue
            if after_space or unit == "words" or (unit == "subwords" and token.startswith(("Ġ", "▁"))):
                groups.append((index, index))
            else:
                groups[-1] = (groups[-1][0], index)
            after_space = False
        return groups

    def _times(self, spans: Sequence[tuple[int, int]]) -> list[list[float]]:
        duration = self.description["output"]["frame_duration"]
        return [[round(first * duration, 6), round((last + 1) * duration, 6)] for first, last in spans]


# Searches

Step = Callable[[Array, dict[str, Array]], tuple[Array, dict[str, Array]]]
"""The last tokens (B,) and the state of the decoder → log-probabilities (B, V) of the next ones, and the next state."""


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


def greedy(
    step: Step,
    state: dict[str, Array],
    limits: Array,  # (B,), maximum tokens of each row, the end token included
    *,
    end: int,
    suppress: Sequence[int],
) -> list[list[Hypothesis]]:
    """The most probable token at each step."""
    last, done = np.full(len(limits), end), limits == 0
    tokens, values = np.full((len(limits), limits.max(initial=0)), end), np.zeros((len(limits), limits.max(initial=0)))
    for place in range(tokens.shape[1]):
        if done.all():
            break
        scores, state = step(last, state)
        scores = scores.astype(np.float64)
        scores[:, list(suppress)] = -np.inf
        last = np.where(done, end, scores.argmax(axis=1))
        tokens[:, place], values[:, place] = last, np.where(done, 0, scores.max(axis=1))
        done = done | (last == end) | (place + 1 == limits)
    rows = [_greedy(*row, end) for row in zip(tokens, values, limits.tolist(), strict=True)]
    return [[row] if row.score > -math.inf else [] for row in rows]  # empty: no token was possible


class ConstrainedStep:
    """A step of a decoder whose output has to be one of a list; the others have probability zero."""

    def __init__(self, step: Step, outputs: Iterable[Sequence[int]], end: int) -> None:
        self._step = step
        self._children: list[dict[int, int]] = [{}, {}]  # by token, of each node; 0 is the root, 1 leads nowhere
        for tokens in outputs:
            node = 0
            for token in (*tokens, end):
                if token not in self._children[node]:
                    self._children[node][token] = len(self._children)
                    self._children.append({})
                node = self._children[node][token]

    def start(self, batch: int) -> dict[str, Array]:
        """The state before the first token: no node."""
        return {"allowed": np.full(batch, -1)}

    def __call__(self, tokens: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        scores, following = self._step(tokens, state)
        pairs = zip(state["allowed"].tolist(), tokens.tolist(), strict=True)
        nodes = [0 if node < 0 else self._children[node].get(token, 1) for node, token in pairs]
        allowed = np.full(scores.shape, -np.inf)
        for row, node in enumerate(nodes):
            places = list(self._children[node])
            allowed[row, places] = scores[row, places]
        return allowed, {**following, "allowed": np.array(nodes)}


class Transcript(NamedTuple):
    """A hypothesis of a search over frames, or one of a decoder with its frames."""

    tokens: list[int]
    score: float
    acoustic: float
    frames: list[tuple[int, int]]  # first and last frame of each token; empty: unknown
    log_probabilities: list[float] | None = None  # of a decoder
    language: float = 0.0  # log-probability by the language model, without its weight
    words: Sequence[int] = ()  # of the lexicon
    spans: Sequence[tuple[int, int]] = ()  # first and last frame of each of them


def _frame_tables(outputs: dict[str, Array]) -> list[Array]:  # (T, V) each
    """The log-probabilities of the real frames of each row."""
    pairs = zip(outputs["frame_log_probabilities"], outputs["frame_counts"].tolist(), strict=True)
    return [table[:count] for table, count in pairs]


def best_path(table: Array) -> list[Transcript]:  # (T, V)
    """The most probable token of each frame; repeats are merged and blanks removed."""
    tokens: list[int] = []
    frames: list[tuple[int, int]] = []
    total, last = 0.0, BLANK
    best = table.argmax(axis=1)
    for frame, token in enumerate(best.tolist()):
        if token != BLANK and token == last:
            frames[-1] = (frames[-1][0], frame)
        elif token != BLANK:
            tokens.append(token)
            frames.append((frame, frame))
        last = token
    for value in table[np.arange(len(best)), best].tolist():
        total += value
    return [Transcript(tokens, total, total, frames)] if total > -math.inf else []


class PrefixBeam:
    """CTC prefix beam search: the probability of a prefix is summed over its paths (Hannun et al. 2014)."""

    def __init__(self, settings: dict[str, Any], guide: "Guide | None" = None) -> None:
        self.settings = SEARCHES["prefix_beam"] | settings
        if self.settings["lag"]:
            raise ModelError("the option lag of prefix_beam is for streams, which this runtime does not have")
        self.guide = guide
        lexicon = None if guide is None else guide.lexicon
        self.words = WordBeam(self.settings, guide, lexicon) if guide is not None and lexicon is not None else None

    def __call__(self, table: Array) -> list[Transcript]:  # (T, V)
        """The n-best transcripts of a recording."""
        if self.words is not None:
            return self.words(table, self._frames(table))
        size, per_node, threshold = (self.settings[name] for name in ("size", "per_node", "threshold"))
        merge = np.logaddexp if self.settings["merge"] == "sum" else np.maximum
        in_search = None if self.guide is None else self.guide.in_search()
        texts = TextScores(in_search, table.shape[1])
        prefixes: list[tuple[int, ...]] = [()]
        blanks, repeats = np.zeros(1), np.full(1, -np.inf)  # log p of the paths that end in a blank, in the last token
        for frame in self._frames(table):
            totals = merge(blanks, repeats)
            last = np.array([prefix[-1] if prefix else BLANK for prefix in prefixes])
            extended = totals[:, None] + frame  # (K, V), by a new token
            extended[:, BLANK] = -np.inf
            rows = np.flatnonzero(last != BLANK)
            extended[rows, last[rows]] = blanks[rows] + frame[last[rows]]
            places = {prefix: place for place, prefix in enumerate(prefixes)}
            stay = repeats + np.where(last == BLANK, -np.inf, frame[last])
            for place, prefix in enumerate(prefixes):  # a prefix that is reached from its parent, too
                parent = places.get(prefix[:-1]) if prefix else None
                if parent is not None:
                    stay[place] = merge(stay[place], extended[parent, prefix[-1]])
                    extended[parent, prefix[-1]] = -np.inf
            silent = totals + frame[BLANK]
            scores, gains = texts.scores(prefixes)  # (K,), (K, V)
            ranked = extended + (scores[:, None] + gains)
            if per_node and per_node < ranked.shape[1]:
                beaten = np.argsort(-ranked, axis=1, kind="stable")[:, per_node:]
                np.put_along_axis(ranked, beaten, -np.inf, axis=1)
            ranks = np.concatenate([merge(silent, stay) + scores, ranked.ravel()])
            order = np.argsort(-ranks, kind="stable")[:size]
            lowest = max(ranks[order[0]] - threshold if threshold else -math.inf, -1e300)
            kept = order[ranks[order] >= lowest].tolist()
            count, width = len(prefixes), extended.shape[1]
            new = [divmod(index - count, width) for index in kept if index >= count]
            staying = [index for index in kept if index < count]
            blanks = np.concatenate([silent[staying], np.full(len(new), -np.inf)])
            repeats = np.concatenate([stay[staying], [extended[pair] for pair in new]])
            prefixes = [prefixes[index] for index in staying] + [(*prefixes[index], token) for index, token in new]
        totals = merge(blanks, repeats)
        texts = texts if in_search is self.guide else TextScores(self.guide, table.shape[1])
        ranks = totals + np.array([texts.score(prefix, ended=True) for prefix in prefixes])
        best = [index for index in np.argsort(-ranks, kind="stable").tolist() if ranks[index] > -math.inf]
        return [
            Transcript(
                list(prefixes[index]),
                float(ranks[index]),
                float(totals[index]),
                align(table, prefixes[index]),
                language=texts.language(prefixes[index]),
            )
            for index in best[: self.settings["nbest"]]
        ]

    def _frames(self, table: Array) -> Iterator[Array]:
        floor = self.settings["token_threshold"]
        for row in table.astype(np.float64):
            keep = row >= (math.log(floor) if floor else -math.inf)
            keep[[BLANK, row.argmax()]] = True
            yield np.where(keep, row, -np.inf)


def align(table: Array, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last frame of each token on the most probable path; empty if there are too few frames."""
    target = np.array(tokens, dtype=np.int64)
    needed = len(target) + int((target[1:] == target[:-1]).sum())
    if not len(target) or needed > len(table):
        return []
    emitted = np.maximum(np.nan_to_num(table.astype(np.float64), nan=-1e30), -1e30)
    skip = np.where(np.concatenate([[True], target[1:] == target[:-1]]), -np.inf, 0.0)
    blanks, on_tokens = np.full(len(target) + 1, -np.inf), np.full(len(target), -np.inf)  # before and after each token
    blanks[0] = 0.0
    steps = np.zeros((len(table), 2, len(target) + 1), np.int8)
    for time, row in enumerate(emitted):
        before = np.concatenate([[-np.inf], on_tokens])
        steps[time, 0] = before > blanks
        stay, step, jump = on_tokens, blanks[:-1], before[:-1] + skip
        best = np.maximum(stay, step)
        steps[time, 1, 1:] = np.where(jump > best, 2, step > stay)
        blanks, on_tokens = np.maximum(blanks, before) + row[BLANK], np.maximum(best, jump) + row[target]
    place, on_token = len(target), on_tokens[-1] >= blanks[-1]
    spans = [[0, -1] for _ in tokens]
    for time in range(len(table) - 1, -1, -1):
        step = steps[time, int(on_token), place]
        if on_token:
            spans[place - 1][0] = time
            spans[place - 1][1] = max(spans[place - 1][1], time)
            place -= step > 0
        if step == 1:
            on_token = not on_token
    return [(first, last) for first, last in spans]


class CTCPrefixScorer:
    """log p(token | prefix, frames) by CTC (Watanabe et al. 2017), for a search with a decoder."""

    def __init__(self, tables: Array, counts: Array, end: int) -> None:
        self.tables, self.counts, self.end = tables.astype(np.float64), counts, end  # (B, T, V), (B,)

    def start(self) -> dict[str, Array]:
        """The empty prefix of each row: paths that end in its last token, and in a blank, over the first t frames."""
        batch, time, _ = self.tables.shape
        silent = np.concatenate([np.zeros((batch, 1)), self.tables[:, :, BLANK].cumsum(axis=1)], axis=1)
        return {
            "ctc_rows": np.arange(batch),
            "ctc_last": np.full(batch, -1),
            "ctc_tokens": np.full((batch, time + 1), -np.inf),
            "ctc_blanks": silent,
            "ctc_totals": np.zeros(batch),
            "ctc_started": np.zeros(batch, np.bool_),
        }

    def step(self, tokens: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """The scores of the next tokens after these ones, and the state."""
        rows = state["ctc_rows"]
        if state["ctc_started"].all():
            state = self._extend(tokens, state)
        tables, counts, last = self.tables[rows], self.counts[rows], state["ctc_last"]
        time, index = tables.shape[1], np.arange(len(rows))
        real = np.arange(time) < counts[:, None]
        arriving = np.where(real, np.logaddexp(state["ctc_blanks"], state["ctc_tokens"])[:, :time], -np.inf)
        scores = _log_sum(arriving[:, :, None] + tables)
        repeated = np.where(real, state["ctc_blanks"][:, :time], -np.inf) + tables[index, :, np.maximum(last, 0)]
        scores[index, np.maximum(last, 0)] = np.where(last >= 0, _log_sum(repeated), scores[index, 0])
        scores[:, BLANK] = -np.inf
        ends = np.logaddexp(state["ctc_blanks"], state["ctc_tokens"])[index, counts]
        scores[:, self.end] = ends
        totals = state["ctc_totals"]
        impossible = totals == -np.inf
        scores = np.minimum(scores - np.where(impossible, 0, totals)[:, None], 0)
        scores[impossible] = -np.inf
        return scores, {name: value for name, value in state.items() if name.startswith("ctc_")} | {
            "ctc_started": np.ones(len(rows), np.bool_)
        }

    def _extend(self, tokens: Array, state: dict[str, Array]) -> dict[str, Array]:
        rows = state["ctc_rows"]
        blanks, on_tokens = state["ctc_blanks"], state["ctc_tokens"]
        arriving = np.where((tokens == state["ctc_last"])[:, None], blanks, np.logaddexp(blanks, on_tokens))
        new_tokens, new_blanks = np.full_like(on_tokens, -np.inf), np.full_like(blanks, -np.inf)
        totals = np.full(len(tokens), -np.inf)
        for time in range(self.tables.shape[1]):
            real = time < self.counts[rows]
            emitted, silent = self.tables[rows, time, tokens], self.tables[rows, time, BLANK]
            totals = np.where(real, np.logaddexp(totals, arriving[:, time] + emitted), totals)
            new_tokens[:, time + 1] = np.logaddexp(new_tokens[:, time], arriving[:, time]) + emitted
            new_blanks[:, time + 1] = np.logaddexp(new_blanks[:, time], new_tokens[:, time]) + silent
        return state | {"ctc_last": tokens, "ctc_tokens": new_tokens, "ctc_blanks": new_blanks, "ctc_totals": totals}


def _log_sum(values: Array) -> Array:
    """The logarithm of the sum of exponentials over axis 1."""
    largest = values.max(axis=1, initial=-np.inf)
    shift = np.where(largest > -np.inf, largest, 0)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(values - np.expand_dims(shift, 1)).sum(axis=1)) + shift
    return total


# The guide of a search: a lexicon, a language model, and scores of words


def _array(text: str, kind: str) -> Array:
    """An array that is written as base64 of its little-endian numbers."""
    return np.frombuffer(b64decode(text), kind)


class Guide:
    """What a search knows besides the model: with a lexicon, the language model scores words; without one, tokens."""

    def __init__(self, description: dict[str, Any], vocabulary: int, session: Any) -> None:
        lexicon, lm = description["lexicon"], description["lm"]
        self.lexicon = Lexicon(lexicon) if lexicon else None
        self.weight: float = description["weight"]
        self.rescores: bool = description["rescore"] and lm is not None and self.weight > 0
        self.vocabulary = vocabulary
        count = len(self.lexicon.words) if self.lexicon else vocabulary
        self.bonuses = np.full(count, float(description["word_score"]))  # of each word, or token
        self.ids = np.zeros(count, np.int64)  # of each in the language model; -1: impossible
        self.lm: NGram | NeuralLM | None = None
        if lm is not None:
            known = _array(lm["ids"], "<i4").astype(np.int64)
            self.bonuses[known < 0] += description["unk_score"]
            self.ids = np.where(known < 0, -1 if lm["unknown"] is None else lm["unknown"], known)
            self.lm = NGram(lm) if lm["kind"] == "ngram" else NeuralLM(lm, session)

    def in_search(self) -> "Guide":
        """What a search over frames uses: if the guide rescores, the lexicon only."""
        if not self.rescores:
            return self
        bare = copy(self)
        bare.lm, bare.bonuses, bare.ids = None, np.zeros_like(self.bonuses), np.zeros_like(self.ids)
        return bare


class NGram:
    """A back-off n-gram model. Its states are contexts: 0 the empty one, 1 + w the word w, then longer ones."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.start, self.end = description["start"], description["end"]
        self.words = _array(description["words"], "<i4")  # (S,), the last word of each n-gram
        self.first = _array(description["first"], "<i8")  # the first n-gram that extends each context by a word
        self.backoff_states = _array(description["backoff_states"], "<i4")  # without the first word
        self.log_probs = _array(description["log_probs"], "<f4")
        self.log_backoffs = _array(description["log_backoffs"], "<f4")  # of contexts only

    def score(self, state: int, word: int) -> tuple[float, int]:
        """log p(word | state), and the next state."""
        if word < 0:
            return -math.inf, 0
        backoff = 0.0
        while (ngram := self._find(state, word)) < 0:
            backoff += float(self.log_backoffs[state])
            state = int(self.backoff_states[state])
        is_context = ngram < len(self.log_backoffs)
        return backoff + float(self.log_probs[ngram]), ngram if is_context else int(self.backoff_states[ngram])

    def _find(self, state: int, word: int) -> int:
        """The n-gram that extends a context by a word; -1 if there is none."""
        if state == 0:
            return 1 + word
        first, last = int(self.first[state]), int(self.first[state + 1])
        place = first + int(np.searchsorted(self.words[first:last], word))
        return place if place < last and self.words[place] == word else -1

    def following(self, state: int) -> Array:  # (V,)
        """log p of every word after a state."""
        contexts = []
        while state:
            contexts.append(state)
            state = int(self.backoff_states[state])
        scores = self.log_probs[1 : self.first[1]].astype(np.float64)
        for context in reversed(contexts):
            scores += self.log_backoffs[context]
            longer = slice(self.first[context], self.first[context + 1])
            scores[self.words[longer]] = self.log_probs[longer]
        return scores


class NeuralLM:
    """A recurrent or Transformer language model; a state is the words so far, and what follows them is kept."""

    start: tuple[int, ...] = ()

    def __init__(self, description: dict[str, Any], session: Any) -> None:
        self.end, self._first, self._fields = description["end"], description["first"], description["states"]
        self._session = session
        self._steps: dict[tuple[int, ...], tuple[Array, list[Array]]] = {}

    def score(self, state: tuple[int, ...], word: int) -> tuple[float, tuple[int, ...]]:
        """log p(word | state), and the next state."""
        return (float(self.following(state)[word]), (*state, word)) if word >= 0 else (-math.inf, ())

    def following(self, state: tuple[int, ...]) -> Array:  # (V,)
        """log p of every word after a state."""
        if len(self._steps) > 1 << 12:
            self._steps.clear()
        missing = len(state)
        while missing and state[:missing] not in self._steps:
            missing -= 1
        for length in range(missing, len(state) + 1):
            if state[:length] not in self._steps:
                self._steps[state[:length]] = self._step(state[:length])
        return self._steps[state][0]

    def _step(self, state: tuple[int, ...]) -> tuple[Array, list[Array]]:
        fields = self._fields
        values = (
            self._steps[state[:-1]][1]
            if state
            else [np.zeros((1, *(size or 0 for size in field["shape"])), field["dtype"]) for field in fields]
        )
        feed = {field["input"]: value for field, value in zip(fields, values, strict=True)}
        feed |= {"tokens": np.array([[state[-1] if state else self._first]]), "lengths": np.array([1])}
        scores, *values = self._session.run(["log_probabilities", *(field["output"] for field in fields)], feed)
        return scores[0, 0].astype(np.float64), values


class Lexicon:
    """The words of a search as a prefix tree of their spellings. Nodes are numbered level by level; 0 is the root."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.words: list[str] = description["words"]
        self.separator: int | None = description["separator"]  # follows each word; None: there is none
        names = ("tokens", "parents", "first", "words_at", "words_first")
        arrays = {name: _array(description[name], "<i4") for name in names}
        self.tokens, self.parents, self.first, self.words_at, self.words_first = (
            arrays[name].tolist() for name in names
        )
        self.has_variants = (np.bincount(arrays["words_at"], minlength=len(self.words)) > 1).tolist()
        self.leaves: list[list[int]] = [[] for _ in self.words]  # where each word is complete
        for node, count in enumerate(np.diff(arrays["words_first"]).tolist()):
            for word in self.words_at[self.words_first[node] : self.words_first[node] + count] if count else ():
                self.leaves[word].append(node)

    def children(self, node: int) -> range:
        return range(self.first[node], self.first[node + 1])

    def complete(self, node: int) -> list[int]:
        """The words that are complete at a node."""
        words: list[int] = self.words_at[self.words_first[node] : self.words_first[node + 1]]
        return words

    def path(self, node: int) -> list[int]:
        """The tokens that lead to a node."""
        tokens = []
        while node > 0:
            tokens.append(self.tokens[node])
            node = self.parents[node]
        return tokens[::-1]

    def lookahead(self, scores: Array) -> list[float]:  # (W,) → (N,)
        """The best score of the words below each node."""
        best = np.full(len(self.tokens), -np.inf)
        nodes = np.repeat(np.arange(len(best)), np.diff(self.words_first))
        np.maximum.at(best, nodes, scores[self.words_at])
        values: list[float] = best.tolist()
        for node in range(len(values) - 1, 0, -1):
            values[self.parents[node]] = max(values[self.parents[node]], values[node])
        return values


def _weighted(weight: float, log_probs: Array) -> Array:
    """``weight * log_probs``, in which -inf stays -inf even if the weight is 0."""
    return np.where(log_probs > -np.inf, weight * np.maximum(log_probs, -1e30), -np.inf)


Key = tuple[int, int, int]
"""A hypothesis of a search for words: history, node of the lexicon (0: between words), last token (-1: none yet)."""


class WordBeam:
    """CTC prefix beam search for words of a lexicon; docs/lexicon_search.md of Seqloom explains it.

    Hypotheses that agree in their words, in their node of the lexicon and in their last token are one hypothesis.
    """

    NEGLIGIBLE = 12.0  # log-probability: paths this far below the worst survivor are not added
    DEMOTION = 1e9  # subtracted from the score of a dominated hypothesis
    MIN_CANDIDATES = 256

    def __init__(self, settings: dict[str, Any], guide: Guide, lexicon: Lexicon) -> None:
        self.rescorer = TextScores(guide, len(lexicon.words)) if guide.rescores else None
        self.keeps_one = settings["nbest"] == 1 and self.rescorer is None
        guide = guide.in_search()
        self.settings, self.guide, self.lexicon = settings, guide, lexicon
        self.merge: Callable[[float, float], float] = _log_add if settings["merge"] == "sum" else max
        scores = guide.bonuses.copy()
        if isinstance(guide.lm, NGram):
            unigrams = guide.lm.log_probs[1 + guide.ids].astype(np.float64)
            scores += np.where(guide.ids < 0, -np.inf, _weighted(guide.weight, unigrams))
        self.lookahead = lexicon.lookahead(scores)
        self.bonuses, self.ids = guide.bonuses.tolist(), guide.ids.tolist()
        self.gain = self.lookahead[0] + max(0.0, float(guide.bonuses.max()))  # the most that one more token can add

    def __call__(self, table: Array, frames: Iterable[Array]) -> list["Transcript"]:
        # The word sequences so far: the one before, the last word, the state of the language model, its
        # log-probability, and what it adds to a score.
        start = self.guide.lm.start if self.guide.lm is not None else 0
        self.histories: list[tuple[int, int, Any, float, float]] = [(-1, -1, start, 0.0, 0.0)]
        self.next_history: dict[tuple[int, int], int] = {}
        beam: dict[Key, tuple[float, float]] = {(0, 0, -1): (0.0, -math.inf)}  # paths to a blank, to the last token
        for frame in frames:
            beam = self._advance(beam, frame.tolist())
        return self._transcripts(beam, table)

    def _advance(self, beam: dict[Key, tuple[float, float]], frame: list[float]) -> dict[Key, tuple[float, float]]:
        merge, lexicon, lookahead, histories = self.merge, self.lexicon, self.lookahead, self.histories
        size, per_node, limit = (self.settings[name] for name in ("size", "per_node", "histories"))
        totals = {key: merge(*paths) for key, paths in beam.items()}
        staying = {
            key: [totals[key] + frame[BLANK], token + frame[key[2]] if key[2] >= 0 else -math.inf]
            for key, (_, token) in beam.items()
        }
        # Every hypothesis may stay, so that a full beam needs no other with a lower score.
        scores = [merge(*paths) + histories[key[0]][4] + lookahead[key[1]] for key, paths in staying.items()]
        bound = min(scores) if len(beam) == size and not limit else -math.inf
        lowest = bound - self.NEGLIGIBLE if any(lexicon.has_variants) else bound
        best = max(frame[BLANK + 1 :], default=-math.inf)
        # Candidates by key and word: score, paths, state of the language model.
        candidates: dict[tuple[Key, int], list[Any]] = {}
        for key, (blank, _) in beam.items():
            history, node, last = key
            score, own = histories[history][4], {}
            if totals[key] + best + score + self.gain <= bound - self.NEGLIGIBLE:
                continue
            after_variant = node == 0 and history > 0 and lexicon.has_variants[histories[history][1]]
            least = lowest if after_variant else bound
            for child in lexicon.children(node):
                token = lexicon.tokens[child]
                paths = (blank if token == last else totals[key]) + frame[token]
                if not paths + score + self.gain > bound - self.NEGLIGIBLE:
                    continue
                if lexicon.first[child] < lexicon.first[child + 1]:
                    reached = history, child, token
                    if reached in beam:
                        staying[reached][1] = merge(staying[reached][1], paths)
                    elif paths + score + lookahead[child] > least:
                        own[reached, -1] = [paths + score + lookahead[child], paths, histories[history][2]]
                for word in lexicon.complete(child):
                    reached = self.next_history.get((history, word), -1), 0, token
                    if reached in beam:
                        staying[reached][1] = merge(staying[reached][1], paths)
                        continue
                    language, state = self._language(history, word)
                    value = paths + score + self.bonuses[word] + lookahead[0] + self.guide.weight * language
                    if value > least or (value > lowest and lexicon.has_variants[word]):
                        own[(history, 0, token), word] = [value, paths, state]
            if per_node and len(own) > per_node:
                own = dict(sorted(own.items(), key=lambda item: -item[1][0])[:per_node])
            for which, (value, paths, state) in own.items():  # equal ones differ in how a word was spelled
                together = merge(candidates[which][1], paths) if which in candidates else paths
                candidates[which] = [together + (value - paths), together, state]
            if len(candidates) > max(4 * size, self.MIN_CANDIDATES) - size:
                candidates = dict(sorted(candidates.items(), key=lambda item: -item[1][0])[:size])
        return self._select(staying, candidates)

    def _language(self, history: int, word: int) -> tuple[float, Any]:
        """log p of a word after a history, and the state of the language model after it."""
        return (0.0, 0) if self.guide.lm is None else self.guide.lm.score(self.histories[history][2], self.ids[word])

    def _select(
        self, staying: dict[Key, list[float]], candidates: dict[tuple[Key, int], list[Any]]
    ) -> dict[Key, tuple[float, float]]:
        """The next beam."""
        merge, histories = self.merge, self.histories
        size, limit, threshold = (self.settings[name] for name in ("size", "histories", "threshold"))
        # Score, key, word that is complete (-1: none), paths to a blank and to the last token, state.
        entries = [
            [score, key, word, -math.inf, paths, state] for (key, word), (score, paths, state) in candidates.items()
        ]
        entries += [
            [merge(*paths) + histories[key[0]][4] + self.lookahead[key[1]], key, -1, *paths, histories[key[0]][2]]
            for key, paths in staying.items()
        ]
        if limit:  # of hypotheses with different words at one node
            counts: dict[int, int] = {}
            for entry in sorted(entries, key=lambda entry: -entry[0]):
                counts[entry[1][1]] = counts.get(entry[1][1], 0) + 1
                if counts[entry[1][1]] > limit:
                    entry[0] = -math.inf
        if len(entries) > size:
            if self.keeps_one:  # others with the same future can never overtake the best of them
                leaders: dict[Any, list[Any]] = {}
                for entry in entries:
                    _, node, last = entry[1]
                    future = entry[5], node, last
                    leader = leaders.setdefault(future, entry)
                    if leader is not entry:
                        better, worse = (entry, leader) if entry[0] > leader[0] else (leader, entry)
                        worse[0] -= self.DEMOTION
                        leaders[future] = better
            entries = sorted(entries, key=lambda entry: -entry[0])[:size]
        least = max((entry[0] for entry in entries), default=0.0) - (threshold or math.inf)
        beam: dict[Key, tuple[float, float]] = {}
        for score, (history, node, last), word, blank, token, _ in entries:
            if score >= least and score > -math.inf:
                after = history if word < 0 else self._append(history, word)
                beam[after, node, last] = (blank, token)
        return beam

    def _append(self, history: int, word: int) -> int:
        """The history after one more word."""
        if (history, word) not in self.next_history:
            self.next_history[history, word] = len(self.histories)
            language, state = self._language(history, word)
            _, _, _, total, score = self.histories[history]
            score += self.guide.weight * language + self.bonuses[word]
            self.histories.append((history, word, state, total + language, score))
        return self.next_history[history, word]

    def _transcripts(self, beam: dict[Key, tuple[float, float]], table: Array) -> list["Transcript"]:
        """The n-best, as if the last separator had been read; those with the same words are one."""
        lexicon, lm, weight = self.lexicon, self.guide.lm, self.guide.weight
        ends: dict[tuple[int, int], list[tuple[float, float, float, int]]] = {}  # paths, score of the words, log p
        for (history, node, _), paths in beam.items():
            before, last, state, language, score = self.histories[history]
            complete = [(before, last)]
            if node:
                ends_here = [child for child in lexicon.children(node) if lexicon.tokens[child] == lexicon.separator]
                complete = [(history, word) for child in ends_here for word in lexicon.complete(child)]
            for key in complete:
                added, bonus, after = 0.0, 0.0, state
                if node:
                    added, after = self._language(*key)
                    bonus = self.bonuses[key[1]]
                if lm is not None:
                    added += lm.score(after, lm.end)[0] if added > -math.inf else 0.0
                total = score + bonus + float(_weighted(weight, np.array(added)))
                if total > -math.inf:
                    ends.setdefault(key, []).append((self.merge(*paths), total, language + added, history))
        texts = []
        for (before, last), group in ends.items():
            best = max(group, key=lambda end: end[0])
            total = (
                best[0] if self.settings["merge"] == "max" else float(np.logaddexp.reduce([end[0] for end in group]))
            )
            texts.append((total + best[1], total, best[2], [*self._words(before), *([last] if last >= 0 else [])]))
        if (scorer := self.rescorer) is not None:
            texts = [
                (acoustic + scorer.score(tuple(words), ended=True), acoustic, scorer.language(tuple(words)), words)
                for _, acoustic, _, words in texts
            ]
            texts = [text for text in texts if text[0] > -math.inf]
        texts.sort(key=lambda transcript: -transcript[0])
        transcripts = []
        for score, acoustic, language, words in texts[: self.settings["nbest"]]:
            spellings = [[lexicon.path(node) for node in lexicon.leaves[word]] for word in words]
            tokens, frames, bounds = align_words(table, spellings, optional_end=lexicon.separator is not None)
            spans = []
            for first, following in pairwise(bounds):
                last = following - 1 - (tokens[following - 1] == lexicon.separator)
                spans.append((frames[first][0], frames[last][1]))
            transcripts.append(Transcript(tokens, score, acoustic, frames, None, language, words, spans))
        return transcripts

    def _words(self, history: int) -> list[int]:
        words: list[int] = []
        while history > 0:
            history, word, *_ = self.histories[history]
            words.append(word)
        return words[::-1]


def _log_add(left: float, right: float) -> float:
    high, low = (left, right) if left > right else (right, left)
    return high + math.log1p(math.exp(low - high)) if low > -math.inf else high


def align_words(
    table: Array,  # (T, V)
    spellings: list[list[list[int]]],  # of each word
    *,
    optional_end: bool,  # the last token of the last word may be missing
) -> tuple[list[int], list[tuple[int, int]], list[int]]:
    """The most probable path: its tokens, their frames, and the first token of each word and after all."""
    tokens: list[int] = []
    sources: list[list[int]] = []  # the tokens that each may follow; -1: the start
    numbers: list[int] = []  # the word of each token
    ends = [-1]
    for number, variants in enumerate(spellings):
        last = ends
        ends = []
        for spelling in variants:
            sources += [last, *([place] for place in range(len(tokens), len(tokens) + len(spelling) - 1))]
            tokens += spelling
            numbers += [number] * len(spelling)
            ends.append(len(tokens) - 1)
    if not tokens:
        return [], [], [0]
    if optional_end:
        ends = [*ends, *(end - 1 for end in ends)]
    width = max(map(len, sources))
    before = np.array([row + [-2] * (width - len(row)) for row in sources])  # (N, W); -2: none
    target = np.array(tokens)
    emitted = np.maximum(np.nan_to_num(table.astype(np.float64), nan=-1e30), -1e30)
    # Places 0 (the start) and 1 + i: on the blank after token i, on token i; the last place is impossible.
    count = len(tokens)
    blanks, on_tokens = np.full(count + 2, -np.inf), np.full(count + 2, -np.inf)
    blanks[0] = 0.0
    index = np.where(before < -1, count + 1, before + 1)  # (N, W)
    same = (before >= 0) & (target[np.maximum(before, 0)] == target[:, None])  # needs a blank in between
    jumps = np.where(same | (before < 0), count + 1, index)
    from_token = np.zeros((len(table), count + 1), np.bool_)  # a blank
    came_from = np.zeros((len(table), count), np.int64)  # a token: 0 stays, 1 + c from column c of its options
    for time, row in enumerate(emitted):
        from_token[time] = on_tokens[:-1] > blanks[:-1]
        # In the order in which the first of equal ones wins: stay, then by source the blank and the token before.
        options = np.stack([blanks[index], on_tokens[jumps]], axis=2).reshape(count, -1)
        options = np.concatenate([on_tokens[1:-1, None], options], axis=1)
        came_from[time] = options.argmax(axis=1)
        blanks[:-1] = np.maximum(blanks[:-1], on_tokens[:-1]) + row[BLANK]
        on_tokens[1:-1] = options.max(axis=1) + row[target]
    places = np.array(ends) + 1
    finals = np.concatenate([on_tokens[places], blanks[places]])
    on_blank, which = divmod(int(finals.argmax()), len(ends))
    place, on_token = int(places[which]), not on_blank
    spans: dict[int, tuple[int, int]] = {}
    for time in range(len(table) - 1, -1, -1):
        if not on_token:
            on_token = bool(from_token[time, place])
            continue
        spans[place - 1] = (time, spans.get(place - 1, (0, time))[1])
        step = int(came_from[time, place - 1])
        if step:
            column, is_jump = divmod(step - 1, 2)
            place, on_token = int(index[place - 1, column]), bool(is_jump)
    visited = sorted(spans)
    bounds = [sum(numbers[token] < number for token in visited) for number in range(len(spellings) + 1)]
    return [tokens[token] for token in visited], [spans[token] for token in visited], bounds


class Reading(NamedTuple):
    """The best way to read tokens as words that leads to a node of a lexicon and a state of the language model."""

    score: float  # of the complete words
    language: float = 0.0  # their log-probability
    words: tuple[tuple[int, int], ...] = ()  # each with the node at which it is complete


Readings = dict[tuple[int, Any], Reading]
AFTER_SEPARATOR = -1
"""The root of a lexicon after a separator, where another word has to follow."""


class LexiconReader:
    """Reads tokens as words of a lexicon, scored by a language model of words."""

    def __init__(self, guide: Guide, lexicon: Lexicon, *, with_scores: bool) -> None:
        self.lexicon = lexicon
        self.lm = guide.lm if with_scores and guide.weight else None
        self.weight, self.ids = guide.weight, guide.ids.tolist()
        self.bonuses = guide.bonuses.tolist() if with_scores else [0.0] * len(lexicon.words)
        self.start: Readings = {(0, 0 if self.lm is None else self.lm.start): Reading(0.0)}
        self.shortest = len(lexicon.path(next(node for node in range(len(lexicon.tokens)) if lexicon.complete(node))))

    def extend(self, readings: Readings) -> dict[int, Readings]:
        """The readings after each token that may follow."""
        lexicon = self.lexicon
        following: dict[int, Readings] = {}
        root = 0 if lexicon.separator is None else AFTER_SEPARATOR
        for (node, state), reading in readings.items():
            for child in lexicon.children(max(node, 0)):
                options = following.setdefault(lexicon.tokens[child], {})
                if lexicon.first[child] < lexicon.first[child + 1]:
                    _keep_better(options, (child, state), reading)
                for after, whole in self._complete(child, state, reading):
                    _keep_better(options, (root, after), whole)
        return {token: options for token, options in following.items() if options}

    def end(self, readings: Readings) -> Reading | None:
        """The best reading if the text ends here; None: it cannot."""
        lexicon, ends = self.lexicon, []
        for (node, state), reading in readings.items():
            if node == 0:
                ends.append(self._ended(state, reading))
            elif lexicon.separator is not None and node > 0:  # a word may also be complete before the end
                for child in lexicon.children(node):
                    if lexicon.tokens[child] == lexicon.separator:
                        ends += [self._ended(*whole) for whole in self._complete(child, state, reading)]
        possible = [reading for reading in ends if reading.score > -math.inf]
        return max(possible, key=lambda reading: reading.score) if possible else None

    def read(self, tokens: Sequence[int]) -> Reading | None:
        """The best words of a whole text; None if it does not consist of words."""
        readings = self.start
        for token in tokens:
            readings = self.extend(readings).get(token, {})
        return self.end(readings)

    def spans(self, reading: Reading) -> list[tuple[int, int]]:
        """The first and the last token of each word, without the separator."""
        spans, first = [], 0
        for _, node in reading.words:
            following = first + len(self.lexicon.path(node))
            spans.append((first, following - 1 - (self.lexicon.separator is not None)))
            first = following
        return spans

    def gain(self, tokens: int) -> float:
        """The most that further tokens can add: the first may complete a word, each later word has to be spelt."""
        return (1 + (tokens - 1) // self.shortest if tokens > 0 else 0) * max(0.0, *self.bonuses)

    def _complete(self, node: int, state: Any, reading: Reading) -> list[tuple[Any, Reading]]:
        """The readings in which a word is complete at a node."""
        results = []
        for word in self.lexicon.complete(node):
            language, after = (0.0, 0) if self.lm is None else self.lm.score(state, self.ids[word])
            if language > -math.inf:
                score = reading.score + self.weight * language + self.bonuses[word]
                whole = Reading(score, reading.language + language, (*reading.words, (word, node)))
                results.append((after, whole))
        return results

    def _ended(self, state: Any, reading: Reading) -> Reading:
        language = 0.0 if self.lm is None else self.lm.score(state, self.lm.end)[0]
        return reading._replace(score=reading.score + self.weight * language, language=reading.language + language)


def _keep_better(readings: Readings, key: tuple[int, Any], reading: Reading) -> None:
    if key not in readings or readings[key].score < reading.score:
        readings[key] = reading


class GuidedStep:
    """The step of a decoder with the scores of a guide added (shallow fusion)."""

    def __init__(self, step: "Step", guide: Guide, end: int) -> None:
        self.step, self.guide, self.end = step, guide, end
        self.bonuses = guide.bonuses.copy()
        self.reader: LexiconReader | None = None
        if guide.lexicon is not None:
            self.reader = LexiconReader(guide, guide.lexicon, with_scores=not guide.rescores)
        else:
            self.bonuses[end] = 0.0  # not a word
        self.ids = guide.ids.copy()
        if guide.lm is not None and guide.lexicon is None:
            self.ids[end] = guide.lm.end

    def start(self, batch: int) -> dict[str, Array]:
        """The state of the guide before the first token: None."""
        return {"guide": np.full(batch, None, object)}

    def __call__(self, tokens: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        inner = {name: value for name, value in state.items() if name != "guide"}
        scores, following = self.step(tokens, inner)
        places = np.empty(len(tokens), object)
        scores = scores.astype(np.float64)
        for row, (token, place) in enumerate(zip(tokens.tolist(), state["guide"], strict=True)):
            if self.reader is not None:
                added, places[row] = self._words(token, place)
            elif not self.guide.rescores:
                added, places[row] = self._tokens(token, place)
            else:
                continue
            scores[row] += added
        return scores, {**following, "guide": places}

    def _tokens(self, token: int, place: Any) -> tuple[Array, Any]:
        """The scores of all tokens after one more, and the state of the language model."""
        lm = self.guide.lm if self.guide.weight else None
        if lm is None:
            return self.bonuses, ()
        state: Any
        if place is None or token == self.end:
            state = lm.start
        else:
            _, state = lm.score(place[0], max(int(self.ids[token]), 0))
        scores = np.where(self.ids < 0, -np.inf, lm.following(state)[np.maximum(self.ids, 0)])
        return _weighted(self.guide.weight, scores) + self.bonuses, (state,)

    def _words(self, token: int, place: Any) -> tuple[Array, Any]:
        """The scores of all tokens, and the readings after each of them."""
        reader = self.reader
        assert reader is not None  # noqa: S101
        readings = reader.start if place is None else place[0].get(token)
        scores = np.full(self.guide.vocabulary, -np.inf)
        if not readings:
            return scores, ({},)
        best = max(reading.score for reading in readings.values())
        relative = {key: reading._replace(score=reading.score - best) for key, reading in readings.items()}
        following = reader.extend(relative)
        for option, after in following.items():
            scores[option] = max(reading.score for reading in after.values())
        ending = reader.end(relative)
        scores[self.end] = -np.inf if ending is None else ending.score
        return scores, (following,)

    def gain(self, tokens: int) -> float:
        """The most that further tokens can add to a score, besides their log-probabilities."""
        if self.reader is not None:
            return self.reader.gain(tokens)
        return 0.0 if self.guide.rescores else max(0.0, float(self.bonuses.max())) * tokens


class ScoredHypothesis(NamedTuple):
    """A hypothesis of a decoder, and what the guide says about it."""

    hypothesis: "Hypothesis"
    words: list[int] = []  # noqa: RUF012  of the lexicon
    spans: list[tuple[int, int]] = []  # noqa: RUF012  first and last token of each word
    language: float = 0.0  # log-probability by the language model, without its weight
    bonus: float = 0.0  # word scores
    in_search: float = 0.0  # what the guide has added to the log-probability of the hypothesis

    @property
    def model(self) -> float:
        """The log-probability by the model alone."""
        return self.hypothesis.log_probability - self.in_search


def _guided(
    hypotheses: list["Hypothesis"], guide: Guide, step: GuidedStep, beam: "Beam | None"
) -> list[ScoredHypothesis]:
    """The hypotheses with the scores of the guide; if it rescores, in their new order."""
    reader = None if guide.lexicon is None else LexiconReader(guide, guide.lexicon, with_scores=True)
    rows = []
    for hypothesis in hypotheses:
        if reader is None:
            language = _token_log_probability(hypothesis, step)
            guided = ScoredHypothesis(hypothesis, [], [], language, float(step.bonuses[hypothesis.tokens].sum()))
        else:
            length = len(hypothesis.tokens)
            while length and not hypothesis.ended and reader.read(hypothesis.tokens[:length]) is None:
                length -= 1  # the maximum length cuts a word
            whole = hypothesis
            if length < len(hypothesis.tokens):
                values = hypothesis.log_probabilities[:length]
                whole = hypothesis._replace(tokens=hypothesis.tokens[:length], log_probabilities=values)
            reading = reader.read(whole.tokens)
            if reading is None:
                continue
            words = [word for word, _ in reading.words]
            bonus = float(guide.bonuses[words].sum())
            guided = ScoredHypothesis(whole, words, reader.spans(reading), reading.language, bonus)
        added = guide.weight * guided.language + guided.bonus
        if guide.rescores and beam is not None:
            score = guided.hypothesis.score + added / beam.divisor(len(guided.hypothesis.log_probabilities))
            guided = guided._replace(hypothesis=guided.hypothesis._replace(score=score))
        rows.append(guided if guide.rescores else guided._replace(in_search=added))
    if guide.rescores:
        rows.sort(key=lambda guided: (not guided.hypothesis.ended, -guided.hypothesis.score))
    return rows[: beam.nbest] if beam is not None else rows


def _token_log_probability(hypothesis: "Hypothesis", step: GuidedStep) -> float:
    lm, total = step.guide.lm if step.guide.weight else None, 0.0
    if lm is not None:
        state: Any = lm.start
        for token in (*hypothesis.tokens, step.end) if hypothesis.ended else hypothesis.tokens:
            value, state = lm.score(state, int(step.ids[token]))
            total += value
    return total


class TextScores:
    """Scores of prefixes of tokens, or of words of a lexicon, by the language model and the word scores."""

    def __init__(self, guide: Guide | None, count: int) -> None:
        self.guide = guide
        self.bonuses = np.zeros(count) if guide is None else guide.bonuses
        start = guide.lm.start if guide is not None and guide.lm is not None else 0
        # Of each prefix: score, log-probability, state of the language model.
        self.known: dict[tuple[int, ...], tuple[float, float, Any]] = {(): (0.0, 0.0, start)}
        self.after: dict[Any, Array] = {}  # what each token adds to a score after a state

    def scores(self, prefixes: list[tuple[int, ...]]) -> tuple[Array, Array]:  # (K,), (K, V)
        """The score of each prefix, and what each token adds to it."""
        scores = np.array([self._look_up(prefix)[0] for prefix in prefixes])
        if self.guide is None or self.guide.lm is None:
            return scores, self.bonuses[None]
        return scores, np.stack([self._gains(self._look_up(prefix)[2]) for prefix in prefixes])

    def score(self, prefix: tuple[int, ...], *, ended: bool) -> float:
        """The score of a prefix, with the end of the text."""
        end = self._end(prefix) if ended else 0.0
        weight = self.guide.weight if self.guide is not None else 0.0
        return self._look_up(prefix)[0] + float(_weighted(weight, np.array(end)))

    def language(self, prefix: tuple[int, ...]) -> float:
        """The log-probability of a text by the language model, its end included."""
        return self._look_up(prefix)[1] + self._end(prefix)

    def _end(self, prefix: tuple[int, ...]) -> float:
        lm = None if self.guide is None else self.guide.lm
        return 0.0 if lm is None else lm.score(self._look_up(prefix)[2], lm.end)[0]

    def _look_up(self, prefix: tuple[int, ...]) -> tuple[float, float, Any]:
        if prefix not in self.known:
            *before, token = prefix
            score, total, state = self._look_up(tuple(before))
            score += float(self.bonuses[token])
            if self.guide is not None and self.guide.lm is not None:
                value, state = self.guide.lm.score(state, int(self.guide.ids[token]))
                score, total = score + self.guide.weight * value, total + value
            self.known[prefix] = score, total, state
        return self.known[prefix]

    def _gains(self, state: Any) -> Array:  # (V,)
        if state not in self.after:
            guide = self.guide
            assert guide is not None  # noqa: S101
            assert guide.lm is not None  # noqa: S101
            values = np.where(guide.ids < 0, -np.inf, guide.lm.following(state)[np.maximum(guide.ids, 0)])
            self.after[state] = _weighted(guide.weight, values) + self.bonuses
        return self.after[state]


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {
        "size": 5,
        "nbest": 1,
        "length_penalty": "length",
        "alpha": 1.0,
        "min_length": 0,
        "threshold": 0.0,
        "no_repeat_ngram": 0,
        "per_node": 0,
        "patience": 0.0,
        "groups": 1,
        "coverage_penalty": 0.0,
    },
    "best_path": {},
    "prefix_beam": {
        "size": 64,
        "per_node": 0,
        "histories": 0,
        "merge": "sum",
        "token_threshold": 0.0,
        "threshold": 0.0,
        "nbest": 1,
        "lag": 0,
    },
}
"""The settings of each search, and their defaults."""


def parse_search(text: str) -> dict[str, Any]:
    """The settings of a search such as "beam size=5 nbest=3"; ModelError if there is no such search or setting."""
    name, *options = text.split()
    if name not in SEARCHES:
        raise ModelError(f"unknown search {name!r}; there are: {', '.join(SEARCHES)}")
    settings: dict[str, Any] = {"name": name}
    for option in options:
        key, _, value = option.partition("=")
        default = SEARCHES[name].get(key)
        if default is None:
            raise ModelError(f"the search {name} has no setting {key!r}; it has: {', '.join(SEARCHES[name]) or 'none'}")
        try:
            settings[key] = type(default)(value)
        except ValueError:
            raise ModelError(f"search: {key}: expected a number, found {value!r}") from None
        if (isinstance(default, int | float) and not settings[key] >= 0) or (
            key in ("size", "nbest") and not settings[key]
        ):
            raise ModelError(f"search: {key} is {value}, which is too small")
    allowed = {"length_penalty": ("length", "gnmt", "none"), "merge": ("sum", "max")}
    for key, values in allowed.items():
        if key in settings and settings[key] not in values:
            raise ModelError(f"search: {key}: expected one of {', '.join(values)}, found {settings[key]!r}")
    return settings


class Beam:
    """Beam search: the most probable partial hypotheses of each input are extended in parallel."""

    def __init__(
        self, settings: dict[str, Any], end: int, suppress: Sequence[int], guided: "GuidedStep | None" = None
    ) -> None:
        self.settings = SEARCHES["beam"] | settings
        self.nbest: int = self.settings["nbest"]
        self.gain: Callable[[int], float] = guided.gain if guided is not None else lambda _: 0.0
        if guided is not None and guided.guide.rescores:
            self.settings |= {"nbest": self.settings["size"]}  # all are reordered afterwards
        is_beam = self.settings.get("name", "beam") == "beam"
        if not is_beam or self.settings["groups"] > 1 or self.settings["coverage_penalty"]:
            raise ModelError("expected the search greedy, or beam without groups and coverage_penalty")
        self.end, self.suppress = end, list(suppress)

    def __call__(
        self,
        step: Step,
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
                    score = total / self.divisor(length)
                    if (is_end or cutoff == -math.inf) and score > cutoff:
                        whole = tokens if is_end else [*tokens, token]
                        scored = [*previous, float(values[index, token])]
                        self._add(finished[row], Hypothesis(whole, score, total, scored, is_end))
                best_case = going[0][0] + self.gain(int(limits[row]) - length) if going else 0.0
                # A negative total is divided by the length of the longest output at best, a positive one by the next.
                longest = length + 1 if best_case > 0 else int(limits[row])
                if going and not self._is_final(finished[row], ended_counts[row], best_case, longest):
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

    def divisor(self, length: int) -> float:
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
        return self._cutoff(entries) >= best / self.divisor(limit)


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


class TorchRandom:
    """The random numbers of torch's generator on a CPU: those of the Mersenne Twister with the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.RandomState(seed)

    def _integers(self, count: int) -> Array:
        return np.frombuffer(self._random.bytes(4 * count), "<u4").astype(np.uint64)

    def _floats(self, count: int) -> Array:
        """From 0 to 1, in single precision."""
        return ((self._integers(count) & np.uint64((1 << 24) - 1)) * 2.0**-24).astype(np.float32)

    def _doubles(self, count: int) -> Array:
        high, low = self._integers(2 * count).reshape(-1, 2).T
        doubles: Array = ((high << np.uint64(32) | low) & np.uint64((1 << 53) - 1)) * 2.0**-53
        return doubles

    def bernoulli(self, log_odds: Array, temperature: float) -> Array:
        """1 or 0 for each element; temperature 0: 1 where that is more probable than not."""
        if temperature == 0:
            return (log_odds > 0).astype(np.float32)
        probabilities = 1 / (1 + np.exp(-(log_odds / np.float32(temperature)).astype(np.float64)))
        drawn = self._floats(log_odds.size).reshape(log_odds.shape) < probabilities.astype(np.float32)
        return drawn.astype(np.float32)

    def choose(self, probabilities: Array) -> Array:  # (B, K) → (B,)
        """A choice for each row: the largest probability relative to a number from an exponential distribution."""
        waiting = -np.log1p(-self._doubles(probabilities.size)).reshape(probabilities.shape)
        chosen: Array = (probabilities / np.maximum(waiting, 1e-30).astype(np.float32)).argmax(axis=1)
        return chosen

    def normal(self, count: int) -> Array:
        """From a normal distribution (Box & Muller 1958); torch draws from 16 numbers on in single precision."""
        if count < 16:
            angles, radii = self._doubles(count + count % 2).reshape(-1, 2).T
            radius = np.sqrt(-2 * np.log1p(-radii))
            pairs = np.stack([radius * np.cos(2 * np.pi * angles), radius * np.sin(2 * np.pi * angles)], axis=1)
            return pairs.ravel()[:count].astype(np.float32)
        values = self._floats(count)
        for first in range(0, count - 15, 16):
            values[first : first + 16] = _box_muller(values[first : first + 16])
        if count % 16:  # the last 16 are drawn once more
            values[-16:] = _box_muller(self._floats(16))
        return values


def _box_muller(uniform: Array) -> Array:  # (16,)
    radius = np.sqrt(-2 * np.log(1 - uniform[:8]))
    angle = np.float32(2 * np.pi) * uniform[8:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])


# Inputs: a function of the description that returns a reader, from inputs to the arrays of a batch and their words

Feed = tuple[dict[str, Array], list[list[str]]]
Read = Callable[[list[Any]], Feed]


def _text_score(values: list[float]) -> dict[str, Any]:
    """The probability of a text, from the log-probabilities of its tokens."""
    total = math.fsum(values)
    perplexity = math.exp(min(-total / max(len(values), 1), 700))
    return {"log_probability": total, "perplexity": perplexity, "log_probabilities": values}


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


class Spelling:
    """Words as the ids of their characters, of a long word those of its start and its end."""

    def __init__(self, characters: Sequence[str], longest: int, specials: Sequence[str] = ()) -> None:
        self.longest, self.specials = longest, {*specials}
        self._tokens = {token: index for index, token in enumerate(characters)}
        self._letters = {token: index for token, index in self._tokens.items() if len(token) == 1}

    def __call__(self, rows: Sequence[Sequence[str]], length: int) -> Array:  # (B, length, longest)
        spelled = np.zeros((len(rows), length, self.longest), dtype=np.int64)
        for row, words in zip(spelled, rows, strict=True):
            for place, word in enumerate(words):
                row[place] = self._spell(word)
        return spelled

    def _spell(self, word: str) -> list[int]:
        ids = [self._letters.get(letter, UNKNOWN) for letter in word]
        if word in self.specials:  # a character of its own
            ids = [self._tokens.get(word, UNKNOWN)]
        if len(ids) > self.longest:
            ids = ids[: self.longest // 2] + ids[len(ids) - (self.longest - self.longest // 2) :]
        return ids + [PADDING] * (self.longest - len(ids))


class LanguageModelText:
    """Texts as a bidirectional or masked language model reads them: ids of words, or the characters of words."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.tokenizer = Tokenizer(description["tokenizer"])
        self.end = self.tokenizer.tokens.index(END)
        self._spell = None
        if description["characters"] is not None:
            specials = ["<unk>", *self.tokenizer.specials]
            self._spell = Spelling(description["characters"], description["max_characters"], specials)

    @property
    def reads_characters(self) -> bool:
        return self._spell is not None

    def look_up(self, words: Sequence[str]) -> list[int]:
        """The ids of words as they are written."""
        is_lower = self.tokenizer.lowercase and self.tokenizer.unit != "subwords"
        return self.tokenizer.look_up(word.lower() if is_lower else word for word in words)

    def read(self, rows: Sequence[Sequence[str]], ids: Sequence[Sequence[int]]) -> Array:  # (B, T), or one axis more
        """The boundary token and the words of each row, as they are written and as ids."""
        if self._spell is not None:
            return self._spell([[END, *row] for row in rows], 1 + max(map(len, rows)))
        return _pad([[self.end, *row] for row in ids])[0]


class PretrainedVectors:
    """What a model with pretrained vectors reads besides its own tokens."""

    def __init__(self, description: dict[str, Any]) -> None:
        pretrained = description.get("pretrained") or {"language": None, "words": []}
        language = pretrained["language"]
        self._language = None if language is None else LanguageModelText(language)
        self._tables = [{word: index for index, word in enumerate(words)} for words in pretrained["words"]]

    def read(self, rows: Sequence[Sequence[str]], *, end: bool = False, reverse: bool = False) -> dict[str, Array]:
        """The inputs of the graph for rows of words as they are written."""
        feed = {}
        if self._language is not None:
            feed["context"] = self._language.read(rows, [*map(self._language.look_up, rows)])
        ordered = [[*(reversed(row) if reverse else row), *[END] * end] for row in rows]
        for number, ids in enumerate(self._tables):
            places = [[ids.get(word) or ids.get(word.lower(), UNKNOWN) for word in row] for row in ordered]
            feed[f"vector_words_{number}"] = _pad(places)[0]
        return feed


def _read_texts(description: dict[str, Any]) -> Read:
    tokenizer, pretrained = Tokenizer(description["tokenizer"]), PretrainedVectors(description)

    def read(items: list[Any]) -> Feed:
        tokens, lengths = _pad([tokenizer.encode(_text(item)) for item in items])
        further = pretrained.read([tokenizer.cased_tokens(item) for item in items])
        return {"tokens": tokens, "lengths": lengths, **further}, []

    return read


def _read_text_pairs(description: dict[str, Any]) -> Read:
    read = _read_texts(description)
    return lambda items: read([text for item in items for text in _pair(item)])


def _pair(item: Any) -> list[str]:
    """The two texts of a pair, or of a string with a tab or ||| between them."""
    texts = re.split(r"\t|\|\|\|", item) if isinstance(item, str) else [_text(text) for text in item]
    if len(texts) != 2:
        raise ModelError(f"expected two texts with a tab or ||| between them, found {len(texts)}")
    return [text.replace("\t", " ").strip() for text in texts]


def _read_sources(description: dict[str, Any]) -> Read:
    tokenizer, pretrained = Tokenizer(description["tokenizer"]), PretrainedVectors(description)
    reverse = description["reverse"]

    def read(items: list[Any]) -> Feed:
        rows = [tokenizer.encode(_text(item)) for item in items]
        tokens, lengths = _pad([[*(row[::-1] if reverse else row), description["end"]] for row in rows])
        further = pretrained.read([tokenizer.cased_tokens(item) for item in items], end=True, reverse=reverse)
        return {"tokens": tokens, "lengths": lengths, **further}, []

    return read


def _read_words(description: dict[str, Any]) -> Read:
    ids = {word: index for index, word in enumerate(description["vocabulary"])}
    characters, pretrained = description["characters"], PretrainedVectors(description)
    spell = None if characters is None else Spelling(characters, description["max_characters"])
    columns = [feature["column"] for feature in description.get("features", ())]
    tables = [
        {value: index for index, value in enumerate(feature["values"])} for feature in description.get("features", ())
    ]

    def split(item: Any) -> list[list[str]]:
        """The words of a sentence, each with its features."""
        if not columns:
            return [[word] for word in (item.split() if isinstance(item, str) else map(_text, item))]
        rows = [] if isinstance(item, str) else [[*map(_text, row)] for row in item if not isinstance(row, str)]
        if isinstance(item, str) or len(rows) < len(item) or any(len(row) != 1 + len(columns) for row in rows):
            raise ModelError(f"expected for each word a list of the word and its columns {', '.join(columns)}")
        return rows

    def read(items: list[Any]) -> Feed:
        rows = [split(item) for item in items]
        sentences = [[word for word, *_ in row] for row in rows]
        forms = [[word.lower() if description["lowercase"] else word for word in sentence] for sentence in sentences]
        tokens, lengths = _pad([[ids.get(form, UNKNOWN) for form in sentence] for sentence in forms])
        feed = {"words": tokens, "lengths": lengths, **pretrained.read(sentences)}
        if spell is not None:
            feed["characters"] = spell(sentences, tokens.shape[1])
        for number, table in enumerate(tables):
            feed[f"feature_{number}"] = _pad([[table.get(word[1 + number], UNKNOWN) for word in row] for row in rows])[
                0
            ]
        return feed, sentences

    return read


def _vectors(item: Any, size: int, *, single: bool = False) -> Array:
    values = np.asarray(item, dtype=np.float64)
    if values.ndim == 1 and (single or size == 1):  # one vector, or a sequence of numbers
        values = values[None] if single else values[:, None]
    if values.ndim != 2 or values.shape[1] != size:
        raise ModelError(f"expected an array (time, {size}), found one of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ModelError("an input contains NaN or infinity")
    return values


def _read_vectors(description: dict[str, Any]) -> Read:
    size, height, single = description["size"], description.get("line_height", 0), description.get("single", False)

    def values(item: Any) -> Array:
        item = _load(item)
        is_line = height and isinstance(item, np.ndarray) and item.dtype == np.uint8 and item.ndim > 1
        return line_columns(item, height).astype(np.float64) if is_line else _vectors(item, size, single=single)

    def read(items: list[Any]) -> Feed:
        rows = [values(item) for item in items]
        _, lengths = _pad([range(len(row)) for row in rows])
        padded = np.zeros((len(rows), max(1, lengths.max()), size))
        for place, row in zip(padded, rows, strict=True):
            place[: len(row)] = row
        return {"values": padded, "lengths": lengths}, []

    return read


def _read_sound(description: dict[str, Any]) -> Read:
    rate, window = description["rate"], description["window"]

    def read(items: list[Any]) -> Feed:
        rows = [_samples(item, rate) for item in items]
        for row in rows:
            if len(row) < window:
                raise ModelError(f"the sound has {len(row)} samples, but a window needs {window}")
        samples = np.zeros((len(rows), max(map(len, rows))), np.float32)
        for padded, row in zip(samples, rows, strict=True):
            padded[: len(row)] = row
        return {"samples": samples, "lengths": np.array([len(row) for row in rows])}, []

    return read


def _read_images(description: dict[str, Any]) -> Read:
    def read(items: list[Any]) -> Feed:
        images = [square(_load(item), description["size"], description["resize"]) for item in items]
        return {"pixels": np.stack(images)}, []

    return read


def _read_videos(description: dict[str, Any]) -> Read:
    def read(items: list[Any]) -> Feed:
        videos = []
        for item in items:
            frames = _load(item)
            if not isinstance(frames, np.ndarray) or frames.dtype != np.uint8 or frames.ndim < 3 or not len(frames):
                raise ModelError("expected a video: an array (time, height, width, 3) of uint8, or a file")
            videos.append(np.stack([square(frame, description["size"], description["resize"]) for frame in frames]))
        lengths = np.array([len(video) for video in videos])
        padded = np.zeros((len(videos), lengths.max(), *videos[0].shape[1:]), np.uint8)
        for place, video in zip(padded, videos, strict=True):
            place[: len(video)] = video
        return {"frames": padded, "lengths": lengths}, []

    return read


def _read_series(description: dict[str, Any]) -> Read:
    """The end of each series, from which the following values are forecast."""
    columns, history = len(description["columns"]), description["history"]
    read_vectors = _read_vectors({"size": columns})
    known = None if description.get("covariates") is None else KnownInAdvance(description)

    def read(items: list[Any]) -> Feed:
        tables = [] if known is None else [known.read(item) for item in items]
        rows = [values for values, _ in tables] if tables else [_vectors(item, columns) for item in items]
        if not all(map(len, rows)):
            raise ModelError("a series has no rows")
        starts = [max(0, len(row) - history) if history else 0 for row in rows]
        feed, _ = read_vectors([row[start:] for row, start in zip(rows, starts, strict=True)])
        if description["previous"]:
            feed["previous"] = np.stack([row[max(start - 1, 0)] for row, start in zip(rows, starts, strict=True)])
        if tables:
            parts = [covariates[start:] for (_, covariates), start in zip(tables, starts, strict=True)]
            feed["covariates"] = np.full((len(parts), max(map(len, parts)), parts[0].shape[1]), np.nan)
            for row, part in zip(feed["covariates"], parts, strict=True):
                row[: len(part)] = part
        return feed, []

    return read


DAY = 86_400_000_000  # microseconds
MONDAY = 4 * DAY  # 1970-01-05
DAYS_OF_YEAR = 365.2425


class KnownInAdvance:
    """Tables of series with what is known of the steps to forecast: dates, and some of the columns."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.columns: list[str] = description["columns"]
        covariates = description["covariates"]
        self.calendar, self.date, self.horizon = (covariates[name] for name in ("calendar", "date", "horizon"))
        self.future, self.static = covariates["future"], covariates["static"]
        self.is_utc = covariates.get("time_zone") == "utc"  # of times with an offset; otherwise they are local times

    def read(self, item: Any) -> tuple[Array, Array]:  # (T, columns), (T + horizon, covariates)
        """The rows of the history, and the covariates of all rows."""
        if not isinstance(item, dict) or not set(self.columns) <= item.keys():
            raise ModelError(f"expected a table, a list for each column: {', '.join(self.columns)}")
        empty = (None, "")
        values = np.array(
            [[np.nan if value in empty else float(value) for value in item[name]] for name in self.columns]
        ).T
        observed = [name not in (*self.future, *self.static) for name in self.columns]
        length = int(np.flatnonzero(~np.isnan(values[:, observed]).any(axis=1)).max(initial=-1)) + 1
        ahead = values[: length + self.horizon]
        if len(ahead) < length + self.horizon:
            raise ModelError(
                f"expected {self.horizon} rows after the history, with {', '.join(['the date', *self.future])} and "
                f"nothing else, found {len(ahead) - length}"
            )
        places = {name: place for place, name in enumerate(self.columns)}
        known = ahead[:, [places[name] for name in self.future]]
        static = np.tile(values[length - 1, [places[name] for name in self.static]], (len(ahead), 1))
        parts = np.concatenate([self._cycles(item, len(ahead)), known, static], axis=1)
        if np.isnan(parts).any() or np.isnan(values[:length]).any():
            raise ModelError("a value is missing in the history, or a covariate in the rows to forecast")
        return values[:length], parts

    def _cycles(self, item: dict[str, Any], rows: int) -> Array:  # (rows, 2 × cycles)
        """Sine and cosine of the place of each date in each cycle of the calendar."""
        if not self.calendar:
            return np.zeros((rows, 0))
        name = self.date or next((name for name in item if name not in self.columns), "")
        if name not in item:
            raise ModelError(f"expected a column with dates{f', {name!r}' if name else ''}")
        try:
            stamps = np.array([self._time(str(date).strip()) for date in item[name][:rows]], dtype="M8[us]")
        except ValueError as error:
            raise ModelError(f"column {name!r}: expected dates such as 2024-08-27 or 2024-08-27 12:00") from error
        micros = stamps.astype(np.int64)
        day_of_year = (stamps.astype("M8[D]") - stamps.astype("M8[Y]").astype("M8[D]")).astype(np.float64)
        places = {
            "hour": (micros % DAY) / DAY,
            "weekday": ((micros - MONDAY) % (7 * DAY)) / (7 * DAY),
            "time of year": (day_of_year + (micros % DAY) / DAY) / DAYS_OF_YEAR,
        }
        angles = 2 * np.pi * np.stack([places[cycle] for cycle in self.calendar], axis=1)
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def _time(self, text: str) -> str:
        """A date or time in ISO 8601 without its offset from UTC."""
        if ":" not in text:
            return text.replace(" ", "T")
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if self.is_utc and time.tzinfo is not None else time
        return time.replace(tzinfo=None).isoformat()


def _keys(item: Any, description: dict[str, Any]) -> Array:  # (T, K)
    """The frames of a piece: an array of 0 and 1, or a list of MIDI numbers for each frame."""
    keys, lowest = description["keys"], description["lowest"]
    if not len(item):
        raise ModelError("a piece has no frames")
    if not isinstance(item, np.ndarray) and not all(len(frame) == keys for frame in item):
        frames = np.zeros((len(item), keys))
        for frame, numbers in zip(frames, item, strict=True):
            for number in numbers:
                if not lowest <= number < lowest + keys:
                    raise ModelError(f"{number} is not a key of a piano: expected {lowest} to {lowest + keys - 1}")
                frame[number - lowest] = 1
        return frames
    frames = _vectors(item, keys)
    if not np.isin(frames, (0, 1)).all():
        raise ModelError("expected frames of 0 and 1")
    return frames


def _read_keys(description: dict[str, Any]) -> Read:
    def read(items: list[Any]) -> Feed:
        pieces = [_keys(item, description) for item in items]
        lengths = np.array([len(piece) for piece in pieces])
        following = np.zeros((len(pieces), lengths.max(), description["keys"]), np.float32)
        for padded, piece in zip(following, pieces, strict=True):
            padded[: len(piece)] = piece
        frames = np.concatenate([np.zeros_like(following[:, :1]), following[:, :-1]], axis=1)
        return {"frames": frames, "following": following, "lengths": lengths}, []

    return read


def _drawing(item: Any) -> tuple[Array, str]:
    """The points (T, 3) of a drawing and its text: an array, a pair, or an object with strokes and text."""
    text = ""
    if isinstance(item, dict):
        item, text = item.get("strokes"), item.get("text") or ""
    elif isinstance(item, tuple):
        item, text = item
    points = _vectors(item, 3)
    if not np.isin(points[:, 2], (0, 1)).all():
        raise ModelError("expected dx, dy, and 0 or 1 as the third number of each point")
    return points, text


def _read_strokes(description: dict[str, Any]) -> Read:
    def read(items: list[Any]) -> Feed:
        drawings, texts = zip(*map(_drawing, items), strict=True)
        lengths = np.array([len(points) + 1 for points in drawings])  # a point at rest precedes each drawing
        padded = np.zeros((len(drawings), lengths.max(), 3))
        for row, points in zip(padded, drawings, strict=True):
            row[1 : len(points) + 1] = points
        feed = {"points": padded, "lengths": lengths, **_letters(list(texts), description)}
        return feed, [[text] for text in texts]

    return read


INPUTS: dict[str, Callable[[dict[str, Any]], Read]] = {
    "keys": _read_keys,
    "strokes": _read_strokes,
    "text": _read_texts,
    "text_pair": _read_text_pairs,
    "source": _read_sources,
    "words": _read_words,
    "vectors": _read_vectors,
    "series": _read_series,
    "sound": _read_sound,
    "image": _read_images,
    "video": _read_videos,
}


# Files, sound and images


class Sound(NamedTuple):
    """Samples of one channel, usually between -1 and 1, and how many there are in a second."""

    samples: Array
    rate: int


def _load(item: Any) -> Any:
    """The content of a file that is given by its name: an array, an image or an animation; other inputs as they are."""
    if not isinstance(item, str | Path):
        return item
    path = Path(item)
    if path.suffix.lower() == ".npy":
        with path.open("rb") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        raise ModelError(
            f"{path}: reading images needs Pillow (pip install pillow), or give arrays of pixels"
        ) from None
    data = path.read_bytes()
    try:
        with Image.open(io.BytesIO(data)) as image:
            if getattr(image, "n_frames", 1) > 1:
                frames = []
                for number in range(image.n_frames):  # type: ignore[attr-defined]
                    image.seek(number)
                    frames.append(_rgb(image))
                return np.stack(frames)
            return _rgb(ImageOps.exif_transpose(image))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ModelError(f"{path}: cannot read the image ({error})") from None


def _rgb(image: Any) -> Array:
    """The pixels of an image of Pillow, on white if it is transparent."""
    if image.mode.startswith("I"):  # 16 bits
        grey = (np.asarray(image, dtype=np.int64).clip(0, 65535) // 257).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        from PIL import Image

        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return np.array(image.convert("RGB"))


def _pixels(values: Any) -> Array:  # (H, W, 3)
    array = np.asarray(values)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,)) or not array.size:
        raise ModelError(f"expected an image (height, width, 3) of uint8, found {array.dtype} {array.shape}")
    return np.repeat(array[:, :, None], 3, axis=2) if array.ndim == 2 else array


def square(values: Any, size: int, fit: str) -> Array:  # (size, size, 3)
    """An image as a square: its centre, or the whole of it with grey margins."""
    pixels = _pixels(values)
    height, width = pixels.shape[:2]
    if fit == "crop":
        side = min(height, width)
        top, left = (height - side) / 2, (width - side) / 2
        return resize(pixels, (size, size), (top, top + side), (left, left + side))
    side = max(height, width)
    inner = max(round(height * size / side), 1), max(round(width * size / side), 1)
    canvas = np.full((size, size, 3), 128, np.uint8)
    top, left = ((size - length) // 2 for length in inner)
    canvas[top : top + inner[0], left : left + inner[1]] = resize(pixels, inner, (0, height), (0, width))
    return canvas


def line_columns(values: Any, height: int) -> Array:  # (width, height), 0 black to 1 white
    """The columns of the image of a text line, scaled to ``height``."""
    red, green, blue = np.moveaxis(_pixels(values).astype(np.int64), 2, 0)
    grey = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
    width = max(round(grey.shape[1] * height / grey.shape[0]), 1)
    scaled = resize(grey.astype(np.uint8)[:, :, None], (height, width), (0, grey.shape[0]), (0, grey.shape[1]))
    return np.ascontiguousarray(scaled[:, :, 0].T.astype(np.float32)) * np.float32(1 / 255)


def resize(
    pixels: Array,  # (H, W, C) of uint8
    shape: tuple[int, int],  # new height and width
    rows: tuple[float, float],  # first and last row, which may be between two
    columns: tuple[float, float],
) -> Array:
    """Bilinear interpolation with averaging of many pixels, with the rounding of Pillow."""
    if shape[1] != pixels.shape[1] or columns != (0, pixels.shape[1]):
        pixels = _resample_axis(pixels.transpose(1, 0, 2), shape[1], columns).transpose(1, 0, 2)
    if shape[0] != pixels.shape[0] or rows != (0, pixels.shape[0]):
        pixels = _resample_axis(pixels, shape[0], rows)
    return pixels


def _resample_axis(pixels: Array, size: int, box: tuple[float, float]) -> Array:
    length, scale = len(pixels), (box[1] - box[0]) / size
    support = max(scale, 1.0)
    output = np.empty((size, *pixels.shape[1:]), np.uint8)
    for place in range(size):
        centre = box[0] + (place + 0.5) * scale
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), length)
        weights = np.maximum(1 - np.abs((np.arange(first, last) - centre + 0.5) / support), 0)
        fixed = np.floor(weights / weights.sum() * (1 << 22) + 0.5).astype(np.int64)
        total = np.tensordot(fixed, pixels[first:last].astype(np.int64), axes=1) + (1 << 21)
        output[place] = np.clip(total >> 22, 0, 255)
    return output


def _samples(item: Any, rate: int) -> Array:  # (N,)
    """Sound at the rate of the model: a file, ``Sound(samples, rate)``, or samples at that rate."""
    if isinstance(item, str | Path):
        item = read_sound(item)
    given = rate
    if isinstance(item, tuple):
        item, given = item
    array = np.asarray(item)
    if array.ndim != 1 or array.dtype.kind not in "fi":
        raise ModelError(f"expected samples (N,), found {array.dtype} {array.shape}")
    if array.dtype.kind == "i" and hasattr(item, "dtype"):
        array = array * (1 / (1 << 8 * array.dtype.itemsize - 1))
    samples = array.astype(np.float32)
    if not len(samples) or not np.isfinite(samples).all():
        raise ModelError("expected finite samples, found none" if not len(samples) else "a sample is NaN or infinite")
    return resample(samples, int(given), rate)


def read_sound(path: "str | Path") -> Sound:
    """The sound of a WAV file; other formats need the package soundfile. Channels are averaged."""
    data = Path(path).read_bytes()
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        try:
            import soundfile
        except ModuleNotFoundError:
            raise ModelError(
                f"{path}: is not a WAV file; other formats need soundfile (pip install soundfile)"
            ) from None
        try:
            samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
        except RuntimeError as error:
            raise ModelError(f"{path}: cannot read the sound ({error})") from None
        return Sound(samples.mean(axis=1), rate)
    offset, code, channels, rate, bits = 12, 0, 0, 0, 0
    while offset + 8 <= len(data):
        kind, size = data[offset : offset + 4], int.from_bytes(data[offset + 4 : offset + 8], "little")
        body = data[offset + 8 : offset + 8 + size]
        if kind == b"fmt " and len(body) >= 16:
            code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", body)
            code = struct.unpack_from("<H", body, 24)[0] if code == 0xFFFE and len(body) >= 26 else code
        if kind == b"data":
            return Sound(_decode_wav(path, body, code, channels, bits), rate)
        offset += 8 + size + size % 2
    raise ModelError(f"{path}: the WAV file has no samples")


def _decode_wav(path: Any, body: bytes, code: int, channels: int, bits: int) -> Array:
    if (code, bits) not in ((1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)) or not channels:
        raise ModelError(f"{path}: expected a WAV file of PCM or float samples, found format {code} of {bits} bits")
    body = body[: len(body) // (channels * bits // 8) * (channels * bits // 8)]
    if code == 3:
        values = np.frombuffer(body, f"<f{bits // 8}").astype(np.float32)
    elif bits == 24:
        triples = np.frombuffer(body, np.uint8).reshape(-1, 3).astype(np.int32)
        values = ((triples[:, 0] << 8 | triples[:, 1] << 16 | triples[:, 2] << 24) / 2**31).astype(np.float32)
    else:
        raw = np.frombuffer(body, "u1" if bits == 8 else f"<i{bits // 8}")
        values = ((raw - 128.0 if bits == 8 else raw) / 2.0 ** (bits - 1)).astype(np.float32)
    mono: Array = values.reshape(-1, channels).mean(axis=1)
    return mono


ZERO_CROSSINGS, BETA = 10, 5.0  # of the sinc on each side, and of its Kaiser window


def resample(samples: Array, rate: int, new_rate: int) -> Array:
    """Sound at another rate, by a windowed sinc."""
    divisor = math.gcd(rate, new_rate)
    up, down = new_rate // divisor, rate // divisor
    if up == down:
        return samples
    widest = max(up, down)
    reach = ZERO_CROSSINGS * widest // up + 1  # samples on each side of an output
    points = min(widest, 1 << 12)
    total = _sinc(np.arange(-ZERO_CROSSINGS * points, ZERO_CROSSINGS * points + 1) / points).sum() * widest / points
    padded = np.pad(samples, (reach, reach + 1))
    output = np.empty(-(-len(samples) * up // down), np.float32)
    for start in range(0, len(output), 1 << 14):
        places = np.arange(start, min(start + (1 << 14), len(output)))
        distances = (places * down % up)[:, None] - np.arange(-reach, reach + 1) * up
        weights = (up * _sinc(distances / widest) / total).astype(np.float32)
        windows = padded[(places * down // up)[:, None] + np.arange(2 * reach + 1)]
        output[places] = (windows * weights).sum(axis=1)
    return output


def _sinc(distance: Array) -> Array:
    inside = np.clip(1 - (distance / ZERO_CROSSINGS) ** 2, 0, None)
    window = np.i0(BETA * np.sqrt(inside)) / np.i0(BETA)
    return np.where(np.abs(distance) <= ZERO_CROSSINGS, np.sinc(distance) * window, 0)


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
    answers: list[dict[str, Any]] = [
        {
            "words": sentence,
            "labels": [names[label] for label in labels[:length].tolist()],
            "probabilities": probabilities[:length].tolist(),
        }
        for labels, probabilities, length, sentence in rows
    ]
    if step := output.get("step_seconds"):
        for answer in answers:
            answer["segments"] = _segments(answer["labels"], step)
    return answers


def _segments(labels: list[str], step: float) -> list[list[Any]]:
    """Start and end in seconds, and label, of frames with equal labels."""
    segments, start = [], 0
    for label, group in groupby(labels):
        end = start + len(list(group))
        segments.append([round(start * step, 6), round(end * step, 6), label])
        start = end
    return segments


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
        self.specials: list[str] = description["specials"]
        self.first_text_id = 2 + len(self.specials)
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
        return self.look_up(self._pieces(text.lower() if self.lowercase else text))

    def look_up(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens."""
        return [self._ids.get(token, UNKNOWN) for token in tokens]

    def cased_tokens(self, text: str) -> list[str]:
        """The tokens of a text in their original case, if there are as many."""
        tokens = self._pieces(text.lower() if self.lowercase else text)
        cased = tokens if self._subwords is not None else self._pieces(text)
        return cased if len(cased) == len(tokens) else tokens

    def _pieces(self, text: str) -> list[str]:
        if self._subwords is not None:
            return self._subwords.encode(text)
        return _SPLITS[self.split](text) if self.unit == "words" else list(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without padding and special tokens."""
        kept = [index for index in ids if index == UNKNOWN or index >= self.first_text_id]
        tokens = [self.tokens[index] for index in kept]
        if self._subwords is not None:
            return self._subwords.decode(tokens)
        if self.unit == "words":
            return _JOINS[self.split](tokens)
        return "".join("\ufffd" if index == UNKNOWN else token for index, token in zip(kept, tokens, strict=True))

    def readable(self, index: int) -> str:
        """A token as it appears in a text; subwords store spaces and bytes as other characters."""
        token = self.tokens[index]
        if self._subwords is None or index < self.first_text_id:
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


def split_lines(text: str) -> list[str]:
    """The words between blanks; a line break, and the indentation of a line after it or at the start, is one, too."""
    return re.findall(r"^[^\S\n]+|\n[^\S\n]*|\S+", text)


def join_lines(words: Iterable[str]) -> str:
    """The text again, with one blank between the words of a line."""
    text = ""
    for word in words:
        is_joined = not text or word[:1].isspace() or text[-1].isspace()
        text += word if is_joined else f" {word}"
    return text


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


_SPLITS: dict[str, Callable[[str], list[str]]] = {
    "whitespace": str.split,
    "punctuation": split_words,
    "lines": split_lines,
}
_JOINS: dict[str, Callable[[Iterable[str]], str]] = {
    "whitespace": " ".join,
    "punctuation": join_words,
    "lines": join_lines,
}
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


def _reads_json(model: Model) -> bool:
    """Whether inputs are no plain texts or names of files: numbers, tables, or words with their columns."""
    description = model.description["input"]
    return description["kind"] in ("vectors", "series", "keys", "strokes") or bool(description.get("features"))


def _parse(line: str) -> Any:
    """An array or a table as JSON, or the name of a file."""
    return json.loads(line) if line.lstrip().startswith(("[", "{")) or not Path(line).exists() else line


def main(arguments: Sequence[str]) -> int:
    """Answer the lines of standard input."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        model = load(arguments[0])
        lines = (line.rstrip("\r\n") for line in sys.stdin)
        for answer in model.stream(map(_parse, lines) if _reads_json(model) else lines):
            print(json.dumps(_shorten(answer), ensure_ascii=False))
    except json.JSONDecodeError as error:
        print(
            f"seqloom_runtime: expected an array (time, size), or a table, as JSON on each line: {error}",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        print(f"seqloom_runtime: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except ModelError as error:
        print(f"seqloom_runtime: {error}", file=sys.stderr)
        return 1
    return 0


def command() -> int:
    """The command seqloom-runtime."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
