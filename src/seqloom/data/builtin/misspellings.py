"""Misspelled words and their spelling: letters swapped, missing, doubled, or replaced by neighbours on a keyboard."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
TEXT = """
about above accept across address afraid against almost already although always among answer appear arrive baggage
balance beautiful because become before begin behaviour believe benefit between bicycle blanket borrow bottle branch
bread breakfast bridge bright brother building business butter calendar camera careful castle central certain change
chapter chicken children choice circle clothes collect colour comfort common compare complete concert condition
consider contain continue control correct cotton country couple courage cousin crowd curious custom damage danger
daughter decide definite deliver describe desert develop different difficult dinner direction disappear discover
distance doctor dollar double dream during early earth easily education effect eight electric elephant embarrass
enough entire environment equal escape especially evening everything exact example excellent except exercise expect
experience explain express extreme factory familiar famous father favourite february field finally finger finish
flower follow foreign forest forget forward fourth friend future garden general gentle government grammar grateful
ground group guard guess guide happen harbour health heaven height history holiday honest hospital hundred hungry
imagine immediate important increase independent instead interest island jealous journey judge juice kitchen knife
knowledge language laugh leather leisure lesson letter library liquid listen little lonely machine magazine manage
market marriage measure medicine member message middle million minute mirror mistake modern moment money morning
mother mountain muscle museum music mystery narrow natural necessary neighbour nephew ninety noise normal notice
number object occasion ocean office often opinion opposite orange ordinary organise paint parallel parent particular
patient peace pencil people perfect perhaps person picture pleasant pocket police popular possible potato practice
prepare present pretty private probably problem promise pronounce protect public purple purpose quarter question quick
quiet rabbit railway rather reason receive recent recommend record regular remember repeat restaurant rhythm river
sandwich saturday scene school science scissors season second secret sentence separate serious several shoulder
silence similar simple sincerely sister soldier special spread spring square station stomach strange straight strength
student subject succeed sudden sugar summer surprise system temperature terrible theatre thought thousand through
ticket tired together tomorrow tongue toward traffic travel treasure trouble twelfth umbrella uncle until useful usual
valley value vegetable village visit voice weather wednesday weight welcome whether window winter without woman wonder
writing yellow yesterday young
"""
WORDS = tuple(TEXT.split())


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``misspelling, word``; misspellings are held out, and correct words stay as they are in a tenth of the rows."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random), None))


def _row(random: Random) -> tuple[str, str]:
    word = choose(random, WORDS)
    wrong = word
    if random.random() < 0.9:
        for _ in range(1 + (len(word) > 6 and random.random() < 0.4)):
            wrong = _misspell(random, wrong)
    return wrong, f"{wrong}\t{word}"


def _misspell(random: Random, word: str) -> str:
    place = int(random.integers(len(word)))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    kind = int(random.integers(4))
    if kind == 0 and after:
        return before + after[0] + letter + after[1:]
    if kind == 1 and len(word) > 3:
        return before + after
    if kind == 2:
        return before + letter + letter + after
    row = next((row for row in KEYBOARD if letter in row), letter)
    near = row[max(row.index(letter) - 1, 0) : row.index(letter) + 2].replace(letter, "")
    return before + (choose(random, near) if near else letter) + after
