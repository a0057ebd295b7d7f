"""Transcription by a decoder: attention alone, and jointly with CTC."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import ctc_loss

from seqloom.config.errors import ConfigError
from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.models.encoder import BidirectionalEncoder, DecoderConfig
from seqloom.models.transcription.search_guide import parse_language_model
from seqloom.tasks.transcribe import Transcribe

Strokes = list[tuple[Any, str]]


def strokes(*texts: str) -> Strokes:
    random = np.random.default_rng(4)
    return [(random.normal(size=(2 + 2 * len(text), 3)).astype(np.float32), text) for text in texts]


def fitted(model: Any, **fields: Any) -> Transcribe:
    fields = {"search": Beam(size=300, nbest=4, length_penalty="none")} | fields
    task = Transcribe(
        train="-",
        model=model,
        encoder=BidirectionalEncoder(hidden_size=4, bidirectional=True),
        decoder=DecoderConfig(hidden_size=4),
        embedding_size=3,
        **fields,
    )
    return task.fit(task.read(strokes("a", "ab", "ba")))


def built(task: Transcribe, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    model = task.build_model().double().eval()
    for parameter in model.parameters():
        parameter.data *= 3  # far from uniform
    return model


@pytest.mark.parametrize("model", ["attention", "joint"])
@torch.no_grad()
def test_the_best_transcripts_are_those_with_the_least_loss(model: str) -> None:
    """A beam that prunes nothing against the loss of every label sequence, without label smoothing."""
    task = fitted(model, label_smoothing=0.0)
    network = built(task)
    ((values, _),) = strokes("a")
    values = values.astype(np.float64)
    batch = task.collate(list(task.read([values])))
    (answer,) = task.predict(
        network, batch._replace(inputs=batch.inputs._replace(values=torch.tensor(values)[None]))
    ).answers
    letters = task.fitted.text.vocabulary.tokens[3:]
    scores = {}
    for text in ("".join(word) for size in range(5) for word in itertools.product(letters, repeat=size)):
        reference = task.collate(list(task.read([(values, text)])))
        inputs = reference.inputs._replace(values=torch.tensor(values)[None])
        loss = task.loss(network, reference._replace(inputs=inputs))
        scores[text] = -float(loss.total) if loss.items else -math.inf
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:4]
    assert [candidate.text for candidate in answer.nbest] == best
    assert [candidate.score for candidate in answer.nbest] == pytest.approx([scores[text] for text in best], abs=1e-6)
    assert answer.acoustic == pytest.approx(scores[best[0]], abs=1e-6)
    assert len(answer.times) == (len(answer.tokens) if model == "joint" else 0)


@pytest.mark.parametrize("model", ["attention", "joint"])
@torch.no_grad()
def test_an_ensemble_averages_probabilities_of_tokens_and_scores_of_ctc(model: str) -> None:
    """A beam that prunes nothing against every label sequence, scored by torch with the mean of two models."""
    task = fitted(model, ctc_weight=0.4)
    networks = [built(task, seed) for seed in (1, 2)]
    ((values, _),) = strokes("a")
    batch = task.collate(list(task.read([values])))
    inputs = batch.inputs._replace(values=batch.inputs.values.double())
    (answer,) = task.predict(task.ensemble(networks), batch._replace(inputs=inputs)).answers
    memories = [network.encoder(*inputs) for network in networks]
    vocabulary, weight = task.fitted.text.vocabulary, 0.4 if model == "joint" else 0.0
    end, frames = vocabulary.index(END), int(memories[0].mask.sum())
    scores = {}
    for text in ("".join(word) for size in range(5) for word in itertools.product(vocabulary.tokens[3:], repeat=size)):
        tokens = torch.tensor([vocabulary.index(letter) for letter in text], dtype=torch.int64)
        read, written = torch.tensor([[end, *tokens]]), torch.tensor([*tokens, end])
        by_token = [
            network.decoder(read, network.decoder.start(memory, 1))[0].softmax(dim=-1)[0]
            for network, memory in zip(networks, memories, strict=True)
        ]
        steps = torch.stack(by_token).mean(dim=0).gather(1, written[:, None])
        scores[text] = (1 - weight) * float(steps.log().sum())
        if weight:
            pairs = zip(networks, memories, strict=True)
            by_frame = [network.frame_logits(memory).log_softmax(dim=-1)[0] for network, memory in pairs]
            lengths = torch.tensor([frames]), torch.tensor([len(tokens)])
            losses = [ctc_loss(table[:, None], tokens[None], *lengths, reduction="sum") for table in by_frame]
            scores[text] -= weight * float(torch.stack(losses).mean())
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:4]
    assert [candidate.text for candidate in answer.nbest] == best
    assert [candidate.score for candidate in answer.nbest] == pytest.approx([scores[text] for text in best], abs=1e-6)


@torch.no_grad()
def test_the_joint_loss_is_the_weighted_sum_of_both() -> None:
    task = fitted("joint", ctc_weight=0.2)
    network = built(task)
    batch = task.collate(list(task.read(strokes("ab", "ba"))))
    batch = batch._replace(inputs=batch.inputs._replace(values=batch.inputs.values.double()))
    ctc, attention = (
        float(task.model_copy(update={"model": model}).loss(network, batch).total) for model in ("ctc", "attention")
    )
    assert float(task.loss(network, batch).total) == pytest.approx(0.2 * ctc + 0.8 * attention)
    losses = [answer.loss for answer in task.predict(network, batch).answers]
    unsmoothed = task.model_copy(update={"label_smoothing": 0.0})
    assert sum(losses) == pytest.approx(float(unsmoothed.loss(network, batch).total), abs=1e-4)


@torch.no_grad()
def test_examples_that_ctc_cannot_align_teach_attention_only() -> None:
    """Five tokens do not fit into four frames: CTC and joint models skip them."""
    example = (np.zeros((4, 3), np.float32), "ababa")
    for model, items in (("joint", 0), ("attention", 6)):
        task = fitted(model)
        read = list(task.read([example]))
        batch = task.collate(read)
        assert bool(task.infeasible(read[0])) == (model == "joint")
        loss = task.loss(built(task).float(), batch)
        assert (loss.items, batch.items) == (items, items)
        assert (float(loss.total) > 0) == (items > 0)


def test_searches_and_models_have_to_fit() -> None:
    with pytest.raises(ConfigError, match='search "beam" needs a decoder, but model is "ctc"'):
        Transcribe(train="-", search=Beam())
    with pytest.raises(ConfigError, match='search "best_path" needs the frames of CTC, but model is "attention"'):
        Transcribe(train="-", model="attention")
    task = fitted("joint", normalize="global")
    with pytest.raises(
        ValueError, match=r"uses the decoder .best_path and prefix_beam use CTC alone.: this model needs"
    ):
        task.open_stream(built(task))


@torch.no_grad()
def test_explanations_show_the_branch_that_the_search_uses() -> None:
    task = fitted("joint")
    network = built(task).float()
    (example,) = task.read(strokes("ab"))
    explanation = task.explain(network, example, beam=True)
    assert explanation.attention is not None
    assert len(explanation.attention.columns) == task.steps(example)
    assert explanation.beam
    assert explanation.frames is None
    by_frames = task.with_options(search=Transcribe(train="-").search).explain(network, example)
    assert by_frames.frames is not None
    assert {len(names) for _, names in task.trace_gates(network, example)} > {0}


ARPA = """\\data\\
ngram 1=5

