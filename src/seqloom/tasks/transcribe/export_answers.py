"""The answers of a transcriber with CTC as arrays, with which its exports are compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.recordings import Recording
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import Transcript
from seqloom.layers.embedding import PADDING as BLANK

if TYPE_CHECKING:
    from seqloom.tasks.transcribe.transcribe import Transcribe


def expected(task: "Transcribe", model: Any, examples: Sequence[Recording]) -> dict[str, NDArray[Any]]:
    """The log-probabilities of each frame, the number of frames, and the tokens of the best path."""
    memory = model.encoder(*task.collate(examples).inputs)
    log_probabilities, lengths = model.frame_logits(memory).log_softmax(dim=-1), memory.mask.sum(dim=1)
    transcripts = BestPath()(log_probabilities, lengths, blank=BLANK)
    return best_path_outputs(log_probabilities.detach().numpy(), lengths.numpy(), transcripts)


def best_path_outputs(
    frames: NDArray[Any],  # (B, T, V), log-probabilities of the model
    lengths: NDArray[np.int64],
    transcripts: list[list[Transcript]],
) -> dict[str, NDArray[Any]]:
    """The arrays of these transcripts, filled with zeros."""
    table, tokens = frames.copy(), np.full(frames.shape[:2], BLANK)
    for row, (length, nbest) in enumerate(zip(lengths.tolist(), transcripts, strict=True)):
        table[row, length:] = 0
        tokens[row, : len(nbest[0].tokens)] = nbest[0].tokens
    return {"frame_log_probabilities": table, "frame_counts": lengths, "tokens": tokens}
