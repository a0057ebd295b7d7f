"""The demo of the task music: compose tunes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom import terminal
from seqloom.demos.demo import Demo, DemoRun, score_baseline
from seqloom.insight.piano_roll import PianoRoll

TEMPERATURE = 0.8
FRAMES = 64  # eight bars


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    (roll,) = run.model.compose(length=FRAMES, temperature=TEMPERATURE)
    path = run.path / "composed.mid"
    roll.save(path)
    return [{"file": str(path), "seconds": roll.seconds, "frames": roll.frames.tolist()}]


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("What it composes (time from left to right, low notes at the bottom):", "")
    for answer in answers:
        roll = PianoRoll(np.array(answer["frames"], dtype=np.uint8))
        terminal.print_lines(*roll.lines(), "", f"To play it: {answer['file']}")


DEMO = Demo(
    description="A recurrent network plays the piano. It reads which keys sound in each frame of 200 tunes, and learns "
    "which ones follow.",
    quick={"train.updates": 20},
    metric="nll",
    percent=False,
    baselines=score_baseline,
    answers=_answers,
    show=_show,
    next_command="seqloom generate {run} --count 3 --output song.mid",
)
