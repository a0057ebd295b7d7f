"""Language modelling: the next character of the Python manual."""

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.decoding.tokens.sample import Sample
from seqloom.demos.demo import Demo, DemoRun, evaluate_count_model

SENTENCE = "The value of the expression is a new object."
SCRAMBLED = "object expression a The is new value of the."


def _baselines(run: DemoRun) -> dict[str, float]:
    return {
        "character frequencies": evaluate_count_model(run, model="ngram", order=1),
        "3-gram model": evaluate_count_model(run, model="ngram", order=3),
        "5-gram model": evaluate_count_model(run, model="ngram", order=5),
    }


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    scores = [
        {"text": text, "perplexity": answer.perplexity}
        for text, answer in zip((SENTENCE, SCRAMBLED), run.model.predict([SENTENCE, SCRAMBLED]), strict=True)
    ]
    prompt = "The "
    text = "".join(run.model.generate(prompt, length=300, lines=0, sample=Sample(temperature=0.6, seed=1)))
    return [*scores, {"prompt": prompt, "text": text}]


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    *scores, sample = answers
    terminal.print_lines("Perplexity of a sentence and of the same words in random order:")
    terminal.table(("text", "perplexity"), [(score["text"], f"{score['perplexity']:.3g}") for score in scores])
    terminal.print_lines(
        "", f"Text generated after {sample['prompt']!r}:", *f"{sample['prompt']}{sample['text']}".splitlines()
    )


DEMO = Demo(
    description="A language model learns to predict the next character of Python's manual. Perplexity is the number of "
    "equally likely characters it chooses between, on average.",
    quick={"train.updates": 30, "task.decoder.hidden_size": 64},
    metric="perplexity",
    percent=False,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="seqloom generate {run} 'The function' --length 300 --temperature 0.7",
)
