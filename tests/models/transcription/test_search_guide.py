"""Lexica and language models, mapped to the tokens of a transcriber."""

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
from seqloom.decoding.frames.language_models import NeuralLM, NGramLM
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


def entries(*words: str, spelled: bool = False) -> list[Entry]:
    rows = [(word.split()[0], tuple(word.split()[1:]) if spelled else ()) for word in words]
    return [Entry(Location("d", line), *entry) for line, entry in enumerate(rows, start=1)]


def lexicon_spellings(lexicon: Lexicon) -> list[tuple[str, list[int]]]:
    """Each word with a spelling, read from the tree; without the separator."""
    rows: list[tuple[str, list[int]]] = []
    for node in range(len(lexicon.tokens)):
        path: list[int] = []
        above = node
        while above > 0:
            path.insert(0, int(lexicon.tokens[above]))
            above = int(lexicon.parents[above])
        spelling = [token for token in path if token != lexicon.separator]
        words = lexicon.words_at[lexicon.words_first[node] : lexicon.words_first[node + 1]]
        rows += [(lexicon.words[word], spelling) for word in words]
    return rows


def test_spaces_separate_words_of_characters() -> None:
    encoding = TextConfig(unit="characters", lowercase=True).fit(["yes no", "on"])
    lexicon = load_lexicon(entries("Yes", "no", "nix"), encoding, name="d")
    assert lexicon.words == ["yes", "no"]
    assert lexicon.separator == encoding.ids[" "]
    assert sorted(lexicon_spellings(lexicon)) == [("no", encoding.encode("no")), ("yes", encoding.encode("yes"))]
    assert load_lexicon(entries("no"), TextConfig(unit="characters").fit(["no"]), name="d").separator is None


def test_phones_have_variants_and_no_separator() -> None:
    encoding = TextConfig(unit="words").fit(["R EH D", "R IY D"])
    lexicon = load_lexicon(entries("read R IY D", "read R EH D", "zoo Z UW", spelled=True), encoding, name="d")
    assert (lexicon.words, lexicon.separator) == (["read"], None)
    expected = [encoding.encode("R EH D"), encoding.encode("R IY D")]
    assert sorted(spelling for _, spelling in lexicon_spellings(lexicon)) == sorted(expected)
    with pytest.raises(DataError, match="d: no word consists of tokens that occur in the training data"):
        load_lexicon(entries("zoo Z UW", spelled=True), encoding, name="d")


def test_a_phone_dictionary_lists_the_words_of_a_letter_model() -> None:
    encoding = TextConfig(unit="characters").fit(["no yes"])
    sounds = load_lexicon(entries("no N OW", "yes Y EH S", "n N", spelled=True), encoding, name="d")
    letters = load_lexicon(entries("NO n o", "Y y", spelled=True), encoding, name="d")
    assert sorted(lexicon_spellings(sounds)) == [(word, encoding.encode(word)) for word in ("n", "no", "yes")]
    assert sorted(lexicon_spellings(letters)) == [("NO", encoding.encode("no")), ("Y", encoding.encode("y"))]


def test_subwords_are_spelled_with_and_without_a_space() -> None:
    encoding = TextConfig(unit="subwords", vocab_size=300).fit(["yes no", "no yes yes"])
    lexicon = load_lexicon(entries("yes"), encoding, name="d")
    assert {encoding.decode(spelling) for _, spelling in lexicon_spellings(lexicon)} == {"yes", " yes"}


def test_arpa_file(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    path.write_text(ARPA)
    lm = load_language_model(path, ["no", "yes", " ", "</s>"], unit="words", name="m.arpa")
    assert isinstance(lm, NGramLM)
    probabilities = lm.model.log_probabilities[0]
    assert lm.vocabulary_ids[0] == lm.vocabulary_ids[3] == -1
    assert probabilities[lm.vocabulary_ids[1]] == pytest.approx(-0.7 * np.log(10), rel=1e-6)
    assert probabilities[lm.vocabulary_ids[2]] == pytest.approx(-0.8 * np.log(10), rel=1e-6)
    assert probabilities[lm.unknown or 0] == pytest.approx(-0.5 * np.log(10), rel=1e-6)
    with pytest.raises(ValueError, match=r"m\.arpa: the language model knows none of 'no', 'nix'"):
        load_language_model(path, ["no", "nix"], unit="words", name="m.arpa")


def test_language_models_of_runs() -> None:
    encoding = TextConfig(unit="words").fit(["yes no yes"], specials=(END,))
    end = encoding.vocabulary.index(END)
    counted = NGramDecoder(encoding.encode, encoding.vocabulary.tokens, order=2, end=end)
    counted.count(["yes no yes", "no"])
    lm = load_language_model(LoadedLanguageModel(encoding, counted), ["no", "maybe"], unit="words", name="runs/lm")
    assert isinstance(lm, NGramLM)
    assert lm.model is counted.counted
    assert lm.vocabulary_ids.tolist() == [encoding.ids["no"], -1]
    torch.manual_seed(1)
    layer = build_stack(PrenetConfig(), RecurrenceConfig(hidden_size=4), 3)
    decoder = Decoder(Embedding(len(encoding.vocabulary), 3), layer)
    neural = load_language_model(LoadedLanguageModel(encoding, decoder), ["no", "maybe"], unit="words", name="runs/lm")
    assert isinstance(neural, NeuralLM)
    with torch.no_grad():
        scores, _ = neural.step(torch.tensor([neural.start]), neural.state)
        expected, _ = decoder(torch.tensor([[end]]), decoder.start(None, 1))
    torch.testing.assert_close(scores, expected[:, 0].log_softmax(dim=-1), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="runs/lm: expected a language model of characters, found one of words"):
        load_language_model(LoadedLanguageModel(encoding, counted), ["n"], unit="characters", name="runs/lm")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("words.arpa", {"model": "words.arpa"}),
        ("my lm.arpa weight=0.8  word_score=1 ", {"model": "my lm.arpa", "weight": 0.8, "word_score": 1.0}),
        ("weight=2", {"weight": 2.0}),
    ],
)
def test_parse_language_model(text: str, values: dict[str, Any]) -> None:
    config = parse_language_model(text)
    assert config == LanguageModelConfig(**values)
    assert config.model_fields_set == values.keys()


def test_invalid_options_are_explained() -> None:
    with pytest.raises(ConfigError, match=r'^command line: unknown key "lm\.wieght"; did you mean "lm\.weight"\?$'):
        parse_language_model("words.arpa wieght=1")
    with pytest.raises(
        ConfigError, match=r"^command line: lm\.weight: expected a number greater than or equal to 0, got -1$"
    ):
        parse_language_model("words.arpa weight=-1")
