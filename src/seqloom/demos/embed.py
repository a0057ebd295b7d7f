"""Word vectors: king is to queen as man is to woman."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from seqloom import terminal
from seqloom.demos.demo import Demo, DemoRun
from seqloom.evaluation import evaluate
from seqloom.insight.embedding_map import draw_embedding_map, embedding_map
from seqloom.run_config import Config

PLOTTED_WORDS = (
    "man woman king queen prince princess father mother duke duchess france paris italy rome japan tokyo walk walked"
)
MAX_ANSWER = 90  # characters of an answer that are printed


def _baselines(run: DemoRun) -> dict[str, float]:
    trained = run.model.config
    task = trained.task.model_copy(update={"model": "one_hot"})
    test = list(task.read(run.files.test))
    return {"one-hot vectors": float(evaluate(Config(task, trained.train), task.build_model(), test)["accuracy"])}


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    answers = run.model.predict(run.inputs)
    task: Any = run.model.task
    module: Any = run.model.module
    words = PLOTTED_WORDS.split()
    vectors = module.vectors[[task.fitted.vocabulary.find(word) for word in words]].numpy()
    with suppress(ModuleNotFoundError):  # matplotlib
        draw_embedding_map(embedding_map(words, vectors), run.path / "embedding_map.png")
    return [{"question": text, "answer": str(answer)} for text, answer in zip(run.inputs, answers, strict=True)]


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines(
        "Queries: a sum returns the nearest words, one word its neighbours, two words their similarity,",
        "and several words the odd one out.",
    )
    terminal.table(("query", "answer"), [(result["question"], result["answer"][:MAX_ANSWER]) for result in answers])


DEMO = Demo(
    description="A skip-gram model learns word vectors from a few thousand sentences. It is tested on analogies: "
    "man is to king as woman is to which word?",
    quick={"train.epochs": 4},
    metric="accuracy",
    percent=True,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="echo 'father - man + woman' | seqloom predict {run} -",
    inputs=("king - man + woman", "paris - france + italy", "walked", "boy girl", "duke prince soup king"),
)
