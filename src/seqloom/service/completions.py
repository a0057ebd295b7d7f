"""``/v1/completions``: text from language models, in the form of the OpenAI API."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from seqloom.data.text.vocabulary import END
from seqloom.service.requests import RequestBody, find_model, read_json
from seqloom.service.served_models import ServedModel

if TYPE_CHECKING:
    from seqloom.models.generation import GeneratedToken

TURN = 0.02  # seconds of the thread that a completion takes before others have a turn
MAX_CHOICES = 16
NEUTRAL = "Accepted with its default only, which clients of the OpenAI API may send."
Texts = str | Annotated[list[str], Field(fail_fast=True)]


class StreamOptions(RequestBody):
    """What a stream holds besides text."""

    include_usage: bool = Field(default=False, description="End with the number of tokens.")


class CompletionRequest(RequestBody):
    """A text to continue."""

    model: str = Field("", description="Name of the model; may be omitted if there is only one.")
    prompt: Texts = Field("", description="Text, or several.")
    max_tokens: int = Field(100, ge=0, description="Maximum number of new tokens.")
    lines: int = Field(
        1, ge=0, description="Stop after this many ends of a line (0: only at max_tokens). Not in the OpenAI API."
    )
    temperature: float = Field(1.0, ge=0, le=10, description="Sampling temperature (0: always the most probable).")
    top_p: float = Field(1.0, gt=0, le=1, description="Sample from the most probable tokens with this probability.")
    top_k: int = Field(0, ge=0, description="Sample from the k most probable tokens (0: all). Not in the OpenAI API.")
    min_p: float = Field(0.0, ge=0, le=1, description="Minimum relative probability. Not in the OpenAI API.")
    n: int = Field(1, ge=1, le=MAX_CHOICES, description="Continuations of each prompt.")
    seed: int | None = Field(None, ge=0, description="Random seed, for the same text again (default: random).")
    stop: Texts | None = Field(None, description="Texts that end the continuation, up to four.")
    stream: bool = Field(default=False, description="Send the text piece by piece, as server-sent events.")
    stream_options: StreamOptions | None = None
    logprobs: int | None = Field(None, ge=0, le=20, description="Log-probabilities, and this many alternatives.")
    echo: bool = Field(default=False, description="Return the prompt, too.")
    user: str = Field("", description="Ignored.")
    presence_penalty: float = Field(0.0, description=NEUTRAL)
    frequency_penalty: float = Field(0.0, description=NEUTRAL)
    best_of: int = Field(1, description=NEUTRAL)
    logit_bias: dict[str, float] | None = Field(None, description=NEUTRAL)
    suffix: str | None = Field(None, description=NEUTRAL)

    @model_validator(mode="after")
    def _refuse_what_would_be_ignored(self) -> "CompletionRequest":
        for name in ("presence_penalty", "frequency_penalty", "best_of", "logit_bias", "suffix"):
            default = type(self).model_fields[name].default
            if getattr(self, name) not in (default, {}, ""):
                raise ValueError(f"{name}: not supported; leave it out, or send {json.dumps(default)}")
        return self


@dataclass
class Choice:
    """One continuation as it grows."""

    index: int
    stops: tuple[str, ...]
    with_logprobs: bool
    lines: int = 0  # after which the continuation is complete; 0: any number
    text: str = ""
    finish_reason: str | None = None
    tokens: "list[GeneratedToken]" = field(default_factory=list)
    echoed: "list[GeneratedToken]" = field(default_factory=list)  # of the prompt
    offset: int = 0  # of the first of these tokens in the text of the choice
    returned: int = 0  # characters of the text that were returned

    def extend(self, tokens: "list[GeneratedToken]", *, is_over: bool) -> str:
        """Append tokens up to the first stop text, which is not part of the choice; returns the new text.

        Text that may be the beginning of a stop text is kept back until that is decided.
        """
        for token in tokens:
            self.text += token.text
            self.tokens.append(token)
            ends = [end for stop in self.stops if (end := self.text.find(stop, self.returned)) >= 0]
            if ends:
                self.text, self.finish_reason = self.text[: min(ends)], "stop"
                return self._new_text(0)
        if is_over:
            ended = sum(token.token == END for token in self.tokens)
            self.finish_reason = "stop" if self.lines and ended >= self.lines else "length"
        return self._new_text(0 if is_over else self._possible_stop())

    def _new_text(self, kept: int) -> str:
        start, self.returned = self.returned, max(self.returned, len(self.text) - kept)
        return self.text[start : self.returned]

    def _possible_stop(self) -> int:
        """The length of the longest end of the text that is the beginning of a stop text."""
        lengths = [length for stop in self.stops for length in range(1, len(stop)) if self.text.endswith(stop[:length])]
        return max(lengths, default=0)

    def as_json(self, text: str, tokens: "list[GeneratedToken]", *, start: int) -> dict[str, Any]:
        """A part of the choice, or the whole."""
        return {
            "text": text,
            "index": self.index,
            "logprobs": _logprobs(tokens, start) if self.with_logprobs else None,
            "finish_reason": self.finish_reason,
        }


def _logprobs(tokens: "list[GeneratedToken]", start: int) -> dict[str, Any]:
    offsets, position = [], start
    for token in tokens:
        offsets.append(position)
        position += len(token.text)
    return {
        "tokens": [token.token for token in tokens],
        "token_logprobs": [token.log_probability for token in tokens],
        "top_logprobs": [dict(token.alternatives) for token in tokens],
        "text_offset": offsets,
    }


async def completions(request: Request) -> Response:
    body = await read_json(request, CompletionRequest)
    model = find_model(request, body.model)
    settings = request.app.state.settings
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    if body.max_tokens > settings.max_tokens:
        raise HTTPException(422, f"max_tokens is limited to {settings.max_tokens:,}, got {body.max_tokens:,}")
    if not 1 <= len(prompts) <= MAX_CHOICES or len(prompts) * body.n > MAX_CHOICES:
        raise HTTPException(422, f"a request is limited to {MAX_CHOICES} continuations (prompts × n)")
    if any(len(prompt) > settings.max_length for prompt in prompts):
        raise HTTPException(422, f"a prompt is limited to {settings.max_length:,} characters")
    if len(stops) > 4 or not all(stops):
        raise HTTPException(422, "stop: expected up to four texts that are not empty")
    job = Completion(model, body, prompts, stops)
    job.check()
    if body.stream:
        return StreamingResponse(job.events(), media_type="text/event-stream")
    return JSONResponse(await job.finish())


class Completion:
    """All continuations of a request."""

    def __init__(
        self, model: ServedModel[Any], body: CompletionRequest, prompts: list[str], stops: tuple[str, ...]
    ) -> None:
        self.model, self.loaded, self.body, self.prompts, self.stops = model, model.current, body, prompts, stops
        self.seed = secrets.randbelow(2**31) if body.seed is None else body.seed
        self.identity, self.created = f"cmpl-{secrets.token_hex(12)}", int(time.time())
        self.used = 0  # tokens that were generated

    def check(self) -> None:
        """Raise TypeError unless the model generates text, and Overloaded if it has too much to do."""
        self._start("", 0)
        self.model.worker.admit(1)

    def _start(self, prompt: str, number: int) -> "Iterator[GeneratedToken]":
        tokens: Iterator[GeneratedToken] = self.loaded.generate_tokens(
            prompt,
            length=self.body.max_tokens,
            lines=self.body.lines,
            alternatives=self.body.logprobs or 0,
            temperature=self.body.temperature,
            top_k=self.body.top_k,
            top_p=self.body.top_p,
            min_p=self.body.min_p,
            seed=self.seed + number,
        )
        return tokens

    async def _parts(self) -> "AsyncIterator[tuple[Choice, str, list[GeneratedToken]]]":
        """The choices one after the other, in parts: new text and new tokens."""
        for number, prompt in enumerate(prompt for prompt in self.prompts for _ in range(self.body.n)):
            choice = Choice(number, self.stops, self.body.logprobs is not None, lines=self.body.lines)
            if self.body.echo:
                if self.body.logprobs is None:
                    choice.offset = len(prompt)
                else:
                    choice.echoed = await self._score(prompt)
                yield choice, prompt, choice.echoed
            tokens = self._start(prompt, number)
            while choice.finish_reason is None:
                turn, is_over = await self.model.worker.call(_take_turn, tokens, admitted=True)
                before = len(choice.tokens)
                text = choice.extend(turn, is_over=is_over)
                self.used += len(choice.tokens) - before
                yield choice, text, choice.tokens[before:]

    async def _score(self, prompt: str) -> "list[GeneratedToken]":
        """The tokens of a prompt with their log-probabilities."""
        stream, scored, is_over = self.loaded.prompt_tokens(prompt, alternatives=self.body.logprobs or 0), [], False
        while not is_over:
            turn, is_over = await self.model.worker.call(_take_turn, stream, admitted=True)
            scored += [token for token in turn if token.token]
        return scored

    async def finish(self) -> dict[str, Any]:
        """The answer as a whole."""
        texts: dict[int, str] = {}
        choices: dict[int, Choice] = {}
        async for choice, text, _ in self._parts():
            choices[choice.index] = choice
            texts[choice.index] = texts.get(choice.index, "") + text
        listed = [
            choice.as_json(texts[index], [*choice.echoed, *choice.tokens], start=choice.offset)
            for index, choice in choices.items()
        ]
        return {**self._head(), "choices": listed, "usage": self._usage()}

    async def events(self) -> AsyncIterator[str]:
        """The answer as server-sent events."""
        offsets: dict[int, int] = {}
        async for choice, text, tokens in self._parts():
            start = offsets.get(choice.index, 0)
            offsets[choice.index] = start + len(text)
            if text or tokens or choice.finish_reason:
                yield _event({**self._head(), "choices": [choice.as_json(text, tokens, start=start)]})
        if self.body.stream_options and self.body.stream_options.include_usage:
            yield _event({**self._head(), "choices": [], "usage": self._usage()})
        yield _event("[DONE]")

    def _head(self) -> dict[str, Any]:
        return {
            "id": self.identity,
            "object": "text_completion",
            "created": self.created,
            "model": self.model.name,
            "system_fingerprint": self.loaded.version,
        }

    def _usage(self) -> dict[str, int]:
        prompt = sum(self.loaded.count_tokens(prompt) for prompt in self.prompts if prompt)
        return {"prompt_tokens": prompt, "completion_tokens": self.used, "total_tokens": prompt + self.used}


def _take_turn(tokens: "Iterator[GeneratedToken]") -> "tuple[list[GeneratedToken], bool]":
    """The tokens of the next moment, and whether there are no more; runs in the thread of the model."""
    end = time.perf_counter() + TURN
    turn = []
    for token in tokens:
        turn.append(token)
        if time.perf_counter() > end:
            return turn, False
    return turn, True


def _event(content: Any) -> str:
    return f"data: {content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)}\n\n"
