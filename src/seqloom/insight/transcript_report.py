"""Explanations of transcripts: token probabilities at each frame, and alternatives."""

from typing import Any

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.insight.ctc_plot import frame_probabilities
from seqloom.insight.explanation import Explanation, SearchingTask
from seqloom.models.transcription.transcriber import Transcriber

DEFAULT_BEAM = PrefixBeam(size=64, nbest=5)
"""Finds alternatives if the model's search returns a single transcript."""


def explain_transcript(
    task: SearchingTask,
    model: Transcriber,
    example: Any,
    *,
    encoding: Tokenizer,
    reduction: int,  # input frames per output frame
    file_name: str,
    beam: bool,  # list alternatives even if the model's search returns one transcript
) -> Explanation:
    """The token probabilities at each frame of a recording, and its best transcripts."""
    notes = []
    search = task.search
    if beam and isinstance(search, BestPath):
        notes.append(f"the model decodes with {search.name}; the beam shown has size {DEFAULT_BEAM.size}")
        search = DEFAULT_BEAM
    elif beam and search.nbest == 1:
        search = search.model_copy(update={"nbest": DEFAULT_BEAM.nbest})
        notes.append(f"the model's search returns one transcript; here it returns {search.nbest}")
    batch = task.collate([example])
    (prediction,) = task.model_copy(update={"search": search}).predict(model, batch).answers
    frames, inputs = frame_probabilities(
        model,
        batch.inputs.values,
        batch.inputs.mask,
        encoding,
        transcript=prediction.tokens,
        reduction=reduction,
        file_name=file_name,
    )
    if example.text is not None:
        likelihood = "too few frames" if prediction.loss is None else f"log-probability {-prediction.loss:.4f}"
        notes.append(f"reference: {example.text!r} ({likelihood})")
    source = example.name or str(example.location)
    return Explanation(
        task=task.name,
        source=source,
        prediction=prediction,
        headline=f"{source} → {prediction.text}",
        title=f"{source} → {prediction.text}",
        frames=frames,
        image=inputs,
        notes=notes,
    )
