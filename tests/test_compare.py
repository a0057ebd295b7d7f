"""What runs reached, side by side."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from seqloom.compare import compare, describe, outcome
from seqloom.config import Wrong
from seqloom.run import Run

TEXT = "the cat sat on the mat\na dog sat on a cat\nthe dog and the cat sat\n" * 4


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "dev.txt").write_text("the cat sat on a mat\nthe mat sat\n")
    path = tmp_path / "lm.toml"
    path.write_text(
        f"""
[task]
name = "language_model"
train = "{tmp_path / "train.txt"}"
dev = "{tmp_path / "dev.txt"}"
embedding = 8
order = 3

[task.decoder]
hidden = 8

[train]
updates = 3
"""
    )
    return path


def test_each_variant_has_its_row_with_what_its_run_reached(config: Path, tmp_path: Path) -> None:
    events: list[object] = []
    rows = compare(
        config,
        ["task.kind=ngram", "task.decoder.cell=gru,train.updates=2"],
        output=tmp_path / "runs",
        listen=lambda: nullcontext(lambda _, event: events.append(event)),
    )
    ngram, gru = rows
    assert ngram["variant"] == "task.kind=ngram"
    assert ngram["parameters"] == 0
    # Tied vectors of 11 symbols; 3 gates of 8 × (8 + 8) + 8; the bias of the output.
    assert gru["parameters"] == 11 * 8 + 3 * (8 * 16 + 8) + 11
    for row, name in zip(rows, ["task.kind=ngram", "task.decoder.cell=gru_train.updates=2"], strict=True):
        run = Run.open(tmp_path / "runs" / name)
        assert row["perplexity"] == outcome(run)["perplexity"]
        assert describe(run.path)["perplexity"] == row["perplexity"]
    assert len(events) == 6  # two updates, each of them an epoch, and to count is one lesson; all have evaluations


def test_all_variants_are_checked_before_the_first_is_trained(config: Path, tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="did you mean"):
        compare(config, ["task.kind=ngram", "task.ordr=2"], output=tmp_path / "runs", listen=lambda: nullcontext(print))
    assert not (tmp_path / "runs").exists()


def test_a_second_comparison_has_a_folder_of_its_own(config: Path, tmp_path: Path) -> None:
    for _ in range(2):
        compare(config, ["task.kind=ngram"], output=tmp_path / "runs", listen=lambda: nullcontext(print))
    assert Run.open(tmp_path / "runs-2" / "task.kind=ngram").path.is_dir()
