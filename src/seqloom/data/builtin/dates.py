"""Dates as people write them in seven languages, paired with ISO 8601: generated data for translation."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

FIRST, LAST = date(1600, 1, 1), date(2199, 12, 31)
PIVOT = 69
"""Two-digit years from here on are in the 1900s, others in the 2000s, as in POSIX: 1969 to 2068."""


@dataclass(frozen=True)
class Language:
    """The names of months (from January) and weekdays (from Monday), and patterns of dates.

    ``{d}`` and ``{m}`` are numbers, ``{dd}`` and ``{mm}`` have two digits, ``{yy}`` is the end of the year, ``{nth}``
    an ordinal number; ``{month}`` and ``{weekday}`` are names, ``{mon}`` and ``{day}`` abbreviations.
    """

    months: tuple[str, ...]
    short_months: tuple[str, ...]  # abbreviated
    weekdays: tuple[str, ...]
    weekday_letters: int  # length of an abbreviated weekday
    patterns: tuple[str, ...]
    first: str = ""  # suffix of the first day of a month

    def write(self, pattern: str, day: date) -> str:
        weekday = self.weekdays[day.weekday()]
        return pattern.format(
            d=f"{day.day}{self.first if day.day == 1 and 'month' in pattern else ''}",
            dd=f"{day.day:02}",
            nth=f"{day.day}{ordinal(day.day)}",
            m=day.month,
            mm=f"{day.month:02}",
            month=self.months[day.month - 1],
            mon=self.short_months[day.month - 1],
            weekday=weekday,
            day=weekday[: self.weekday_letters],
            y=day.year,
            yy=f"{day.year % 100:02}",
        )


def ordinal(number: int) -> str:
    """The English suffix of an ordinal number."""
    return "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Numeric dates are day, month, year with any separator, unless the year comes first: 3/4/2021 is the third of April.
# The American order is ambiguous and does not occur.
LANGUAGES = {
    "English": Language(
        _names("January February March April May June July August September October November December"),
        _names("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
        _names("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        3,
        (
            *("{month} {d}, {y}", "{mon} {d}, {y}", "{mon}. {d}, {y}", "{month} {nth}, {y}", "{d} {month} {y}"),
            *("{weekday}, {month} {d}, {y}", "{weekday} the {nth} of {month} {y}", "{day} {d} {mon} {y}"),
            *("the {nth} of {month}, {y}", "{nth} {mon} '{yy}", "{d} {mon} {yy}", "{d}/{m}/{y}", "{dd}/{mm}/{yy}"),
            "{dd}-{mon}-{y}",
        ),
    ),
    "German": Language(
        _names("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        _names("Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez."),
        _names("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
        2,
        (
            *("{d}. {month} {y}", "{weekday}, {d}. {month} {y}", "{weekday}, den {d}. {month} {y}", "{d}. {mon} {y}"),
            *("am {d}. {month} {y}", "{day}, {d}. {mon} {yy}", "{dd}.{mm}.{y}", "{d}.{m}.{y}", "{d}.{m}.{yy}"),
        ),
    ),
    "French": Language(
        _names("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
        _names("janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc."),
        _names("lundi mardi mercredi jeudi vendredi samedi dimanche"),
        3,
        (
            *("{d} {month} {y}", "le {d} {month} {y}", "{weekday} {d} {month} {y}", "le {weekday} {d} {month} {y}"),
            *("{d} {mon} {y}", "{day}. {d} {mon} {y}", "{dd}/{mm}/{y}", "{dd}/{mm}/{yy}"),
        ),
        first="er",
    ),
    "Spanish": Language(
        _names("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
        _names("ene feb mar abr may jun jul ago sep oct nov dic"),
        _names("lunes martes miércoles jueves viernes sábado domingo"),
        3,
        (
            *("{d} de {month} de {y}", "el {d} de {month} de {y}", "{weekday}, {d} de {month} de {y}"),
            *("{d} {mon} {y}", "{d}-{mon}-{y}", "{day}. {d} {mon} {yy}", "{d}/{m}/{y}"),
        ),
    ),
    "Italian": Language(
        _names("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
        _names("gen feb mar apr mag giu lug ago set ott nov dic"),
        _names("lunedì martedì mercoledì giovedì venerdì sabato domenica"),
        3,
        (
            *("{d} {month} {y}", "il {d} {month} {y}", "{weekday} {d} {month} {y}", "{d} {mon} {y}"),
            *("{day} {d} {mon} '{yy}", "{dd}/{mm}/{y}", "{dd}-{mm}-{y}"),
        ),
        first="º",
    ),
    "Dutch": Language(
        _names("januari februari maart april mei juni juli augustus september oktober november december"),
        _names("jan feb mrt apr mei jun jul aug sep okt nov dec"),
        _names("maandag dinsdag woensdag donderdag vrijdag zaterdag zondag"),
        2,
        (
            *("{d} {month} {y}", "{weekday} {d} {month} {y}", "op {d} {month} {y}", "{d} {mon} {y}"),
            *("{day} {d} {mon} {yy}", "{d}-{m}-{y}", "{dd}-{mm}-{yy}"),
        ),
    ),
    "Portuguese": Language(
        _names("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"),
        _names("jan. fev. mar. abr. mai. jun. jul. ago. set. out. nov. dez."),
        _names("segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo"),
        3,
        (
            *("{d} de {month} de {y}", "{weekday}, {d} de {month} de {y}", "em {d} de {month} de {y}"),
            *("{d} {mon} {y}", "{day}, {d} {mon} {yy}", "{d}/{m}/{y}"),
        ),
    ),
}
COMMON_PATTERNS = ("{y}-{mm}-{dd}", "{y}/{mm}/{dd}", "{y}.{m}.{d}")
"""Patterns of no particular language."""

SPLITS = ("test", "dev", *["train"] * 18)
"""The split of a date, by its hash: no date occurs in two splits, however it is written."""


def generate_pairs(count: int, split: str, *, seed: int) -> Iterator[tuple[str, str]]:
    """``count`` distinct written dates of a split, each with its ISO 8601 form."""
    random = np.random.default_rng([seed, sorted(set(SPLITS)).index(split)])
    languages = list(LANGUAGES.values())
    seen: set[str] = set()
    while len(seen) < count:
        chosen = int(random.integers(len(languages) + 1))
        language = languages[chosen - 1]
        patterns = language.patterns if chosen else COMMON_PATTERNS
        pattern = patterns[random.integers(len(patterns))]
        low, high = (date(1900 + PIVOT, 1, 1), date(1999 + PIVOT, 12, 31)) if "{yy}" in pattern else (FIRST, LAST)
        day = low + timedelta(days=int(random.integers((high - low).days + 1)))
        case = int(random.integers(10))
        text = language.write(pattern, day)
        text = text.lower() if case == 0 else text.upper() if case == 1 else text
        if text not in seen and SPLITS[zlib.crc32(day.isoformat().encode()) % len(SPLITS)] == split:
            seen.add(text)
            yield text, day.isoformat()
