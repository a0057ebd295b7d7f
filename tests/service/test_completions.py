import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.service.running import KEPT, Client, serving

from seqloom.decoding.tokens.sample import Sample
from seqloom.model import load
from seqloom.models.generation import GeneratedToken
from seqloom.service.completions import Choice


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving([KEPT / "language_model", KEPT / "tag"]) as running:
        yield running


def complete(client: Client, **body: Any) -> Any:
    defaults = {"model": "language_model", "prompt": "ab", "seed": 3, "lines": 0}
    answer = client.post("/v1/completions", defaults | body)
    assert answer.status == 200, answer.body
    return answer.json()


def test_the_text_is_that_of_generate(client: Client) -> None:
    sample = Sample(temperature=0.8, top_k=3, seed=3)
    with pytest.warns(UserWarning, match="tokens that the model does not know: 'ab'"):
        expected = "".join(load(KEPT / "language_model").generate("ab", length=12, lines=0, sample=sample))
    answer = complete(client, max_tokens=12, temperature=0.8, top_k=3)
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"], choice["logprobs"]) == (expected, "length", None)
    assert answer["usage"] == {"prompt_tokens": 1, "completion_tokens": 12, "total_tokens": 13}
    assert answer["object"] == "text_completion"
    echoed = complete(client, max_tokens=12, temperature=0.8, top_k=3, echo=True)
    assert echoed["choices"][0]["text"] == "ab" + expected


def test_a_prompt_is_scored(client: Client) -> None:
    """Echo with log-probabilities, with which clients compare texts: those of predict, and of the continuation."""
    prompt = "a b cd"
    (score,) = load(KEPT / "language_model").predict([prompt])
    (choice,) = complete(client, prompt=prompt, max_tokens=2, logprobs=2, echo=True)["choices"]
    values = choice["logprobs"]
    assert values["tokens"][:3] == ["a", "b", "cd"]
    np.testing.assert_allclose(values["token_logprobs"][:3], score.log_probabilities[:3], rtol=1e-5)
    assert values["text_offset"][:3] == [0, 1, 3]
    assert choice["text"].startswith(prompt)
    assert [len(alternatives) for alternatives in values["top_logprobs"]] == [2] * len(values["tokens"])
    (alone,) = complete(client, prompt=prompt, max_tokens=2, logprobs=2)["choices"]
    assert values["tokens"][3:] == alone["logprobs"]["tokens"]
    np.testing.assert_allclose(values["token_logprobs"][3:], alone["logprobs"]["token_logprobs"], rtol=1e-5)
    (only,) = complete(client, prompt=f"{prompt}\na", max_tokens=0, logprobs=0, echo=True)["choices"]
    assert only["logprobs"]["tokens"] == ["a", "b", "cd", "</s>", "a"]
    np.testing.assert_allclose(only["logprobs"]["token_logprobs"][:4], score.log_probabilities, rtol=1e-5)


def test_text_ends_with_its_line(client: Client) -> None:
    model = load(KEPT / "language_model")
    for body, lines in (({}, 1), ({"lines": 2}, 2), ({"lines": 0}, 0)):
        answer = client.post(
            "/v1/completions", {"model": "language_model", "prompt": "ab", "seed": 3, "max_tokens": 60, **body}
        ).json()
        tokens = [*model.generate_tokens("ab", length=60, lines=lines, sample=Sample(seed=3))]
        (choice,) = answer["choices"]
        assert choice["text"] == "".join(token.text for token in tokens)
        assert choice["text"].count("\n") >= (lines or 3)
        assert choice["finish_reason"] == ("stop" if lines else "length")
        assert answer["usage"]["completion_tokens"] == len(tokens) == (len(tokens) if lines else 60)


def test_events_join_to_the_whole_text(client: Client) -> None:
    whole = complete(client, max_tokens=40)["choices"][0]
    answer = client.post(
        "/v1/completions",
        {"model": "language_model", "prompt": "ab", "seed": 3, "max_tokens": 40, "lines": 0, "stream": True},
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.body.decode().split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-1]]
    assert "".join(event["text"] for event in events) == whole["text"]
    assert [event["finish_reason"] for event in events] == [None] * (len(events) - 1) + ["length"]


