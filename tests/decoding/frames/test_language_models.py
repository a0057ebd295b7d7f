"""Every kind of decoder as the language model of a search, against teacher forcing."""

import pytest
import torch
from tests.contracts.test_search import DECODERS
from tests.decoding.frames.test_prefix_beam import emit, search

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NeuralLM
from seqloom.decoding.frames.prefix_beam import PrefixBeam


@pytest.mark.parametrize("name", ["lstm", "gru-2", "transformer", "mixed"])
@pytest.mark.parametrize("size", [3, 40])
def test_decoders_score_as_with_teacher_forcing(name: str, size: int) -> None:
    case = DECODERS[name]()
    state = case.start(torch.tensor([0]))
    language = NeuralLM(case.step, state, start=1, end=2, vocabulary_ids=[2, 0, 1, 3])
    transcripts = search(PrefixBeam(size=size, nbest=3), emit(1, 14, 4), guide=Guide(None, language, weight=0.5))
    assert len({tuple(transcript.tokens) for transcript in transcripts}) == 3
    for transcript in transcripts:
        text = [[2, 0, 1, 3][token] for token in transcript.tokens]
        inputs, target = torch.tensor([[1, *text]]), torch.tensor([*text, 2])
        with torch.no_grad():
            logits = case.decoder(inputs, case.start(torch.tensor([0])))[0][0].log_softmax(dim=-1)
        truth = float(logits[torch.arange(len(target)), target].sum())
        assert transcript.language == pytest.approx(truth, abs=1e-4)  # single precision
