"""What the header of a model of texts says on tokens, and their table."""

from seqloom.data.text.tokenizers import RESERVED, Tokenizer
from seqloom.standalone.interface import Texts

UNKNOWN_TOKEN = 1
"""The number of all tokens that are not in the vocabulary."""

SPLITS = {
    "whitespace": "A token is a word: what is between whitespace.",
    "punctuation": "A token is a word or a punctuation mark; each CJK character is a word.",
    "lines": "A token is a word, a line break with the indentation after it, or the indentation of a first line.",
}


def token_texts(tokenizer: Tokenizer) -> Texts:
    """The tokens, which a program looks up."""
    tokens = tokenizer.vocabulary.tokens
    return Texts(tokens, "token", is_looked_up=True, unknown=UNKNOWN_TOKEN, reserved=frozenset(RESERVED))


def token_notes(tokenizer: Tokenizer) -> tuple[str, ...]:
    """How a text is split into tokens, which the program has to do."""
    if tokenizer.unit == "subwords":
        split = "Tokens are subwords: split texts with the tokenizer in learned.json of the run, and pass its tokens."
    elif tokenizer.unit == "characters":
        split = "A token is a character."
    else:
        split = SPLITS[tokenizer.split]
    return (f"{split} The text is in lowercase." if tokenizer.lowercase else split,)
