"""CTranslate2 in float32, in a process of its own: beside torch its threads get in each other's way.

Run as a program, it prints the seconds of each translation as JSON.
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

from seqloom.bench.measure import Timing


def installed() -> bool:
    return importlib.util.find_spec("ctranslate2") is not None


def name() -> str:
    return f"CTranslate2 {importlib.metadata.version('ctranslate2')} float32"


def measure(
    sizes: tuple[int, ...],  # vocabulary, width, heads, layers, feed-forward
    sentences: list[list[int]],
    *,
    width: int,
    length: int,
    threads: int,
    repetitions: int,
) -> Timing:
    """The seconds of one call."""
    given = {
        "sizes": sizes,
        "sentences": [[f"w{word}" for word in sentence] for sentence in sentences],
        "width": width,
        "length": length,
        "threads": threads,
        "repetitions": repetitions,
    }
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)  # noqa: S603
    seconds = json.loads(done.stdout)
    return Timing(statistics.median(seconds), min(seconds))


def main() -> None:
    sys.modules["torch"] = None  # type: ignore[assignment]  # it would import it
    import ctranslate2

    given = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        save(tuple(given["sizes"]), folder)
        translator = ctranslate2.Translator(
            folder, compute_type="float32", inter_threads=1, intra_threads=given["threads"]
        )
    seconds = []
    for _ in range(given["repetitions"] + 2):
        start = time.perf_counter()
        found = translator.translate_batch(
            given["sentences"],
            beam_size=given["width"],
            min_decoding_length=given["length"],
            max_decoding_length=given["length"],
            max_batch_size=0,
        )
        seconds.append(time.perf_counter() - start)
    if any(len(best.hypotheses[0]) != given["length"] for best in found):
        raise RuntimeError(f"wanted {given['length']} symbols, found {[len(best.hypotheses[0]) for best in found]}")
    print(json.dumps(seconds[2:]))


def save(sizes: tuple[int, ...], folder: str) -> None:
    """A Transformer of random weights, one table for both languages and the output."""
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
        blocks = (3, 1) if len(part.linear) == 2 else (1, 2, 1)  # query, key and value in one matrix where possible
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
    symbols = ["<unk>", "<pad>", "<s>", "</s>", *(f"w{number}" for number in range(4, vocabulary))]
    spec.register_source_vocabulary(symbols)
    spec.register_target_vocabulary(symbols)
    spec.validate()
    spec.save(folder)


if __name__ == "__main__":
    main()
