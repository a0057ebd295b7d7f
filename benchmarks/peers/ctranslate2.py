"""CTranslate2, in a process of its own, since its threads and those of torch slow each other down.

Run as a program, this module prints the seconds of each translation as JSON.
"""

import importlib.metadata
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.child_process import ROOT
from benchmarks.measure import Timing


def installed() -> bool:
    return importlib.util.find_spec("ctranslate2") is not None


def name(compute_type: str = "float32") -> str:
    return f"CTranslate2 {importlib.metadata.version('ctranslate2')} {compute_type}"


def measure(
    sizes: tuple[int, ...],  # vocabulary, width, heads, layers, feed-forward
    sentences: list[list[int]],
    *,
    beam_size: int,
    length: int,
    threads: int,
    repetitions: int,
    compute_type: str = "float32",
) -> Timing:
    """Time the translation of a batch, in seconds per call."""
    request = {
        "sizes": sizes,
        "sentences": [[f"w{word}" for word in sentence] for sentence in sentences],
        "beam_size": beam_size,
        "length": length,
        "threads": threads,
        "repetitions": repetitions,
        "compute_type": compute_type,
    }
    command = [sys.executable, "-m", __name__]
    child = subprocess.run(  # noqa: S603
        command, input=json.dumps(request), capture_output=True, text=True, check=True, cwd=ROOT
    )
    seconds = json.loads(child.stdout)
    return Timing(statistics.median(seconds), min(seconds))


def main() -> None:
    sys.modules["torch"] = None  # type: ignore[assignment]  # ctranslate2 imports it where it can
    import ctranslate2

    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        save(tuple(request["sizes"]), folder)
        translator = ctranslate2.Translator(
            folder, compute_type=request["compute_type"], inter_threads=1, intra_threads=request["threads"]
        )
    seconds = []
    for _ in range(request["repetitions"] + 2):
        start = time.perf_counter()
        outputs = translator.translate_batch(
            request["sentences"],
            beam_size=request["beam_size"],
            min_decoding_length=request["length"],
            max_decoding_length=request["length"],
            max_batch_size=0,
        )
        seconds.append(time.perf_counter() - start)
    if any(len(best.hypotheses[0]) != request["length"] for best in outputs):
        lengths = [len(best.hypotheses[0]) for best in outputs]
        raise RuntimeError(f"expected {request['length']} tokens per sentence, got {lengths}")
    print(json.dumps(seconds[2:]))


def save(sizes: tuple[int, ...], folder: str) -> None:
    """Save a Transformer with random weights and one embedding matrix for source, target and output."""
    import numpy as np
    from ctranslate2.specs import TransformerSpec

    vocabulary, width, heads, layers, feed_forward = sizes
    random = np.random.default_rng(1)

    def matrix(rows: int, columns: int) -> Any:
        return random.normal(scale=columns**-0.5, size=(rows, columns)).astype(np.float32)

    def linear(part: Any, rows: int, columns: int) -> None:
        part.weight, part.bias = matrix(rows, columns), np.zeros(rows, np.float32)

    def norm(part: Any) -> None:
        part.gamma, part.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

    def attention(part: Any) -> None:
        norm(part.layer_norm)
        blocks = (3, 1) if len(part.linear) == 2 else (1, 2, 1)  # query, key and value in one matrix for self-attention
        for piece, block in zip(part.linear, blocks, strict=True):
            linear(piece, block * width, width)

    spec = TransformerSpec.from_config((layers, layers), heads, pre_norm=True)
    table = matrix(vocabulary, width)
    spec.encoder.embeddings[0].weight = table
    spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    for side in (spec.encoder, spec.decoder):
        norm(side.layer_norm)
        for layer in side.layer:
            attention(layer.self_attention)
            if side is spec.decoder:
                attention(layer.attention)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, feed_forward, width)
            linear(layer.ffn.linear_1, width, feed_forward)
    tokens = ["<unk>", "<pad>", "<s>", "</s>", *(f"w{number}" for number in range(4, vocabulary))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.save(folder)


if __name__ == "__main__":
    main()
