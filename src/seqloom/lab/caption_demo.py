"""A first model that says what it sees: images of two coloured shapes become sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.data.builtin import datasets
from seqloom.explain import explain
from seqloom.insight import draw_explanation
from seqloom.insight.image_attention import image_attention_lines
from seqloom.lab.demonstration import ONE_THREAD, Demonstration, Trained

SHOWN = 4  # images


def _guess_captions(trained: Trained) -> dict[str, float]:
    """How often simple answers are exactly right."""
    task = trained.model.task
    counts = Counter(caption for example in task.read(trained.files.train) for caption in example.captions)
    usual = counts.most_common(1)[0][0]
    test = list(task.read(trained.files.test))
    return {f"always {usual!r}": sum(usual in example.captions for example in test) / len(test)}


def _show_captions(trained: Trained) -> list[dict[str, Any]]:
    shown = []
    for number, example in enumerate(list(trained.model.task.read(trained.files.test))[:SHOWN]):
        explanation = explain(trained.model, example)
        if not number:
            draw_explanation(explanation, trained.path)
        texts = {"image": example.name, "answer": explanation.prediction.text, "truth": list(example.captions)}
        attention = explanation.image_attention.tolist()
        shown.append({**texts, "words": explanation.nbest_tokens[0], "attention": attention})
    return shown


def _tell_captions(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("What it says of images that it has never seen:")
    rows = [
        (each["image"], each["answer"], "" if each["answer"] in each["truth"] else f"wrong: {each['truth'][0]}")
        for each in examples
    ]
    terminal.table(("image", "caption", ""), rows)
    first = examples[0]
    lines = image_attention_lines(first["attention"], first["words"])
    terminal.say("", "Attention over the first image for each word:", *lines)


CAPTION = Demonstration(
    about="Images of two coloured shapes become sentences: a small convolutional network sees cells, a recurrent one "
    "looks at them and says word by word what is where. It is asked about pairs of shapes that it has never seen.",
    build=datasets.shapes,
    settings={
        **ONE_THREAD,
        "task.image_size": 32,
        "task.embedding_size": 32,
        "task.tie_embeddings": False,
        "task.metric": "exact_match",
        "task.image_encoder.layers": 3,
        "task.image_encoder.channels": 32,
        "task.decoder.cell": "gru",
        "task.decoder.hidden_size": 64,
        "task.attention.score": "additive",
        "train.epochs": 14,
        "train.batch_size": 8,
        "train.learning_rate": 0.001,
        "train.clip_norm": 1.0,
    },
    quick={"train.updates": 80, "train.learning_rate": 0.004},
    metric="exact_match",
    percent=True,
    baselines=_guess_captions,
    show=_show_captions,
    tell=_tell_captions,
    following="seqloom predict {run} {test} | head",
)
