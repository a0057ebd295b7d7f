"""CTC beam search of other libraries, each called with its usual interface."""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_speech import ALPHABET, BLANK, SEPARATOR, spell

THRESHOLD = 50.0
"""Beam threshold in log-probability; torchaudio calls flashlight-text with this value."""


class Decoded(NamedTuple):
    """The best hypothesis for an utterance."""

    tokens: list[int]
    words: list[int]


Decoder = Callable[[NDArray[np.float32]], Callable[[], list[Decoded]]]
"""Converts logits (B, T, V) to the input of a search, and returns the call that runs it."""


def missing(module: str, name: str) -> bool:
    """Whether a library cannot be imported; if so, report it on stderr."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        print(f"Not compared with {name}: {error}", file=sys.stderr)
        return True
    return False


def fast_ctc_decode(*, size: int, token_threshold: float) -> dict[str, Decoder]:
    """fast-ctc-decode by name and version; empty if it is not installed."""
    if missing("fast_ctc_decode", "fast-ctc-decode"):
        return {}
    from fast_ctc_decode import beam_search

    def prepare(logits: NDArray[np.float32]) -> Callable[[], list[Decoded]]:
        rows = list(np.exp(log_softmax(logits)))

        def search() -> list[Decoded]:
            texts = [beam_search(row, ALPHABET, beam_size=size, beam_cut_threshold=token_threshold)[0] for row in rows]
            return [Decoded(spell(text), []) for text in texts]

        return search

    return {f"fast-ctc-decode {version('fast-ctc-decode')}": prepare}


def flashlight(
    *,
    size: int,
    lexicon: Sequence[str] = (),
    arpa: Path | None = None,
    weight: float = 0.0,  # of the language model, for natural logarithms
    word_score: float = 0.0,
) -> dict[str, Decoder]:
    """flashlight-text by name and version; empty if it is not installed."""
    if missing("flashlight.lib.text.decoder", "flashlight-text"):
        return {}
    decoder = _lexicon_decoder(size, lexicon, arpa, weight, word_score) if lexicon else _free_decoder(size)

    def prepare(logits: NDArray[np.float32]) -> Callable[[], list[Decoded]]:
        rows = list(log_softmax(logits))

        def search() -> list[Decoded]:
            results = [decoder.decode(row.ctypes.data, *row.shape)[0] for row in rows]
            return [
                Decoded(_collapse(best.tokens[1:-1]), [word for word in best.words if word >= 0]) for best in results
            ]

        return search

    name = f"flashlight-text {version('flashlight-text')}"
    return {f"{name} with KenLM" if arpa else name: prepare}


def _collapse(path: Sequence[int]) -> list[int]:
    return [token for before, token in pairwise([BLANK, *path]) if token not in (before, BLANK)]


def _free_decoder(size: int) -> Any:
    from flashlight.lib.text import decoder

    options = decoder.LexiconFreeDecoderOptions(
        beam_size=size,
        beam_size_token=len(ALPHABET),
        beam_threshold=THRESHOLD,
        lm_weight=0.0,
        sil_score=0.0,
        log_add=False,
        criterion_type=decoder.CriterionType.CTC,
    )
    return decoder.LexiconFreeDecoder(options, decoder.ZeroLM(), SEPARATOR, BLANK, [])


def _lexicon_decoder(size: int, lexicon: Sequence[str], arpa: Path | None, weight: float, word_score: float) -> Any:
    from flashlight.lib.text import decoder
    from flashlight.lib.text.dictionary import Dictionary

    words = Dictionary([*lexicon, "<unk>"])
    language: Any = decoder.ZeroLM()
    if arpa:
        from flashlight.lib.text.decoder.kenlm import KenLM

        language = KenLM(str(arpa), words)
    trie = decoder.Trie(len(ALPHABET), SEPARATOR)
    start = language.start(start_with_nothing=False)
    for word in lexicon:
        number = words.get_index(word)
        trie.insert([*spell(word), SEPARATOR], number, language.score(start, number)[1])
    trie.smear(decoder.SmearingMode.MAX)
    options = decoder.LexiconDecoderOptions(
        beam_size=size,
        beam_size_token=len(ALPHABET),
        beam_threshold=THRESHOLD,
        lm_weight=weight * float(np.log(10)),  # KenLM returns decimal logarithms
        word_score=word_score,
        unk_score=-np.inf,
        sil_score=0.0,
        log_add=False,
        criterion_type=decoder.CriterionType.CTC,
    )
    unknown = words.get_index("<unk>")
    return decoder.LexiconDecoder(
        options=options,
        trie=trie,
        lm=language,
        sil_token_idx=SEPARATOR,
        blank_token_idx=BLANK,
        unk_token_idx=unknown,
        transitions=[],
        is_token_lm=False,
    )


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normalised: NDArray[np.float32] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normalised
