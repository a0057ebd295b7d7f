"""Usual names of columns, by what the columns hold; the first names of a list are preferred."""

import re

TEXT = (
    *("text", "sentence", "utterance", "review", "comment", "tweet", "question", "query", "message", "document"),
    *("content", "body", "post", "sms", "description", "headline", "title", "abstract", "phrase", "input", "data"),
)
LABEL = (
    *("label", "class", "category", "intent", "target", "sentiment", "tag", "topic", "emotion", "language", "stars"),
    *("rating", "score", "polarity", "activity", "genre", "type", "gold", "output", "y"),
)
TEXT_PAIRS = (
    ("premise", "hypothesis"),
    *(
        (f"{noun}{first}", f"{noun}{second}")
        for noun in ("sentence", "text", "question")
        for first, second in (("1", "2"), ("_1", "_2"), ("_a", "_b"))
    ),
)
"""Names of two columns whose texts belong together."""
WORD = ("word", "words", "token", "tokens", "form")
WORD_LABEL = (
    *("tag", "label", "ner", "pos", "upos", "chunk", "tags", "labels", "ner_tag", "ner_tags", "pos_tag", "pos_tags"),
    *("chunk_tags", "target", "targets", "y"),
)
VALUES = ("values", "vectors", "frames", "features", "signal", "inputs", "x")
VECTOR = "vector"
SOURCE = ("source", "src", "input", "question", "prompt", "query", "context", "word", "text", "sentence", "article")
TARGET = (
    *("target", "tgt", "trg", "output", "answer", "response", "reply", "translation", "pronunciation", "summary"),
    *("highlights", "completion", "label"),
)
FILE = (
    *("file", "filename", "file_name", "path", "image", "video", "audio", "recording", "audio_filepath", "filepath"),
    "wav_filename",
)
TRANSCRIPT = ("text", "transcript", "transcription", "sentence", "utterance", "label", "words", "normalized_text")
CAPTION = ("caption", "captions", "text", "description", "sentence", "comment")
GROUP = (
    *(
        "id",
        "group",
        "sequence",
        "sequence_id",
        "sentence_id",
        "sentence #",
        "sentence",
        "series",
        "recording",
        "trial",
    ),
    *("session", "episode", "case", "sample", "run", "file", "subject", "user", "device"),
)
TIME = (
    *("time", "timestamp", "datetime", "date", "t", "step", "frame", "second", "seconds", "ms", "tick", "time_step"),
    *("position", "index"),
)
LANGUAGES = {
    *("en", "eng", "english", "de", "deu", "ger", "german", "fr", "fra", "fre", "french", "es", "spa", "spanish"),
    *("it", "ita", "italian", "pt", "por", "portuguese", "nl", "nld", "dutch", "ru", "rus", "russian", "zh", "zho"),
    *("chinese", "ja", "jpn", "japanese", "ko", "kor", "korean", "ar", "ara", "arabic", "cs", "ces", "czech", "pl"),
    *("pol", "polish", "tr", "tur", "turkish", "sv", "swe", "swedish", "da", "dan", "danish", "fi", "fin", "finnish"),
    *("uk", "ukr", "ukrainian", "hi", "hin", "hindi", "vi", "vie", "vietnamese", "el", "ell", "greek", "ro", "ron"),
    *("romanian", "hu", "hun", "hungarian", "he", "heb", "hebrew", "la", "lat", "latin"),
}
OTHER = {"split", "author", "url", "source", "lemma", "phonemes", "translation", "name", "unnamed: 0"}

ALL = {
    *(
        name
        for names in (
            TEXT,
            LABEL,
            *TEXT_PAIRS,
            WORD,
            WORD_LABEL,
            SOURCE,
            TARGET,
            FILE,
            CAPTION,
            TRANSCRIPT,
            GROUP,
            TIME,
        )
        for name in names
    ),
    *LANGUAGES,
    *OTHER,
} - {"y", "t", "pos", "la", "it", "he", "no", "is"}
"""Names that show that the first row of a table is its header."""


def normalize(name: str) -> str:
    """``Review Text``, ``review-text`` and ``reviewText`` as ``review_text``."""
    separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s\-./]+", "_", separated).strip("_").casefold()
