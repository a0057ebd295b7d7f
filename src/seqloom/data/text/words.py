"""Words and punctuation of raw text, and back."""

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Ideographs and kana, which are written without blanks: each is a word."""
IDEOGRAPH = re.compile(f"[{CJK}、。！？，；：（）「」『』【】]")
WORD_OR_IDEOGRAPH = re.compile(f"[{CJK}]|[^\\s{CJK}]+")
NO_BLANK_BEFORE = frozenset(",.!?;:)]}%…»”’،؛؟、。！？，；：）」』】〉》‥")
NO_BLANK_AFTER = frozenset("([{«“‘¿¡$£€¥#@（「『【〈《„")
NO_BLANK_AROUND = frozenset("/\\")
CLOSING = {'"': '"', "“": "„"}
"""Quotation marks that may close, and the one that each closes."""
OPENING = frozenset(CLOSING.values())
RARE = 0.05  # marks per text that may be parts of words, such as abbreviations
LAST_MARK = 0x1F000  # combining marks above this are not parts of words


def split_lines(text: str) -> list[str]:
    """The words between blanks; a line break, and the indentation of a line after it or at the start, is one, too."""
    return re.findall(r"^[^\S\n]+|\n[^\S\n]*|\S+", text)


def join_lines(words: Iterable[str]) -> str:
    """The text again, with one blank between the words of a line."""
    text = ""
    for word in words:
        is_joined = not text or word[:1].isspace() or text[-1].isspace()
        text += word if is_joined else f" {word}"
    return text


@cache
def _pattern() -> re.Pattern[str]:
    marks = "".join(f"\\U{start:08x}-\\U{end:08x}" for start, end in _mark_ranges())
    letter = f"(?:[^\\W\\d_{CJK}]|[{marks}])"
    word = f"(?:{letter}|[\\d_])"
    return re.compile(
        "|".join(
            (
                r"https?://\S*[^\s.,;:!?'\")\]}>]",
                r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # an address
                r"[@#]\w+",
                r"<[a-zA-Z_]+>",  # a special token such as <unk>
                f"[{CJK}][{marks}]*",
                rf"(?:{letter}\.){{2,}}",  # an abbreviation: U.S., e.g.
                r"\d+(?:[.,:]\d+)+(?!\w)",  # 3.14, 1,000, 10:30
                r"['’](?:s|re|ve|ll|d|m|t|em)(?!\w)",  # an ending that is written apart
                rf"{word}+(?:['’·-]{word}+)*(?:-$)?",
                r"\.{2,}|-{2,}|`{2}|'{2}",
                rf"[^\w\s][{marks}\u200d]*",
            )
        )
    )


def _mark_ranges() -> Iterator[tuple[int, int]]:
    """The ranges of combining marks, which belong to the letter before them."""
    start = None
    for code in range(min(LAST_MARK, sys.maxunicode)):
        if unicodedata.category(chr(code)).startswith("M"):
            start = code if start is None else start
        elif start is not None:
            yield start, code - 1
            start = None


def split_words(text: str) -> list[str]:
    """The words and the punctuation marks of a text: ``"Well, don't!"`` → ``Well`` ``,`` ``don't`` ``!``.

    Contractions, hyphenated words, numbers, abbreviations with inner periods and addresses are single words. Each CJK
    character is a word of its own.
    """
    return [token for word in text.split() for token in _split(word)]


@lru_cache(1 << 16)
def _split(word: str) -> tuple[str, ...]:
    """The tokens of a text without blanks."""
    return (word,) if word.isascii() and word.isalnum() else tuple(_pattern().findall(word))


def join_words(tokens: Iterable[str]) -> str:
    """A text with blanks where they are usual between these words and punctuation marks."""
    text, glue = "", True
    opened: set[str] = set()  # quotation marks that wait for the second of a pair
    for token in tokens:
        closing = CLOSING.get(token, "") in opened
        near = token[:1] in NO_BLANK_BEFORE or token[:1] in NO_BLANK_AROUND or closing
        wide = is_cjk(token[:1]) and is_cjk(text[-1:])
        text += token if glue or near or wide or not text else f" {token}"
        opens = not closing and token in OPENING
        if closing:
            opened.discard(CLOSING[token])
        elif opens:
            opened.add(token)
        glue = token[-1:] in NO_BLANK_AROUND or opens or (token in NO_BLANK_AFTER and not closing)
    return text


def is_cjk(text: str) -> bool:
    """Whether a text contains an ideograph, kana or CJK punctuation."""
    return IDEOGRAPH.search(text) is not None


def count_words(text: str) -> int:
    """The approximate number of words: those between blanks, and each CJK character."""
    return sum(1 for _ in _spans(text)) if not text.isascii() and is_cjk(text) else len(text.split())


def cut_words(text: str, length: int) -> Iterator[str]:
    """The text in parts of ``length`` words, as ``count_words`` counts them."""
    spans = list(_spans(text))
    for start in range(0, len(spans), length):
        part = spans[start : start + length]
        yield text[part[0].start() : part[-1].end()]


def _spans(text: str) -> Iterator[re.Match[str]]:
    return WORD_OR_IDEOGRAPH.finditer(text)


def is_tokenized(texts: Iterable[str]) -> bool:
    """Whether punctuation is separated from words by blanks already; also True if there is hardly any."""
    number_of_texts = apart = attached = 0
    for text in texts:
        number_of_texts += 1
        words = text.split()
        for number, word in enumerate(words, start=1):
            if word[-1] in ",;!?，！？、" or (word[-1] in ".。" and number == len(words)):
                apart, attached = (apart + 1, attached) if len(set(word)) == 1 else (apart, attached + 1)
            elif len(word) > 1 and is_cjk(word):
                attached += 1
    return attached <= max(apart, RARE * number_of_texts)
