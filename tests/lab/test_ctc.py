"""CTC in the lab: made-up recordings, spikes, searches by hand, and the verdict on made-up results."""

from itertools import pairwise

import pytest
import torch

from seqloom.lab.ctc import (
    BEST_PATH,
    FIRST_LETTER,
    LANGUAGE_MODEL,
    LEXICON,
    SPACE,
    TOKENS,
    Ctc,
    Outcome,
    World,
    error_ratios,
    spikes,
    split_words,
    transcribe,
)


def rows(best: tuple[int, ...], lexicon: tuple[int, ...], model: tuple[int, ...], blanks: int = 80) -> list[Outcome]:
    return [
        Outcome(search, seed, 100, errors, 100, blanks + seed, 1.2, 4.0, "")
        for search, values in ((BEST_PATH, best), (LEXICON, lexicon), (LANGUAGE_MODEL, model))
        for seed, errors in enumerate(values)
    ]


MANY, SOME, FEW = (40, 41, 42), (20, 21, 20), (10, 9, 10)


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (rows(MANY, SOME, FEW), "holds"),
        (rows(MANY, SOME, FEW, blanks=30), "does not hold here"),  # no spikes
        (rows(SOME, MANY, FEW), "does not hold here"),  # the lexicon hurts
        (rows(MANY, FEW, SOME), "does not hold here"),  # the language model hurts
        (rows(MANY, SOME, (10, 40, 20)), "not decided"),
        (rows(MANY, SOME, FEW, blanks=49), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(measured: list[Outcome], status: str) -> None:
    assert Ctc().verdict(measured).status == status


def test_no_error_counts_as_half_an_error() -> None:
    assert error_ratios(rows(MANY, SOME, (0, 10, 10)), LANGUAGE_MODEL, LEXICON) == [0.025, 10 / 21, 0.5]


def test_spikes_are_runs_of_one_token() -> None:
    assert spikes([0, 3, 3, 0, 3, 4, 4, 4, 0]) == [2, 1, 3]
    assert spikes([0, 0]) == []


def test_words_are_the_letters_between_spaces() -> None:
    assert split_words([3, 4, SPACE, SPACE, 5]) == [(3, 4), (5,)]
    assert split_words([]) == []


def test_recordings_let_letters_swell_and_fade_between_pauses() -> None:
    world = World(5, 64, seed=1)
    world.vectors[FIRST_LETTER:] /= world.vectors[FIRST_LETTER:].norm(dim=1, keepdim=True)
    draw = torch.Generator().manual_seed(1)
    sentences = world.sentences(20, draw)
    assert all(3 <= len(words) <= 6 for words in sentences)
    for words in sentences:
        assert all(after in world.successors[word] for word, after in pairwise(words))
    frames, _, letters = world.record(sentences[:1], noise=0.0, draw=draw)
    tokens = world.spell(sentences[0])
    assert letters == len(tokens)
    assert tokens.count(SPACE) == len(sentences[0]) - 1
    # A frame of a pause that touches a letter has a third of its quietest frame, at most 0.13; those of letters more.
    norms = frames.values[0].norm(dim=1)
    heard = torch.where(norms < 0.15, SPACE, (frames.values[0] @ world.vectors.T).argmax(dim=1)).tolist()
    merged = [token for at, token in enumerate(heard) if not at or token != heard[at - 1]]
    assert merged == [token for at, token in enumerate(tokens) if not at or token != tokens[at - 1]]
    assert 0.75 < norms.max() <= 1


def test_words_alternate_consonants_and_vowels() -> None:
    for spelling in World(50, 3, seed=1).spellings:
        assert [TOKENS[token] in "aeiou" for token in spelling] == [bool(at % 2) for at in range(len(spelling))]


def test_a_lexicon_and_a_language_model_correct_the_best_path() -> None:
    """The second letter is misheard: a lexicon allows two words, and only one of them follows the first word."""
    world = World(2, 3, seed=1)
    a, b, c, d = range(FIRST_LETTER, FIRST_LETTER + 4)
    world.spellings = [(a, b), (a, c)]
    world.successors = torch.tensor([[0, 0], [1, 1]])
    probabilities = torch.full((1, 5, len(TOKENS)), 1e-4)
    for frame, (token, weight) in enumerate([(a, 1.0), (b, 1.0), (SPACE, 1.0), (a, 1.0), (d, 0.5)]):
        probabilities[0, frame, token] = weight
    probabilities[0, 4, c], probabilities[0, 4, b] = 0.3, 0.2
    outputs = {
        search: transcribe(probabilities.log(), torch.tensor([5]), guide, beam_size=8)
        for search, guide in Ctc(lm_sentences=50).guides(world, torch.Generator().manual_seed(1)).items()
    }
    assert outputs == {
        BEST_PATH: [[(a, b), (a, d)]],
        LEXICON: [[(a, b), (a, c)]],
        LANGUAGE_MODEL: [[(a, b), (a, b)]],
    }
