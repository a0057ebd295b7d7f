"""Shell completion: what the Tab key offers, by the protocol of each shell, quickly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seqloom
from seqloom import tasks
from seqloom.cli import completion
from seqloom.run import Run

SOURCES = str(Path(seqloom.__file__).parent.parent)
PROGRAM = "import sys; from seqloom.cli.main import main; sys.argv = ['seqloom']; main()"


def complete(line: str, folder: Path, *, protocol: str = "zsh") -> list[str]:
    """What is offered for the last word of a command line; fails if torch is imported."""
    words = line.split(" ")
    variables = {"_TYPER_COMPLETE_ARGS": line}
    if protocol == "bash":  # splits words at =
        split = [part for word in words for part in word.replace("=", " = ").split()] + [""] * (not words[-1])
        variables = {"COMP_WORDS": "\n".join(split), "COMP_CWORD": str(len(split) - 1)}
    environment = {**os.environ, "PYTHONPATH": SOURCES, "_SEQLOOM_COMPLETE": f"complete_{protocol}", **variables}
    program = f"import sys; sys.modules['torch'] = None; {PROGRAM}"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    if protocol == "bash":
        return ended.stdout.split()
    offered = [text.replace("\\", "") for text in re.findall(r'"([^"]*)"', ended.stdout)]
    return offered or [ended.stdout.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration, runs, and a warm cache of the keys."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "tag.toml").write_text('[task]\nname = "tag"\ntrain = "x"\n')
    for name in ("runs/tag", "runs/tag-2", "runs/sweep/trials/0", "other"):
        Run.create(folder / name, config="", learned="{}", environment={})
    (folder / "runs" / "empty").mkdir()
    completion.all_keys()
    return folder


def test_tasks(folder: Path) -> None:
    assert complete("seqloom init t", folder) == [name for name in tasks.names() if name.startswith("t")]
    assert complete("seqloom train --task cl", folder) == ["classify"]
    assert complete("seqloom demo emb", folder, protocol="bash") == ["embed"]


def test_experiments(folder: Path) -> None:
    assert complete("seqloom lab vani", folder) == ["vanishing"]


def test_run_folders(folder: Path) -> None:
    assert complete("seqloom info ", folder) == ["other", "runs/sweep/trials/0", "runs/tag", "runs/tag-2"]
    assert complete("seqloom predict runs/t", folder, protocol="bash") == ["runs/tag", "runs/tag-2"]
    assert complete("seqloom train --resume ./runs/s", folder) == ["./runs/sweep/trials/0"]
    assert complete(f"seqloom info {folder}/o", folder) == [f"{folder}/other"]


def test_keys_of_the_task_in_the_configuration(folder: Path) -> None:
    keys = complete("seqloom train tag.toml train.l", folder)
    assert keys == ["train.learning_rate=", "train.log_every=", "train.log_to="]
    assert complete("seqloom train --task tag task.crf", folder) == complete("seqloom check tag.toml task.crf", folder)
    offered = complete("seqloom train tag.toml task.", folder)
    assert {"task.encoder.cell=", "task.words.embedding_size="} <= set(offered)
    assert {"gru", "lstm", "transformer"} <= set(
        complete("seqloom train tag.toml task.encoder.cell=", folder, protocol="bash")
    )
    assert "task.decoder.cell=" not in offered
    assert "task.decoder.cell=" in complete("seqloom train missing.toml task.", folder)


def test_values_follow_a_complete_key(folder: Path) -> None:
    assert complete("seqloom train tag.toml train.sched", folder)[:3] == [
        *("train.schedule=", "train.schedule=constant", "train.schedule=cosine")
    ]
    assert complete("seqloom train tag.toml train.schedule=cos", folder) == ["train.schedule=cosine"]
    assert complete("seqloom train tag.toml train.batch_s", folder) == ["train.batch_size=", "train.batch_size=32"]
    assert complete("seqloom train tag.toml train.schedule=cos", folder, protocol="bash") == ["cosine"]
    assert "linear" in complete("seqloom train tag.toml train.schedule=", folder, protocol="bash")


def test_files_are_left_to_the_shell(folder: Path) -> None:
    assert complete("seqloom train ta", folder) == ["_files"]
    assert complete("seqloom train ta", folder, protocol="bash") == []


def test_an_unfinished_option_is_no_mistake(folder: Path) -> None:
    assert complete("seqloom train tag.toml --lr 3 train.sh", folder) == ["_files"]


def test_keys_are_found_again_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    keys = completion.all_keys()
    assert set(keys) == set(tasks.names())
    assert completion.all_keys() == keys
    (path,) = (tmp_path / "completion").glob("*.json")
    path.write_text("damaged")
    assert completion.all_keys() == keys
    monkeypatch.setattr(seqloom, "__version__", "9")
    assert completion.all_keys() == keys
    assert len(list((tmp_path / "completion").glob("*.json"))) == 2
