"""A small language model to compare variants of."""

from pathlib import Path

import pytest

TEXT = "the cat sat on the mat\na dog sat on a cat\nthe dog and the cat sat\n" * 4


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "dev.txt").write_text("the cat sat on a mat\nthe mat sat\na dog\n\nthe dog and a mat sat on the cat\n")
    path = tmp_path / "lm.toml"
    path.write_text(
        f"""
[task]
name = "language_model"
train = "{tmp_path / "train.txt"}"
dev = "{tmp_path / "dev.txt"}"
embedding_size = 8
order = 3

[task.text]
unit = "words"
min_count = 1

[task.decoder]
hidden_size = 8

[train]
epochs = 9
updates = 3
bptt_steps = 7
batch_size = 2
"""
    )
    return path