def test_what_clients_send_by_default_is_accepted(client: Client) -> None:
    neutral = {"presence_penalty": 0, "frequency_penalty": 0, "best_of": 1, "logit_bias": {}, "suffix": None}
    whole = complete(client, max_tokens=5)
    assert complete(client, max_tokens=5, **neutral)["choices"] == whole["choices"]
    body = {"model": "language_model", "prompt": "ab", "seed": 3, "max_tokens": 5, "lines": 0, "stream": True}
    answer = client.post("/v1/completions", {**body, "stream_options": {"include_usage": True}})
    last = json.loads(answer.body.decode().split("\n\n")[-3].removeprefix("data: "))
    assert (last["choices"], last["usage"]) == ([], whole["usage"])


def test_log_probabilities_are_those_of_the_model(client: Client) -> None:
    (choice,) = complete(client, prompt="", max_tokens=6, temperature=0, logprobs=2)["choices"]
    scores = choice["logprobs"]
    model = load(KEPT / "language_model")
    (line, *_) = choice["text"].split("\n")
    (score,) = model.predict([line])
    count = min(6, len(score.log_probabilities) - ("\n" not in choice["text"]))
    assert scores["token_logprobs"][:count] == pytest.approx(score.log_probabilities[:count], abs=1e-5)
    for chosen, best in zip(scores["token_logprobs"], scores["top_logprobs"], strict=True):
        assert len(best) == 2
        assert chosen == max(best.values())  # temperature 0
    assert len(scores["text_offset"]) == 6


def test_several_choices_have_seeds_of_their_own(client: Client) -> None:
    answer = complete(client, prompt=["ab", "cd"], n=2, max_tokens=20)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    first, second, *_ = (choice["text"] for choice in answer["choices"])
    assert first != second
    assert second == complete(client, max_tokens=20, seed=4)["choices"][0]["text"]


def token(text: str) -> GeneratedToken:
    return GeneratedToken(text, text)


def test_a_stop_text_across_tokens_ends_the_choice_and_is_never_sent() -> None:
    choice = Choice(0, ("END", "xyz"), with_logprobs=False)
    sent = [choice.extend([token("ab"), token("E")], is_over=False)]
    assert sent == ["ab"]  # E may begin END
    sent.append(choice.extend([token("c"), token("EN")], is_over=False))
    sent.append(choice.extend([token("D later")], is_over=False))
    assert ("".join(sent), choice.finish_reason) == ("abEc", "stop")
    other = Choice(0, ("END",), with_logprobs=False)
    assert other.extend([token("abEN")], is_over=True) == "abEN"
    assert other.finish_reason == "length"


def test_stop_texts_end_completions(client: Client) -> None:
    text = complete(client, max_tokens=40)["choices"][0]["text"]
    stop = text[7:9]
    (choice,) = complete(client, max_tokens=40, stop=stop)["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text[: text.index(stop)], "stop")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"max_tokens": 5000}, "max_tokens is limited to 4,096"),
        ({"n": 17}, "n: expected"),
        ({"prompt": ["a"] * 9, "n": 2}, "limited to 16 continuations"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "up to four"),
        ({"stop": ""}, "not empty"),
        ({"temperature": -1}, "temperature"),
        ({"presence_penalty": 1}, "presence_penalty: not supported; leave it out, or send 0.0"),
        ({"suffix": "a"}, "suffix: not supported"),
        ({"prompt": [1] * 100_000}, "expected a string, got 1"),
        ({"penalty": 1}, "unknown argument penalty"),
        ({"model": "tag"}, "generate text"),
    ],
)
def test_what_is_not_supported_is_refused(client: Client, body: dict[str, Any], message: str) -> None:
    answer = client.post("/v1/completions", {"model": "language_model", "prompt": "a", **body})
    assert answer.status == 422
    assert message in answer.message
