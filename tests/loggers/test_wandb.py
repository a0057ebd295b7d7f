"""Weights & Biases reads back what was logged offline."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.loggers.conftest import Log, expected_scalars

from seqloom import load

pytest.importorskip("wandb", reason="Weights & Biases is not installed: pip install 'seqloom[wandb]'")


BLOCK = 32768  # bytes; the file is a log in the format of LevelDB, after a header of 7 bytes


def records(path: Path) -> Iterator[Any]:
    """The records of an offline log."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, data = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        data += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record = Record()
            record.ParseFromString(data)
            yield record
            data = b""


@pytest.mark.filterwarnings("ignore")
def test_wandb_holds_every_value_under_one_identifier(
    crashed_and_resumed: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = crashed_and_resumed("wandb")
    identifier = json.loads((run.path / "wandb.json").read_text())["id"]
    files = sorted(run.path.glob(f"wandb/offline-run-*-{identifier}/run-{identifier}.wandb"))
    assert len(files) in (1, 2)  # both processes may start within a second
    values: dict[str, set[tuple[int, float]]] = {}
    text = ""
    for record in [record for file in files for record in records(file)]:
        kind = record.WhichOneof("record_type")
        if kind == "history":
            items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for name, value in items.items():
                values.setdefault(name, set()).add((items["update"], value))
        text += str(record)
    for name, expected in expected_scalars(run).items():
        assert sorted(values[name]) == expected
    assert "best/perplexity" in text
    assert "task.decoder.hidden_size" in text
    assert load(run.path).predict(["the cat"])  # the folder is still a run
