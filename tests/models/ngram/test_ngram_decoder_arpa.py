"""N-gram decoders written to ARPA files and read back."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.data.batch import Batch, Padded
from seqloom.data.readers.text_files import DataError
from seqloom.models.ngram.ngram_decoder import NGramDecoder

SYMBOLS = ("<pad>", "<unk>", "</s>", "a", "b", " ")
TEXTS = [[3, 5, 4], [4, 4, 3, 5, 5], [1], [], [3, 3, 4, 5], [3, 5, 4, 4]]


def decoder(*, symbols: Sequence[str] = SYMBOLS, arpa: str = "") -> NGramDecoder:
    return NGramDecoder(lambda text: text, symbols, order=3, end=2, arpa=arpa)


@pytest.fixture
def counted() -> NGramDecoder:
    model = decoder()
    model.count(TEXTS)
    return model


def test_outputs_match_the_log_probabilities(counted: NGramDecoder) -> None:
    text = [3, 5, 4, 1, 2]
    target = torch.tensor([text, [4, 2, 0, 0, 0]])
    mask = torch.arange(5) < torch.tensor([[5], [2]])
    inputs = torch.cat([torch.full((2, 1), 2), target[:, :-1]], dim=1)
    first, second = counted.score_texts(Batch(Padded(inputs, mask), target, 7)).forward
    assert len(second) == 2
    outputs, _ = counted(torch.tensor([[2, *text[:-1]]]), counted.start(None, 1))
    assert outputs[0, torch.arange(5), torch.tensor(text)].tolist() == first
    np.testing.assert_allclose(outputs.exp().sum(dim=2), 1, atol=1e-6)


def test_write_and_read(counted: NGramDecoder, tmp_path: Path) -> None:
    counted.write(tmp_path / "a.arpa")
    again = decoder(arpa=str(tmp_path / "a.arpa"))
    again.count(iter(()))
    for name, tensor in counted.state_dict().items():
        if name != "fallbacks":
            assert torch.equal(again.state_dict()[name], tensor), name
    other = decoder(symbols=(*SYMBOLS[:-1], "c"), arpa=str(tmp_path / "a.arpa"))
    with pytest.raises(DataError, match=r"a\.arpa: the words of the file have changed since training"):
        other.count(())


def test_an_unestimated_model_raises() -> None:
    with pytest.raises(ValueError, match="not been estimated yet"):
        decoder().start(None, 1)
    assert decoder().state_dict() == {}
