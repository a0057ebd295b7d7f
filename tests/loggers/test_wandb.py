"""Weights & Biases reads back what was logged offline."""

from pathlib import Path

import pytest
from tests.loggers.conftest import Log, expected_scalars

from seqloom import load

pytest.importorskip("wandb", reason="Weights & Biases is not installed: pip install 'seqloom[wandb]'")


def records(path: Path) -> list[object]:
    """The records of an offline log."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    store = DataStore()
    store.open_for_scan(str(path))
    parsed = []
    while data := store.scan_data():
        record = Record()
        record.ParseFromString(data)
        parsed.append(record)
    return parsed


@pytest.mark.filterwarnings("ignore")
def test_wandb_holds_every_value_under_one_identifier(
    crashed_and_resumed: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = crashed_and_resumed("wandb")
    identifier = json.loads((run.path / "wandb.json").read_text())["id"]
    files = sorted(run.path.glob(f"wandb/offline-run-*-{identifier}/run-{identifier}.wandb"))
    assert len(files) in (1, 2)  # both processes may start within a second
    values: dict[str, set[tuple[int, float]]] = {}
    text = ""
    for record in [record for file in files for record in records(file)]:
        kind = record.WhichOneof("record_type")  # type: ignore[attr-defined]
        if kind == "history":
            items = {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item  # type: ignore[attr-defined]
            }
            for name, value in items.items():
                values.setdefault(name, set()).add((items["update"], value))
        text += str(record)
    for name, expected in expected_scalars(run).items():
        assert sorted(values[name]) == expected
    assert "best/perplexity" in text
    assert "task.decoder.hidden_size" in text
    assert load(run.path).predict(["the cat"])  # the folder is still a run
