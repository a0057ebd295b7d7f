"""Numbers, percentages, durations and texts as people read them, in a terminal, in HTML and in plots."""

import math
import struct
import unicodedata
from collections.abc import Sequence

CONTROL = ("Cc", "Zl", "Zp")
"""Categories of characters that move the cursor, or start a command to the terminal."""


def format_value(value: object) -> str:
    """A value as a table shows it: floats with five significant digits."""
    if isinstance(value, float):
        return format_number(value)
    return ", ".join(map(format_value, value)) if isinstance(value, list | tuple) else str(value)


def format_number(value: float, digits: int = 5) -> str:
    """A number with this many significant digits, and all those before the decimal point: 12465830, not 1.2466e+07."""
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in text and 1 <= abs(value) < 1e15 else text


def format_signed(value: float) -> str:
    """A contribution with its sign and two decimals; small numbers keep two significant digits."""
    text = f"{value + 0.0:+.2f}" if abs(value) >= 0.1 or not value else f"{value:+.2g}"
    return text.replace("-", "−")


def single_precision(value: float) -> float:
    """A number without the digits that single precision does not determine.

    A float32 becomes the shortest decimal that is read back as the same float32. Other numbers keep nine significant
    digits and at least six decimals: the scale of the data may add a large mean to small differences.
    """
    if not math.isfinite(value) or not value:
        return value
    if _float32(value) == value:
        return next(short for digits in range(6, 10) if _float32(short := float(f"{value:.{digits}g}")) == value)
    return round(value, max(8 - math.floor(math.log10(abs(value))), 6))


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf


def format_percent(share: float, decimals: int = 0) -> str:
    """A share as a percentage that is 0 % or 100 % only if the share is 0 or 1."""
    text = f"{share:.{decimals}%}"
    smallest = 10.0 ** -(decimals + 2)
    if share < 1 and text == f"{1:.{decimals}%}":
        return f">{1 - smallest:.{decimals}%}"
    if share > 0 and text == f"{0:.{decimals}%}":
        return f"<{smallest:.{decimals}%}"
    return text


def percent_in_text(share: float) -> str:
    """The same in a sentence: with a space, at which no line breaks."""
    return format_percent(share).replace("%", "\N{NO-BREAK SPACE}%")


def format_loss(loss: float) -> str:
    """A loss with four decimal places, or with a power of ten where these would say nothing."""
    return f"{loss:.4f}" if 1e-3 <= abs(loss) < 1e5 or loss == 0 else f"{loss:.3g}"


def format_duration(seconds: float) -> str:
    """A duration for people, such as 3 min 12 s."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def describe_type(value: object) -> str:
    """The type of a value with its article: ``an int``, ``a list``."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def visible(text: str) -> str:
    """A text whose control characters are shown as escape sequences, so that a terminal does not execute them."""
    if text.isprintable():
        return text
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in CONTROL else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def quote_names(names: Sequence[str], *, shown: int = 5) -> str:
    """The first few names in quotes, and how many there are besides."""
    rest = len(names) - shown
    return ", ".join(map(repr, names[:shown])) + (f" and {rest:,} more" if rest > 0 else "")


def escape_breaks(text: str) -> str:
    r"""A text on one line and in one column of a table: line breaks, tabs and backslashes are \n, \r, \t and \\."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def shorten(value: object, width: int) -> str:
    """A value on one line, cut to a width."""
    text = str(value)
    text = " ".join(text.split()) or text
    return text if len(text) <= width else f"{text[: width - 1]}…"
