"""Resumed from the snapshot of any event, a training run is bit for bit the one that was never interrupted."""

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from tests.training.toy import Toy, batches, begin, copy_weights, evaluator, facts, loss, same, sequences, settings
from torch import Tensor

from seqloom.checkpoint import RunError, Snapshot
from seqloom.training.gradient_update import GradientUpdate
from seqloom.training.snapshots import average_weights, flatten_state, nest, unflatten_state

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "averaging": {"average_checkpoints": 3, "evaluate_every": 2},
    "plateau": {"schedule": "plateau", "evaluate_every": 3, "decay": 0.1},
    "cosine": {"schedule": "cosine", "warmup": 3},
    "accumulate": {"accumulate": 2},
    "bptt": {"bptt_steps": 3, "batch_size": 3, "epochs": 1},
    "bptt in parts": {"bptt_steps": 5, "batch_size": 3, "accumulate": 2, "average_checkpoints": 2},
    "bptt of a stream": {"bptt_steps": 5, "batch_size": 3, "shuffle_buffer": 5},
    "workers": {"workers": 2},
    "stream": {"shuffle_buffer": 7},
    "tokens": {"batch_tokens": 20},
    "momentum": {"optimizer": "sgd", "momentum": 0.9},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "patience": {"patience": 2, "evaluate_every": 1, "learning_rate": 0.5},
    "updates": {"updates": 7},
}


def through_a_file(snapshot: Snapshot) -> Snapshot:
    """As it comes back from a checkpoint."""
    model, training = (load(save({name: part.contiguous() for name, part in parts.items()})) for parts in snapshot[:2])
    return Snapshot(model, training, json.loads(json.dumps(snapshot.facts)))


def equal(one: Snapshot, other: Snapshot) -> bool:
    plain = [json.loads(json.dumps(snapshot.facts)) for snapshot in (one, other)]
    return same(one.model, other.model) and same(one.training, other.training) and plain[0] == plain[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_training_resumes_after_every_event(kind: str) -> None:
    chosen = settings(**KINDS[kind])
    examples = sequences(18)
    evaluate = evaluator(sequences(5, seed=9))
    model = Toy(dropout=0.4)
    torch.manual_seed(3)
    events, snapshots = [], []
    for event in begin(model, chosen, examples, evaluate=evaluate):
        events.append(facts(event))
        snapshots.append(through_a_file(event.snapshot()))
    assert len(events) > 5
    for number, snapshot in enumerate(snapshots):
        torch.manual_seed(1000 + number)
        other = Toy(dropout=0.4, seed=number + 1)
        end = snapshot
        result = []
        for event in begin(other, chosen, examples, evaluate=evaluate, start=snapshot):
            result.append(facts(event))
            if number + len(result) in (number + 1, len(events) - 1):  # the next one, and the last
                end = event.snapshot()
                assert equal(end, snapshots[number + len(result)])
        assert result == events[number + 1 :]
        assert equal(end, snapshots[-1])
        assert same(copy_weights(other), copy_weights(model))


def test_training_resumes_from_the_start() -> None:
    """Step 0: no checkpoint, the same seeds."""
    runs = []
    for _ in range(2):
        torch.manual_seed(3)
        model = Toy(dropout=0.4)
        runs.append([facts(event) for event in begin(model, settings(), sequences(18))])
    assert runs[0] == runs[1]


def test_a_snapshot_is_a_copy() -> None:
    model = Toy()
    events = begin(model, settings(), sequences(18), evaluate=evaluator(sequences(3)))
    snapshot = next(events).snapshot()
    before = through_a_file(snapshot)
    for _ in events:
        pass
    assert equal(snapshot, before)
    assert not same(snapshot.model, copy_weights(model))


def test_another_number_of_processes_is_refused() -> None:
    snapshot = next(begin(Toy(), settings(), sequences(18))).snapshot()
    facts = {**snapshot.facts, "ranks": 2}
    with pytest.raises(
        RunError, match="was trained by 2 processes and can only be resumed with the same number, not 1"
    ):
        next(begin(Toy(), settings(), sequences(18), start=snapshot._replace(facts=facts)))


def test_states_are_flattened_and_restored_as_tuples() -> None:
    a, b, c = (torch.full((2,), float(number)) for number in range(3))
    state = ((a, b), (c,))
    named = flatten_state(state, "carried.0")
    assert list(named) == ["carried.0.0.0", "carried.0.0.1", "carried.0.1.0"]
    result = unflatten_state(nest(named)["carried"]["0"])
    assert [[torch.equal(*pair) for pair in zip(*parts, strict=True)] for parts in zip(result, state, strict=True)] == [
        [True, True],
        [True],
    ]


def test_empty_states_are_restored() -> None:
    a = torch.ones(2)
    for state in ((), ((), (a,)), ((a,), ())):
        result = unflatten_state(nest(flatten_state(state, "x"))["x"])
        assert [len(part) for part in result] == [len(part) for part in state]


def test_more_than_ten_parts_keep_their_order() -> None:
    state = tuple(torch.tensor([number]) for number in range(12))
    result: tuple[Tensor, ...] = unflatten_state(nest(flatten_state(state, "x"))["x"])
    assert [int(part) for part in result] == list(range(12))


def test_the_state_of_an_update_rule_is_restored() -> None:
    model = Toy()
    chosen = settings(average_checkpoints=2, bptt_steps=4, batch_size=2, evaluate_every=1)
    events = begin(model, chosen, sequences(8), evaluate=evaluator(sequences(3)))
    for _, event in zip(range(6), events, strict=False):
        snapshot = event.snapshot()
    assert snapshot.facts["position"]["update"] == 3
    rule = GradientUpdate(Toy(seed=1), batches(sequences(8), chosen), loss, chosen)
    saved = through_a_file(snapshot)
    rule.load_state(saved.model, saved.training)
    assert [sorted(weights) for weights in rule.history] == [sorted(model.state_dict())] * 2
    assert len(rule.carried) == 1
    weights, training = rule.state()
    assert same(weights, snapshot.model)
    assert same(training, snapshot.training)


def test_weights_that_do_not_change_are_averaged_without_rounding() -> None:
    table, counts = torch.linspace(0.1, 0.9, 1000), torch.tensor([3])
    history = tuple({"table": table.clone(), "moving": table + step, "count": counts + step} for step in range(3))
    assert not (table + table + table).div(3).equal(table)  # what a mean would give
    mean = average_weights(history)
    assert mean["table"].equal(table)
    torch.testing.assert_close(mean["moving"], table + 1)
    assert mean["count"].tolist() == [5]
