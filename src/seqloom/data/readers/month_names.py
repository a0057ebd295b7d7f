"""Names of months in German, French, Spanish, Italian, Portuguese and Dutch, and their abbreviations."""

import re
from calendar import month_abbr
from collections.abc import Sequence

NAMES = (
    "januar janvier enero gennaio janeiro januari",
    "februar février febrero febbraio fevereiro februari",
    "märz mrz mars marzo março maart mrt",
    "april avril abril aprile",
    "mai mayo maggio maio mei",
    "juni juin junio giugno junho",
    "juli juillet julio luglio julho",
    "august août agosto augustus",
    "september septembre septiembre settembre setembro",
    "oktober octobre octubre ottobre outubro",
    "november novembre noviembre",
    "dezember décembre diciembre dicembre dezembro december",
)
WORD = re.compile(r"[^\W\d_]{3,}\.?")


def in_english(texts: Sequence[str]) -> list[str] | None:
    """The texts with each name of a month as its English abbreviation; None if a text has another word, or none."""
    result = []
    for text in texts:
        months = [_month(word) for word in WORD.findall(text)]
        if len(months) != 1 or not months[0]:
            return None
        result.append(WORD.sub(months[0], text))
    return result


def _month(word: str) -> str:
    """The English abbreviation of a month; empty if the word is none, or the beginning of several."""
    start = word.rstrip(".").casefold()
    known = {
        place for place, names in enumerate(NAMES, start=1) if any(name.startswith(start) for name in names.split())
    }
    return month_abbr[known.pop()] if len(known) == 1 else ""
