"""Transcribe audio from a stream while it is recorded, and print the text as it becomes final."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import IO

from seqloom.data.readers.audio_streams import read_stream
from seqloom.data.readers.text_files import DataError
from seqloom.model import Model
from seqloom.terminal import json_line


def transcribe_stream(
    model: Model,
    stream: IO[bytes],
    *,
    rate: int = 0,  # of raw samples, in Hz; 0: that of the model
    lag: float = 0.0,
    as_json: bool = False,
    note: Callable[[str], None] = lambda _: None,  # called with a description of the stream
) -> Iterator[str]:
    """What to print: pieces of text that join to the transcript, or a line of JSON whenever it has grown.

    The stream holds a WAV file, or 16-bit little-endian samples of one channel; other rates are resampled.
    Text becomes final ``lag`` seconds after it was spoken; 0: once no further audio can change it.
    """
    session = model.open_stream(lag=lag)
    if not session.rate:
        raise ValueError(
            f"the model reads frames of {session.frame_size} features; --stream needs a model that reads audio"
        )
    printed, failure = "", None
    try:
        for samples in read_stream(stream, target_rate=session.rate, rate=rate, note=note):
            text = session.feed(samples).text.rstrip("\ufffd")  # an incomplete character of several bytes
            if text != printed:
                yield json_line({"text": text}) + "\n" if as_json else text[len(printed) :]
                printed = text
    except (KeyboardInterrupt, DataError) as error:  # what was recorded before is still transcribed
        failure = error
    answer = session.finish()
    yield json_line(asdict(answer)) + "\n" if as_json else f"{answer.text[len(printed) :]}\n"
    if failure is not None:
        raise failure
