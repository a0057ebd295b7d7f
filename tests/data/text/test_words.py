"""Raw text is split into words and punctuation, and joined again."""

import pytest

from seqloom.data.text.detection import TextSample
from seqloom.data.text.tokenizers import TextConfig
from seqloom.data.text.words import is_tokenized, join_words, split_words

TEXTS = {
    "Well, don't!": "Well , don't !",
    "He's from the U.S. (e.g. N.Y.), isn't he?": "He's from the U.S. ( e.g. N.Y. ) , isn't he ?",
    'She said: "Hello, world" and left.': 'She said : " Hello , world " and left .',
    "3.14 or 1,000; 10:30... 50%": "3.14 or 1,000 ; 10:30 ... 50 %",
    "l'homme, aujourd'hui; état-major": "l'homme , aujourd'hui ; état-major",
    "„Welcome Bikers“, sagt er.": "„ Welcome Bikers “ , sagt er .",
    "日本語です。": "日 本 語 で す 。",
    "नमस्ते दुनिया!": "नमस्ते दुनिया !",
    "Привет, мир!": "Привет , мир !",
    "مرحبا، بالعالم": "مرحبا ، بالعالم",
    "한국어, 안녕": "한국어 , 안녕",
    "cafe\u0301, e\u0301te\u0301": "cafe\u0301 , e\u0301te\u0301",
    "see https://a.b/c?d=e, or me@x.org.": "see https://a.b/c?d=e , or me@x.org .",
    "@user #tag <unk> $5 and/or": "@user #tag <unk> $ 5 and / or",
    "state-of-the-art -- yes": "state-of-the-art -- yes",
    "they 're Limonade- und Bierdosen": "they 're Limonade- und Bierdosen",
}


@pytest.mark.parametrize("text", TEXTS)
def test_words_and_punctuation(text: str) -> None:
    tokens = split_words(text)
    assert tokens == TEXTS[text].split()
    assert join_words(tokens) == text


def test_no_character_is_lost() -> None:
    text = "a\u200db 😀👍🏽 x_y(z) \\ ~^ ½ № ' ` \u00ad"
    assert "".join(split_words(text)) == "".join(text.split())


def test_tokenised_text_is_recognised() -> None:
    assert is_tokenized(["what is it ?", "mr. smith of acme corp. said so , yes ."] * 10)
    assert is_tokenized(["no punctuation at all", "I_TURN_LEFT I_WALK", "a b ɑ̃ d"])
    assert is_tokenized(["the board of acme corp."] + ["pierre <unk> N years old"] * 30)
    assert not is_tokenized(["What is it?", "Mr. Smith said so, yes."])
    assert not is_tokenized(["日本語です"])
    assert TextSample.of(["What is it?"]).split == "punctuation"


def test_a_tokenizer_of_raw_text_restores_it() -> None:
    tokenizer = TextConfig(split="punctuation").fit(["Well, don't!", "Yes!"])
    assert tokenizer.tokens("Yes, don't") == ["Yes", ",", "don't"]
    assert tokenizer.decode(tokenizer.encode("Yes, don't!")) == "Yes, don't!"
    assert TextConfig().fit(["Well, don't!"]).tokens("Well, don't!") == ["Well,", "don't!"]
