"""A recording transcribed while it is made: raw samples come in, text goes out as soon as it is certain."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO

from seqloom.data.readers.audio_files import pcm
from seqloom.data.readers.text_files import DataError
from seqloom.model import Model


def transcribe(model: Model, stream: IO[bytes], *, lag: float = 0.0, as_json: bool = False) -> Iterator[str]:
    """What to print: pieces of text that together are the transcript, or a line of JSON whenever it has grown.

    The stream holds samples of 16 bits, little-endian, of one channel, as many in a second as the model's sound has.
    What was said ``lag`` seconds ago is decided on; 0: only what nothing can change any more.
    """
    listening = model.listen(lag=lag)
    if not listening.rate:
        raise ValueError(f"the model reads frames of {listening.width} numbers; --stream needs one that hears sound")
    said, broken = "", None
    try:
        for samples in pcm(stream):
            text = listening.feed(samples).text.rstrip("\ufffd")  # a character of several bytes may be on its way
            if text != said:
                yield json.dumps({"text": text}) + "\n" if as_json else text[len(said) :]
                said = text
    except (KeyboardInterrupt, DataError) as error:  # what was heard until then is still told
        broken = error
    answer = listening.finish()
    yield json.dumps(asdict(answer)) + "\n" if as_json else f"{answer.text[len(said) :]}\n"
    if broken is not None:
        raise broken