\\1-grams:
-9 <unk>
-99 <s>
-0.1 </s>
-0.2 {}
-9 {}

\\end\\
"""


@pytest.mark.parametrize("model", ["attention", "joint"])
@torch.no_grad()
def test_a_lexicon_and_a_language_model_guide_the_beam(model: str, tmp_path: Path) -> None:
    task = fitted(model, normalize="global")
    network = built(task).float()
    batch = task.collate(list(task.read(strokes("abba", "b"))))
    words = tmp_path / "words.txt"
    words.write_text("ba\nbab\n")
    (tmp_path / "words.arpa").write_text(ARPA.format("bab", "ba"))
    (tmp_path / "letters.arpa").write_text(ARPA.format("b", "a"))
    for answer in task.with_options(lexicon=str(words)).predict(network, batch).answers:
        assert all(re.fullmatch("(ba|bab)*", candidate.text) for candidate in answer.nbest)
        assert "".join(answer.words) == answer.text
        assert len(answer.word_times) == (len(answer.words) if model == "joint" else 0)
    by_letters = task.with_options(lm=parse_language_model(f"{tmp_path / 'letters.arpa'} weight=9"))
    rescored = task.with_options(lm=parse_language_model(f"{tmp_path / 'letters.arpa'} weight=9 method=rescore"))
    by_words = task.with_options(lexicon=str(words), lm=parse_language_model(f"{tmp_path / 'words.arpa'} weight=9"))
    rewarded = task.with_options(
        lexicon=str(words), lm=parse_language_model("word_score=0.5"), search=Beam(size=5, length_penalty="none")
    )
    for answer in rewarded.predict(network, batch).answers:
        best = answer.nbest[0]
        assert best.score == pytest.approx(best.acoustic + 0.5 * len(answer.words), abs=1e-4)
    for guided, allowed in ((by_letters, "b*"), (rescored, "b*"), (by_words, "(bab)*")):
        for answer in guided.predict(network, batch).answers:
            assert re.fullmatch(allowed, answer.text)
            best = answer.nbest[0]
            assert best.score == pytest.approx(best.acoustic + 9 * best.language, abs=1e-4)
    assert rewarded.prediction_notes == ()
    divided = rewarded.with_options(search=Beam(size=5))
    assert "lm.word_score = 0.5 has little effect" in divided.prediction_notes[0]
    with pytest.raises(ConfigError, match=r'lm.method = "rescore" needs'):
        task.with_options(search=Greedy(), lm=parse_language_model("x.arpa method=rescore"))
