"""Dictionaries and language models, brought to the symbols of a transcriber."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.config import ConfigError
from seqloom.data.readers.pronunciations import Entry
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.text.tokenizers import TextConfig
from seqloom.data.text.vocabulary import END
from seqloom.decoding.frames.language_models import NGramLanguage, StepLanguage
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.ngram.ngram_decoder import NGramDecoder
from seqloom.models.transcription.search_guide import (
    LanguageModelConfig,
    LoadedLanguageModel,
    load_language_model,
    load_lexicon,
    parse_language_model,
)

ARPA = """\\data\\
ngram 1=5

\\1-grams:
-1 <s>
-0.5 <unk>
-0.6 </s>
-0.7 yes
-0.8 <space>

\\end\\
"""


def entries(*words: str, spelt: bool = False) -> list[Entry]:
    found = [(word.split()[0], tuple(word.split()[1:]) if spelt else ()) for word in words]
    return [Entry(Location("d", line), *entry) for line, entry in enumerate(found, start=1)]


def spelt(found: Lexicon) -> list[tuple[str, list[int]]]:
    """Each word with a spelling, read from the tree; without the separator."""
    rows: list[tuple[str, list[int]]] = []
    for node in range(len(found.symbols)):
        path: list[int] = []
        above = node
        while above > 0:
            path.insert(0, int(found.symbols[above]))
            above = int(found.parents[above])
        spelling = [symbol for symbol in path if symbol != found.separator]
        words = found.words_at[found.words_first[node] : found.words_first[node + 1]]
        rows += [(found.words[word], spelling) for word in words]
    return rows


def test_words_of_characters_stand_between_blanks() -> None:
    encoding = TextConfig(unit="characters", lowercase=True).fit(["yes no", "on"])
    found = load_lexicon(entries("Yes", "no", "nix"), encoding, name="d")
    assert found.words == ["yes", "no"]
    assert found.separator == encoding.numbers[" "]
    assert sorted(spelt(found)) == [("no", encoding.encode("no")), ("yes", encoding.encode("yes"))]
    assert load_lexicon(entries("no"), TextConfig(unit="characters").fit(["no"]), name="d").separator is None


def test_phones_have_variants_and_no_separator() -> None:
    encoding = TextConfig(unit="words").fit(["R EH D", "R IY D"])
    found = load_lexicon(entries("read R IY D", "read R EH D", "zoo Z UW", spelt=True), encoding, name="d")
    assert (found.words, found.separator) == (["read"], None)
    wanted = [encoding.encode("R EH D"), encoding.encode("R IY D")]
    assert sorted(spelling for _, spelling in spelt(found)) == sorted(wanted)
    with pytest.raises(DataError, match="d: holds no word whose symbols all occur"):
        load_lexicon(entries("zoo Z UW", spelt=True), encoding, name="d")


def test_a_dictionary_of_sounds_lists_words_to_a_model_of_letters() -> None:
    encoding = TextConfig(unit="characters").fit(["no yes"])
    sounds = load_lexicon(entries("no N OW", "yes Y EH S", "n N", spelt=True), encoding, name="d")
    letters = load_lexicon(entries("NO n o", "Y y", spelt=True), encoding, name="d")
    assert sorted(spelt(sounds)) == [(word, encoding.encode(word)) for word in ("n", "no", "yes")]
    assert sorted(spelt(letters)) == [("NO", encoding.encode("no")), ("Y", encoding.encode("y"))]


def test_subwords_know_the_start_of_a_text() -> None:
    encoding = TextConfig(unit="subwords", vocab_size=300).fit(["yes no", "no yes yes"])
    found = load_lexicon(entries("yes"), encoding, name="d")
    assert {encoding.decode(spelling) for _, spelling in spelt(found)} == {"yes", " yes"}


def test_a_file_of_n_grams(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    path.write_text(ARPA)
    found = load_language_model(path, ["no", "yes", " ", "</s>"], unit="words", name="m.arpa")
    assert isinstance(found, NGramLanguage)
    probabilities = found.model.log_probabilities[0]
    assert found.numbers[0] == found.numbers[3] == -1
    assert probabilities[found.numbers[1]] == pytest.approx(-0.7 * np.log(10), rel=1e-6)
    assert probabilities[found.numbers[2]] == pytest.approx(-0.8 * np.log(10), rel=1e-6)
    assert probabilities[found.unknown or 0] == pytest.approx(-0.5 * np.log(10), rel=1e-6)
    with pytest.raises(ValueError, match=r"m\.arpa: the language model knows none of 'no', 'nix'"):
        load_language_model(path, ["no", "nix"], unit="words", name="m.arpa")


def test_models_of_ours() -> None:
    encoding = TextConfig(unit="words").fit(["yes no yes"], specials=(END,))
    end = encoding.vocabulary.index(END)
    counted = NGramDecoder(encoding.encode, encoding.vocabulary.symbols, order=2, end=end)
    counted.count(["yes no yes", "no"])
    found = load_language_model(LoadedLanguageModel(encoding, counted), ["no", "maybe"], unit="words", name="runs/lm")
    assert isinstance(found, NGramLanguage)
    assert found.model is counted.counted
    assert found.numbers.tolist() == [encoding.numbers["no"], -1]
    torch.manual_seed(1)
    layer = build_stack(PrenetConfig(), RecurrenceConfig(hidden_size=4), 3)
    decoder = Decoder(Embedding(len(encoding.vocabulary), 3), layer)
    neural = load_language_model(LoadedLanguageModel(encoding, decoder), ["no", "maybe"], unit="words", name="runs/lm")
    assert isinstance(neural, StepLanguage)
    with torch.no_grad():
        scores, _ = neural.step(torch.tensor([neural.start]), neural.state)
        wanted, _ = decoder(torch.tensor([[end]]), decoder.start(None, 1))
    torch.testing.assert_close(scores, wanted[:, 0].log_softmax(dim=-1), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="runs/lm: is a language model of words; here characters are said"):
        load_language_model(LoadedLanguageModel(encoding, counted), ["n"], unit="characters", name="runs/lm")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("words.arpa", {"model": "words.arpa"}),
        ("my lm.arpa weight=0.8  bonus=1 ", {"model": "my lm.arpa", "weight": 0.8, "bonus": 1.0}),
        ("weight=2", {"weight": 2.0}),
    ],
)
def test_the_text_of_an_option_sets_what_it_names(text: str, values: dict[str, Any]) -> None:
    config = parse_language_model(text)
    assert config == LanguageModelConfig(**values)
    assert config.model_fields_set == values.keys()


def test_what_is_wrong_with_the_option_of_a_language_model_is_named() -> None:
    with pytest.raises(ConfigError, match=r'^command line: unknown key "wieght" in \[lm\]: did you mean "weight"\?'):
        parse_language_model("words.arpa wieght=1")
    with pytest.raises(ConfigError, match=r"^command line: lm\.weight must be at least 0, found -1$"):
        parse_language_model("words.arpa weight=-1")
