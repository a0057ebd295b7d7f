"""Dev data of runs: read only if they are those of the training."""

from functools import partial
from pathlib import Path

from seqloom.model import load
from seqloom.studio.dev_data import KEPT, Cache, DevData, index_dev_states, read_dev_data


def test_changed_data_are_not_shown(trained: Path) -> None:
    model = load(trained / "other")
    dev = Path(model.config.task.dev)
    text = dev.read_text()
    known = read_dev_data(model)
    assert (len(known.examples), known.note) == (len(list(model.config.task.read(dev))), "")
    try:
        dev.write_text(text + text)
        assert read_dev_data(model).examples == []
        assert "has changed since the run was trained" in read_dev_data(model).note
        dev.unlink()
        assert read_dev_data(model).examples == []
    finally:
        dev.write_text(text)


def test_states_of_every_element_are_indexed(trained: Path) -> None:
    model = load(trained / "first")
    data = read_dev_data(model)
    states = index_dev_states(model, data)
    assert sorted(states.rows) == list(range(len(data.examples)))
    assert states.index.elements == sum(map(len, data.examples))
    assert {"encoder.layer.forward_layer", "encoder.layer.backward_layer"} <= set(states.index.layers)
    assert index_dev_states(model, DevData([])).index.layers == {}


def test_a_cache_keeps_the_last_results() -> None:
    cache, calls = Cache(), list[int]()
    for number in (1, 2, 1, *range(3, 3 + KEPT), 1):
        cache.get((number,), partial(calls.append, number))
    assert calls == [1, 2, *range(3, 3 + KEPT), 1]
