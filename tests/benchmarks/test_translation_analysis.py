"""Analysis of translation models, with a tiny one."""

from pathlib import Path

import pytest
from tests.contracts.tiny import CASES, build

from benchmarks.translation_analysis import bleu_by_length, by_beam_size
from seqloom import workflow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translate")
    return workflow.train(build(CASES["translate"], folder, updates=1), output=folder / "run").path


def test_each_beam_size_has_a_row(run: Path) -> None:
    rows = by_beam_size(str(run), str(run.parent / CASES["translate"].file), sizes=[1, 2])
    assert [size for size, *_ in rows] == ["1", "2"]
    greedy, beam = (float(log_probability) for _, _, _, log_probability, _ in rows)
    assert max(greedy, beam) < 0


def test_every_sentence_is_in_a_bin(run: Path) -> None:
    file = run.parent / CASES["translate"].file
    bins = bleu_by_length(str(run), str(file))
    sources = [line.partition("\t")[0] for line in file.read_text().splitlines()]
    assert sum(each.sentences for each in bins) == len([source for source in sources if source.split()])
