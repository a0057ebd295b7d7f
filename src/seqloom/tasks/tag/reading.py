"""How a tagger reads its files: to train, to predict, and with the settings that the training data show."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from seqloom.data.readers.media import MediaDecoder
from seqloom.data.readers.media_lists import MediaFiles
from seqloom.data.readers.table_values import is_numeric
from seqloom.data.readers.tagged import TaggedReader
from seqloom.data.readers.tagged_media import TaggedMedia
from seqloom.models.signals.inputs import sound_frames
from seqloom.tasks.tag.settings import TagSettings


def build_reader(settings: TagSettings) -> TaggedReader:
    """The reader of labelled data."""
    learned = settings.learned
    return TaggedReader(
        format=settings.format,
        encoding=settings.encoding,
        words=settings.word_column,
        labels=settings.label_column,
        features=settings.feature_columns,
        target_type=settings.target_type,
        group=settings.group_column,
        time=settings.time_column,
        decimal=settings.decimal,
        separator=settings.separator,
        parallel=settings.parallel,
        convert_iob1=settings.convert_iob1,
        missing=settings.missing,
        media=None if learned is not None and learned.words is not None else media(settings),
        frames=learned.size if learned is not None and learned.words is None else 0,
        channel_names=() if learned is None else learned.channel_names,
    )


def media(settings: TagSettings) -> TaggedMedia:
    """The reader of listed recordings and videos."""
    decoder = MediaDecoder(
        sample_rate=settings.audio.sample_rate,
        n_mfcc=settings.audio.n_mfcc,
        image_size=settings.image_size,
        resize=settings.resize,
    )
    frames = partial(sound_frames, audio=settings.audio)
    return TaggedMedia(MediaFiles(decoder, settings.folder), frames, settings.encoding)


def build_input_reader(settings: TagSettings, source: Path | Sequence[Any]) -> tuple[TaggedReader, str]:
    """The reader of data to predict, and a note about what it takes, where that is not evident."""
    reader, learned = build_reader(settings), settings.learned
    if learned is None or learned.words is None:
        return reader, ""
    known = learned.labels

    def is_label(text: str) -> bool:
        return is_numeric([text]) if learned.scale is not None else text in known

    return reader.for_inputs(source, is_label)


def detect_settings(settings: TagSettings, source: Path | Sequence[Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings that the training data show, and notes about them."""
    shown, note = build_reader(settings).inspect(source)
    audio, rates = settings.audio.with_rate(build_reader(settings).rates(source))
    notes = [note, rates]
    settings = settings.model_copy(update={"audio": audio, **shown})
    if settings.target_type != "class":
        kind, decimal, note = build_reader(settings).target_format(source)
        shown = {**shown, "target_type": kind, "decimal": decimal or settings.decimal}
        notes.append(note)
    return {"audio": audio, **shown}, tuple(filter(None, notes))
