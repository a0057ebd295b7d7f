"""What is behind a transcript: what was heard at each frame, and what else it could be."""

from typing import Any

from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.insight.explanation import Explanation
from seqloom.insight.spikes import listen

INSTEAD = PrefixBeam(size=64, nbest=5)
"""What finds other transcripts where the search of a model gives but one."""


def explain_transcript(task: Any, module: Any, example: Any, *, beam: bool) -> Explanation:
    """Of a recording; ``beam``: with some of the best transcripts, even if the model's search gives one."""
    remarks = []
    search = task.search
    if beam and isinstance(search, BestPath):
        remarks.append(f"the search of the model is {search.name}: the beam is one of {INSTEAD.size}")
        search = INSTEAD
    elif beam and search.best == 1:
        search = search.model_copy(update={"best": INSTEAD.nbest})
        remarks.append(f"the search of the model gives one transcript: here the beam is asked for {search.best}")
    batch = task.collate([example])
    (answer,) = task.model_copy(update={"search": search}).predict(module, batch).answers
    spikes, seen = listen(
        module,
        batch.inputs.values,
        batch.inputs.mask,
        task.learned.text,
        said=answer.symbols,
        joined=task.time_reduction.whole,
        name="line.png" if task.image_encoder.layers else example.name,
    )
    if example.text is not None:
        known = "impossible" if answer.loss is None else f"log-probability {-answer.loss:.4f}"
        remarks.append(f"what it says is known: {example.text!r} ({known})")
    return Explanation(
        task=task.name,
        source=example.name or str(example.place),
        answer=answer,
        spikes=spikes,
        image=seen,
        remarks=remarks,
    )
