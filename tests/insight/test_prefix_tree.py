"""The tree of a CTC prefix beam search agrees with the search, and every prefix has an outcome."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.transcribe.test_transcribe import Echo, emissions, fitted

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.guide_scores import GuideScores
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.insight.beam_tree import beam_lines, build_tree, draw_beam
from seqloom.insight.prefix_tree import prefix_choices, prefix_nodes, prefix_table, record_prefixes
from seqloom.kernels.ctc.naive import collapse
from seqloom.models.ngram.kneser_ney import estimate

TEXTS = [[0, 1, 0], [1, 2], [2, 0, 1], [0, 0, 2], [2, 1, 0]]
NGRAM = estimate(TEXTS, order=2, start=3, end=4, vocabulary=5)


@pytest.mark.parametrize(("size", "per_node", "threshold"), [(3, 0, 0.0), (4, 1, 0.0), (6, 0, 1.5)])
def test_the_tree_has_what_the_search_finds(size: int, per_node: int, threshold: float) -> None:
    task = fitted(["ab"])
    assert task.learned
    text = task.learned.text
    logits = np.random.default_rng(size).normal(size=(7, len(text.vocabulary)))
    log_probs = torch.from_numpy(logits).log_softmax(dim=-1)
    search = PrefixBeam(size=size, per_node=per_node, threshold=threshold, nbest=3)
    (expected,) = search(log_probs.unsqueeze(0), torch.tensor([7]))
    record = record_prefixes(log_probs.numpy(), search, text)
    nodes = prefix_nodes(record, nbest=3)
    names = {node.number: node for node in nodes}
    finished = sorted((node for node in nodes if node.status == "in_nbest"), key=lambda node: -node.score)
    assert [node.score for node in finished] == pytest.approx([each.score for each in expected], abs=1e-6)
    for node, transcript in zip(finished, expected, strict=True):
        tokens, at = [], node.parent
        while names[at].parent >= 0:
            tokens.append(names[at].token)
            at = names[at].parent
        assert tokens[::-1] == text.vocabulary.decode(transcript.tokens)
    root, removed = build_tree(nodes)
    assert removed == 0
    assert any("n-best #1" in line for line in beam_lines(nodes))
    assert root.leaves == sum(1 for node in nodes if not any(other.parent == node.number for other in nodes))
    outcomes = {choice.outcome for choice in prefix_choices(record)}
    assert {"kept", "merged"} < outcomes
    assert any(each.startswith("pruned: ") for each in outcomes)


def test_the_probability_of_a_prefix_is_that_of_its_paths() -> None:
    log_probs = np.log(np.random.default_rng(1).dirichlet(np.ones(3), size=4))
    for step in record_prefixes(log_probs, PrefixBeam(size=1000), fitted(["ab"]).fitted.text).steps:
        paths = [path for path in product(range(3), repeat=step.frame + 1) if collapse(path, 0) == step.prefix]
        totals = [sum(log_probs[at, token] for at, token in enumerate(path)) for path in paths]
        assert step.log_prob == pytest.approx(float(np.logaddexp.reduce(totals)), abs=1e-9)
        assert step.status == "kept"


def test_an_explanation_shows_tree_steps_and_paths(tmp_path: Path) -> None:
    task = fitted(["ab c"])
    assert task.learned
    values = emissions(task, "a|b|.| |c|c")
    log_probs = torch.from_numpy(values).double().log_softmax(dim=-1).numpy()
    record = record_prefixes(log_probs, PrefixBeam(size=8), task.learned.text)
    _, rows, others = prefix_table(prefix_choices(record))
    assert [row[2] for row in rows if row[0]] == ["a", "ab", "(nothing)", "c"]  # the history of the last ones is "ab "
    assert [row[0] for row in rows if row[0]] == ["0", "1", "3", "4"]
    assert others == 2
    draw_beam(prefix_nodes(record, nbest=2), tmp_path / "beam.svg")
    assert (tmp_path / "beam.svg").stat().st_size > 1000
    (example,) = task.read([values])
    paths = task.label_paths(Echo(), example, label="ab c", limit=20)
    batch = task.collate(list(task.read([(values, "ab c")])))
    (loss,) = (answer.loss for answer in task.predict(Echo(), batch).answers)
    assert paths.log_probability == pytest.approx(-loss, abs=1e-6)  # single precision
    assert paths.paths[0].tokens == ["a", "b", "", " ", "c", "c"]
    assert paths.count > len({tuple(path.tokens) for path in paths.paths}) == 20


# Without a separator and a language model in the search, hypotheses with equal scores compete: either may survive.
@pytest.mark.parametrize(("separated", "rescore"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("options", [{}, {"histories": 1}, {"per_node": 1}, {"threshold": 3.0, "merge": "max"}])
def test_the_tree_of_a_guided_search_has_what_the_search_finds(
    separated: bool, rescore: bool, options: dict[str, Any]
) -> None:
    text = fitted(["ab c"]).fitted.text
    a, b, c, space = (text.vocabulary.index(token) for token in "abc ")
    spellings = [("ab", [a, b]), ("a", [a]), ("ca", [c, a]), ("a", [c, c])]
    lexicon = Lexicon(spellings, separator=space if separated else None)
    guide = Guide(lexicon, NGramLM(NGRAM, vocabulary_ids=[0, 1, 2]), weight=0.7, word_score=0.3, rescore=rescore)
    logits = np.random.default_rng(5).normal(scale=1.5, size=(9, len(text.vocabulary)))
    log_probs = torch.from_numpy(logits).log_softmax(dim=-1)
    search = PrefixBeam(size=6, nbest=3, **options)
    (expected,) = search(log_probs.unsqueeze(0), torch.tensor([9]), guide=guide)
    record = record_prefixes(log_probs.numpy(), search, text, guide)
    nodes = prefix_nodes(record, nbest=3)
    finished = sorted((node for node in nodes if node.status == "in_nbest"), key=lambda node: -node.score)
    assert [node.score for node in finished] == pytest.approx([each.score for each in expected], abs=1e-4)
    best = sorted(record.final, key=lambda place: -record.final[place])
    assert [list(words) for words, _ in best[:3]] == [each.words for each in expected]
    tokens, at = [], finished[0].parent
    while nodes[at].parent >= 0:
        tokens.append(nodes[at].token)
        at = nodes[at].parent
    names = "".join(lexicon.words[word] + " " * separated for word in expected[0].words)
    assert "".join(token.partition(" [")[0] for token in reversed(tokens)) in (names, names[:-1])
    header, rows, _ = prefix_table(prefix_choices(record))
    assert header[3:-1] == ["log-probability", *([] if rescore else ["score"])]
    assert {len(row) for row in rows} == {len(header)}


@pytest.mark.parametrize("seed", range(12))
def test_a_word_comes_from_a_spelling_that_was_reached_before_it(seed: int) -> None:
    """The other spelling may reach a better score later, but is no origin of the word."""
    text = fitted(["ab c"]).fitted.text
    a, c = (text.vocabulary.index(token) for token in "ac")
    guide = Guide(Lexicon([("a", [a]), ("a", [c, c])]))
    logits = np.random.default_rng(seed).normal(scale=1.5, size=(9, len(text.vocabulary)))
    log_probs = torch.from_numpy(logits).log_softmax(dim=-1).numpy()
    nodes = prefix_nodes(record_prefixes(log_probs, PrefixBeam(size=50), text, guide), nbest=3)
    assert [node.number for node in nodes] == list(range(len(nodes)))
    assert all(node.parent < node.number for node in nodes)
    assert all(node.length == nodes[node.parent].length + 1 for node in nodes[1:])


def test_guide_scores_are_those_of_the_language_model() -> None:
    lm = NGramLM(NGRAM, vocabulary_ids=[2, 0, -1], unknown=1)
    scores = GuideScores(Guide(None, lm, weight=0.5, word_score=0.2, unk_score=-1.0), count=3)
    expected = NGRAM.score([[2, 1, 0, 0]])[0]
    assert scores.score((0, 2, 1, 1)) == pytest.approx(0.5 * expected[:-1].sum() + 4 * 0.2 - 1.0, abs=1e-9)
    assert scores.end((0, 2, 1, 1)) == pytest.approx(0.5 * expected[-1], abs=1e-9)
    assert GuideScores(Guide(None, NGramLM(NGRAM, vocabulary_ids=[-1])), count=1).score((0,)) == -np.inf
