"""Handwriting: a pen learns to write words."""

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.demos.demo import Demo, DemoRun, score_baseline
from seqloom.insight.drawing import Drawing, save_drawings
from seqloom.insight.stroke_text import stroke_lines

BIAS = 1.0  # tidy writing


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    drawings = [run.model.draw(word, bias=BIAS)[0] for word in run.inputs]
    path = run.path / "written.svg"
    save_drawings(drawings, path)
    return [
        {
            "text": drawing.text,
            "points": len(drawing.strokes),
            "strokes": drawing.strokes.tolist(),
            "picture": str(path),
        }
        for drawing in drawings
    ]


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("What it writes:")
    for answer in answers:
        terminal.print_lines("", f"{answer['text']}:", *stroke_lines(Drawing.from_rows(answer["strokes"])))
    terminal.print_lines("", f"As a picture: {answers[0]['picture']}")


DEMO = Demo(
    description="A recurrent network moves a pen. It reads a word through a window that slides along the letters, and "
    "learns from 2,000 words in many hands how to write others.",
    quick={"train.updates": 30},
    metric="nll",
    percent=False,
    baselines=score_baseline,
    answers=_answers,
    show=_show,
    next_command="seqloom generate {run} 'pen' --count 6 --output pen.svg",
    inputs=("hand", "bonito", "pen"),
)
