"""A first model that gives words vectors: king is to queen as man to woman."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from seqloom import terminal
from seqloom.data.builtin import datasets
from seqloom.insight.embedding_map import draw_embedding_map, embedding_map
from seqloom.lab.demonstration import Demonstration, Trained
from seqloom.model import Config, assess

SHOWN = (
    "man woman king queen prince princess father mother duke duchess france paris italy rome japan tokyo walk walked"
)


def _guess_words(trained: Trained) -> dict[str, float]:
    """What vectors say that know nothing of words but that they differ."""
    before = trained.model.config
    task = before.task.model_copy(update={"kind": "one_hot"})
    test = list(task.read(trained.files.test))
    return {"one-hot vectors": float(assess(Config(task, before.train), task.build_model(), test)["accuracy"])}


def _show_words(trained: Trained) -> list[dict[str, Any]]:
    answers = trained.model.predict(trained.typed)
    task: Any = trained.model.task
    module: Any = trained.model.module
    words = SHOWN.split()
    vectors = module.vectors[[task.fitted.known.find(word) for word in words]].numpy()
    with suppress(ModuleNotFoundError):  # matplotlib
        draw_embedding_map(embedding_map(words, vectors), trained.path / "embedding_map.png")
    return [{"question": each, "answer": str(answer)} for each, answer in zip(trained.typed, answers, strict=True)]


def _tell_words(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("What it answers: to a sum the nearest words, to a word its neighbours, to two how similar they are,")
    terminal.say("to more the odd one out:")
    terminal.table(("question", "answer"), [(each["question"], each["answer"][:90]) for each in examples])


EMBED = Demonstration(
    about="Words become vectors: a model learns from some thousand sentences which words stand near each other. Then "
    "it is asked for analogies: who is to king as woman to man?",
    build=datasets.analogies,
    settings={
        "task.vector_size": 50,
        "task.window": 5,
        "task.neighbours": 4,
        "task.subsample": 0.003,
        "train.epochs": 15,
        "train.learning_rate": 0.05,
        "train.schedule": "linear",
        "train.decay": 0.0001,
        "train.threads": 1,
    },
    quick={"train.epochs": 4},
    metric="accuracy",
    percent=True,
    baselines=_guess_words,
    show=_show_words,
    tell=_tell_words,
    following="echo 'father - man + woman' | seqloom predict {run} -",
    inputs=("king - man + woman", "paris - france + italy", "walked", "boy girl", "duke prince soup king"),
)
