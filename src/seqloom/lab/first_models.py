"""A first model of each task: built-in data, settings that take about a minute, what to compare with, what to show."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom import terminal
from seqloom.data.builtin import datasets
from seqloom.decoding.tokens.sample import Sample
from seqloom.evaluation import evaluate
from seqloom.lab.caption_demo import CAPTION
from seqloom.lab.demonstration import ONE_THREAD, Demonstration, Trained
from seqloom.lab.embed_demo import EMBED
from seqloom.lab.transcribe_demo import TRANSCRIBE
from seqloom.lab.translate_demo import TRANSLATE
from seqloom.run_config import Config

SHADES = " .:-=+*#%@"  # of a picture, from light to dark


def _counted(trained: Trained, **changes: Any) -> float:
    """What a model of counts of the same task reaches on the test data."""
    files, before = trained.files, trained.model.config
    task = before.task.model_copy(update={**changes, "learned": None})
    task = task.fit(task.read(files.train))
    config = Config(task, before.train.model_copy(update={"steps": 0}))
    module: Any = task.build_model()
    module.count(task.read(files.train))
    return float(evaluate(config, module, list(task.read(files.test)))[task.main_metric])


def _guess_tags(trained: Trained) -> dict[str, float]:
    def pairs(file: Path) -> list[tuple[str, str]]:
        return [pair for each in trained.model.task.read(file) for pair in zip(each.words, each.labels, strict=True)]

    counts: dict[str, Counter[str]] = {}
    for word, label in pairs(trained.files.train):
        counts.setdefault(word, Counter())[label] += 1
    usual = {word: labels.most_common(1)[0][0] for word, labels in counts.items()}
    most = sum(counts.values(), Counter()).most_common(1)[0][0]
    wanted = pairs(trained.files.test)
    return {
        f"always {most}": sum(label == most for _, label in wanted) / len(wanted),
        "the usual label of each word": sum(usual.get(word, most) == label for word, label in wanted) / len(wanted),
        "hidden Markov model": _counted(trained, kind="hmm"),
    }


def _guess_classes(trained: Trained) -> dict[str, float]:
    counts = Counter(example.label for example in trained.model.task.read(trained.files.train))
    most = counts.most_common(1)[0][0]
    wanted = [example.label for example in trained.model.task.read(trained.files.test)]
    return {f"always {most}": wanted.count(most) / len(wanted)}


def _guess_numbers(trained: Trained) -> dict[str, float]:
    return {
        "the value of last year": trained.test["last_mse"],
        "the value of 11 years ago": trained.test["seasonal_mse"],
    }


def _guess_letters(trained: Trained) -> dict[str, float]:
    return {
        "how frequent each character is": _counted(trained, kind="ngram", order=1),
        "3-grams": _counted(trained, kind="ngram", order=3),
        "5-grams": _counted(trained, kind="ngram", order=5),
    }


def _some(trained: Trained, count: int, *, longest: int) -> list[Any]:
    """Examples of the test file that are short enough to be shown, from all over it."""
    short = [example for example in trained.model.task.read(trained.files.test) if 4 <= len(example) <= longest]
    return short[:: max(len(short) // count, 1)][:count]


def _show_tags(trained: Trained) -> list[dict[str, Any]]:
    some = _some(trained, 2, longest=10)
    (answers,) = trained.model.predict_batches(iter(some))
    return [
        {"words": list(example.words), "answer": answer.labels, "truth": list(example.labels)}
        for example, answer in zip(some, answers, strict=True)
    ]


def _tell_tags(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("What it says of each word:")
    rows = [
        (word, answer, "" if answer == truth else f"wrong: {truth}")
        for example in examples
        for word, answer, truth in zip(example["words"], example["answer"], example["truth"], strict=True)
    ]
    terminal.table(("word", "label", ""), rows)


def _show_classes(trained: Trained) -> list[dict[str, Any]]:
    some = _some(trained, 5, longest=8)
    (answers,) = trained.model.predict_batches(iter(some))
    return [
        {
            "picture": ["".join(SHADES[int(value * 9 / 16)] * 2 for value in row) for row in example.content],
            "answer": answer.label,
            "probability": answer.probability,
            "truth": example.label,
        }
        for example, answer in zip(some, answers, strict=True)
    ]


def _tell_classes(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("What it reads, and what it says:")
    for row in zip(*(example["picture"] for example in examples), strict=True):
        terminal.say("   ".join(row))
    said = [f"{each['answer']} ({each['probability']:.0%})" for each in examples]
    wrong = ["" if each["answer"] == each["truth"] else f", but is {each['truth']}" for each in examples]
    terminal.say("   ".join(f"{a + b:16}" for a, b in zip(said, wrong, strict=True)).rstrip())


def _show_numbers(trained: Trained) -> list[dict[str, Any]]:
    some = list(trained.model.task.read(trained.files.test))[-8:]
    (answers,) = trained.model.predict_batches(iter(some))
    shown = [
        {"last": float(each.read[-1, 0]), "answer": answer.values[0][0], "truth": float(each.after(1)[0, 0, 0])}
        for each, answer in zip(some, answers, strict=True)
    ]
    (following,) = trained.model.predict(trained.files.test)
    return [*shown, {"last": shown[-1]["truth"], "answer": following.values[0][0], "truth": None}]


def _tell_numbers(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("The last years of the file, and the one behind it:")
    rows = [
        (
            f"{each['last']:.1f}",
            f"{each['answer']:.1f}",
            "not known" if each["truth"] is None else f"{each['truth']:.1f}",
        )
        for each in examples
    ]
    terminal.table(("sunspots last year", "forecast", "truth"), rows)


SENTENCE = "The value of the expression is a new object."
SCRAMBLED = "object expression a The is new value of the."


def _show_letters(trained: Trained) -> list[dict[str, Any]]:
    scored = [
        {"text": text, "perplexity": answer.perplexity}
        for text, answer in zip((SENTENCE, SCRAMBLED), trained.model.predict([SENTENCE, SCRAMBLED]), strict=True)
    ]
    prompt = "The "
    text = "".join(trained.model.generate(prompt, length=300, sample=Sample(temperature=0.6, seed=1)))
    return [*scored, {"prompt": prompt, "text": text}]


def _tell_letters(examples: Sequence[Mapping[str, Any]]) -> None:
    *scored, drawn = examples
    terminal.say("How much each text surprises it, for each character:")
    terminal.table(("text", "perplexity"), [(each["text"], f"{each['perplexity']:.3g}") for each in scored])
    terminal.say("", "A text drawn from it:", *f"{drawn['prompt']}{drawn['text']}".splitlines())


DEMONSTRATIONS = {
    "translate": TRANSLATE,
    "caption": CAPTION,
    "transcribe": TRANSCRIBE,
    "embed": EMBED,
    "tag": Demonstration(
        about="Each token of a line of Python gets its role: a model learns it from some modules of the standard "
        "library, and is asked about others.",
        build=datasets.python_tags,
        settings={
            **ONE_THREAD,
            "task.input_dropout": 0.2,
            "task.words.embedding_size": 64,
            "task.encoder.hidden_size": 96,
            "task.encoder.dropout": 0.2,
            "train.epochs": 6,
            "train.batch_size": 24,
            "train.learning_rate": 0.004,
        },
        quick={"train.updates": 40, "task.encoder.hidden_size": 32},
        metric="accuracy",
        percent=True,
        baselines=_guess_tags,
        show=_show_tags,
        tell=_tell_tags,
        following="echo 'for name in sorted ( names ) :' | seqloom predict {run} -",
    ),
    "classify": Demonstration(
        about="Pictures of handwritten digits, read row by row as a sequence of 8 vectors: a model learns to name "
        "them, and is asked about others.",
        build=datasets.digits,
        settings={
            **ONE_THREAD,
            "task.encoder.cell": "gru",
            "task.encoder.hidden_size": 128,
            "task.encoder.bidirectional": True,
            "task.encoder.dropout": 0.5,
            "task.noise": 0.6,
            "task.pooling": "mean",
            "train.epochs": 40,
            "train.batch_size": 16,
            "train.learning_rate": 0.004,
        },
        quick={"train.updates": 60, "task.encoder.hidden_size": 32},
        metric="accuracy",
        percent=True,
        baselines=_guess_classes,
        show=_show_classes,
        tell=_tell_classes,
        following="seqloom predict {run} {test} | head",
    ),
    "forecast": Demonstration(
        about="The yearly number of sunspots since 1700: a model learns from the years up to 1920 to forecast the next "
        "one from 11 years, and is asked about the years from 1967 on.",
        build=datasets.sunspots,
        settings={
            **ONE_THREAD,
            "task.columns": ["sunspots"],
            "task.history": 11,
            "task.season": 11,
            "task.encoder.cell": "gru",
            "task.encoder.hidden_size": 16,
            "task.encoder.dropout": 0.2,
            "train.epochs": 30,
            "train.batch_size": 16,
            "train.learning_rate": 0.01,
        },
        quick={"train.updates": 60},
        metric="mse",
        percent=False,
        baselines=_guess_numbers,
        show=_show_numbers,
        tell=_tell_numbers,
        following="seqloom predict {run} {test}",
    ),
    "language_model": Demonstration(
        about="The manual of Python, character by character: a model learns which one comes next. Perplexity is among "
        "how many equally probable characters it has to guess, on average.",
        build=datasets.prose,
        settings={
            **ONE_THREAD,
            "task.text.unit": "characters",
            "task.embedding_size": 64,
            "task.decoder.cell": "layer_norm_lstm",
            "task.decoder.hidden_size": 256,
            "task.decoder.dropout": 0.4,
            "train.epochs": 8,
            "train.batch_size": 16,
            "train.bptt_steps": 50,
            "train.optimizer": "adamw",
            "train.weight_decay": 0.3,
            "train.learning_rate": 0.01,
            "train.clip_norm": 1.0,
        },
        quick={"train.updates": 30, "task.decoder.hidden_size": 64},
        metric="perplexity",
        percent=False,
        baselines=_guess_letters,
        show=_show_letters,
        tell=_tell_letters,
        following="seqloom generate {run} 'The function' --length 300 --temperature 0.7",
    ),
}
