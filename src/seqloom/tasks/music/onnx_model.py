"""Music models as ONNX graphs."""

from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqloom.data.readers.midi import KEYS, LOWEST
from seqloom.data.readers.music import Piece
from seqloom.models.note_distribution import Nade
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.modules import array
from seqloom.onnx.music import music

if TYPE_CHECKING:
    from seqloom.tasks.music.music import Music


def onnx_model(task: "Music", model: Any) -> OnnxModel:
    """The layers and the distribution of the keys; key by key, the runtime draws the next frame."""
    graph, ports = music(model, KEYS)

    def feed(examples: Sequence[Piece]) -> dict[str, Any]:
        batch = task.collate(examples)
        frames, lengths = batch.inputs.values.numpy(), batch.inputs.lengths.numpy()
        return {"frames": frames, "following": batch.target.numpy(), "lengths": lengths, **ports.start(len(frames))}

    def expected(examples: Sequence[Piece]) -> dict[str, Any]:
        batch = task.collate(examples)
        likelihoods, mask = model(batch.inputs, batch.target), batch.inputs.mask
        return {
            "log_odds": likelihoods.log_odds.masked_fill(~mask.unsqueeze(-1), 0).numpy(),
            "log_probabilities": likelihoods.log_probability.masked_fill(~mask, 0).numpy(),
        }

    output: dict[str, Any] = {
        "kind": "music",
        "states": ports.description(),
        "length": task.fitted.length,
        "tempo": task.fitted.tempo,
        "frames_per_beat": task.frames_per_beat,
        "nade": None,
    }
    if isinstance(model.notes, Nade):
        weights = {"inputs": model.notes.inputs, "outputs": model.notes.outputs}
        output["nade"] = {
            name: b64encode(array(weight).astype("<f4").tobytes()).decode() for name, weight in weights.items()
        }
    description = {"task": task.name, "input": {"kind": "keys", "keys": KEYS, "lowest": LOWEST}, "output": output}
    return OnnxModel(graph, description, feed, expected)
