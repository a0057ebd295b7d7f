"""Forecasting: the number of sunspots in the next year."""

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.demos.demo import Demo, DemoRun

MAX_SHOWN = 8  # years


def _baselines(run: DemoRun) -> dict[str, float]:
    return {"same as last year": run.scores["last_mse"], "same as 11 years ago": run.scores["seasonal_mse"]}


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    examples = list(run.model.task.read(run.files.test))[-MAX_SHOWN:]
    (answers,) = run.model.predict_batches(iter(examples))
    known = [
        {
            "last": float(window.history[-1, 0]),
            "answer": answer.values[0][0],
            "truth": float(window.future(1)[0, 0, 0]),
        }
        for window, answer in zip(examples, answers, strict=True)
    ]
    (future,) = run.model.predict(run.files.test)
    return [*known, {"last": known[-1]["truth"], "answer": future.values[0][0], "truth": None}]


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("Forecasts for the last years of the file, and for the year after it:")
    rows = [
        (
            f"{result['last']:.1f}",
            f"{result['answer']:.1f}",
            "unknown" if result["truth"] is None else f"{result['truth']:.1f}",
        )
        for result in answers
    ]
    terminal.table(("sunspots last year", "forecast", "actual"), rows)


DEMO = Demo(
    description="A forecaster predicts the yearly number of sunspots from the 11 years before. It learns from 1700 to "
    "1920 and is tested on the years from 1967 to 2008.",
    quick={"train.updates": 60},
    metric="mse",
    percent=False,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="seqloom predict {run} {test}",
)
