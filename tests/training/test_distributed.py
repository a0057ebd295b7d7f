"""Several processes train as one: same gradients, weights and scores; a killed process ends the others."""

import json
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.tiny import CASES, build
from tests.killing import differences, outcome
from tests.training.toy import Toy, batches, begin, evaluator, sequences, settings

from seqloom import workflow
from seqloom.checkpoint import RunError
from seqloom.evaluation import evaluate
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.language_model import LanguageModel
from seqloom.training.config import TrainConfig
from seqloom.training.distributed import ProcessGroup, process_group
from seqloom.training.progress import Progress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


def run_processes(size: int, work: Callable[[], object]) -> list[int | None]:
    """Run ``work`` in ``size`` processes with the environment of torchrun; their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def enter(rank: int) -> None:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        torch.set_num_threads(1)
        work()

    context = multiprocessing.get_context("fork")  # torch is loaded already
    processes = [context.Process(target=enter, args=(rank,)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def train_toy(group: ProcessGroup) -> dict[str, Any]:
    model = Toy()
    # 33 sequences in batches of 8: the last one has a single row, and no other process has any.
    chosen = settings(batch_size=8, epochs=2, learning_rate=0.05, optimizer="sgd", clip_norm=1.0)
    events = begin(model, chosen, sequences(33), group=group, evaluate=evaluator(sequences(5)))
    losses = [event.loss for event in events if event.logged]
    return {"losses": losses, "weights": {name: tensor.tolist() for name, tensor in model.state_dict().items()}}


def score_language_model(group: ProcessGroup, count: int) -> dict[str, Any]:
    """The scores of a language model on ``count`` lines of unequal length."""
    lines = [" ".join("abcde"[(index * index + number) % 5] for index in range(number % 7)) for number in range(count)]
    task = LanguageModel.model_validate({"train": "x", "embedding_size": 4, "decoder": {"hidden_size": 5}})
    task = task.fit(task.read(["a b c d e"]))
    torch.manual_seed(0)
    return evaluate(Config(task, TrainConfig(batch_size=8)), task.build_model(), list(task.read(lines)), group=group)


def work(group: ProcessGroup) -> dict[str, Any]:
    return {
        "total": group.sum(group.rank + 1, 0.5),
        "gathered": [data.decode() for data in group.all_gather(f"rank {group.rank}".encode() * (group.rank + 1))],
        "nothing": [data.decode() for data in group.all_gather(b"")],
        "any": [group.any_rank(flag=False), group.any_rank(flag=group.rank == group.size - 1)],
        "shared": group.broadcast(lambda: {"rank": group.rank}),
        "trained": train_toy(group),
        "many": score_language_model(group, 499),
        "one": score_language_model(group, 1),
    }


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """The results of each process, in groups of 1, 2 and 4."""
    torch.set_num_threads(1)
    result = {1: [work(ProcessGroup())]}
    for size in (2, 4):
        folder = tmp_path_factory.mktemp("group")

        def write(folder: Path = folder) -> None:
            with process_group() as group:
                (folder / f"{group.rank}.json").write_text(json.dumps(work(group)))

        assert run_processes(size, write) == [0] * size
        result[size] = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]
    return result


def flat(weights: dict[str, list[Any]]) -> torch.Tensor:
    return torch.cat([torch.tensor(values, dtype=torch.float64).flatten() for values in weights.values()])


def test_a_counting_model_is_trained_by_one_process(tmp_path: Path) -> None:
    case = CASES["language_model"]
    counted = build(case._replace(fields=case.fields | {"model": "ngram"}), tmp_path)
    assert run_processes(2, lambda: workflow.train(counted, output=tmp_path / "run")) == [0, 0]
    assert len(Run.open(tmp_path / "run").rows()) == 1


@pytest.mark.parametrize("size", [2, 4])
def test_processes_add_and_gather(jobs: dict[int, list[dict[str, Any]]], size: int) -> None:
    for result in jobs[size]:
        assert result["total"] == [size * (size + 1) / 2, size / 2]
        assert result["gathered"] == [f"rank {rank}" * (rank + 1) for rank in range(size)]
        assert result["nothing"] == [""] * size
        assert result["any"] == [False, True]
        assert result["shared"] == {"rank": 0}


@pytest.mark.parametrize("size", [2, 4])
def test_weights_are_those_of_one_process(jobs: dict[int, list[dict[str, Any]]], size: int) -> None:
    one = jobs[1][0]["trained"]
    expected = flat(one["weights"])
    for job in jobs[size]:
        assert job["trained"] == jobs[size][0]["trained"]  # bit for bit the same on all
        assert float((flat(job["trained"]["weights"]) - expected).norm() / expected.norm()) < 1e-6
        assert job["trained"]["losses"] == pytest.approx(one["losses"], rel=1e-6)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", ["many", "one"])
def test_scores_are_those_of_one_process(jobs: dict[int, list[dict[str, Any]]], size: int, name: str) -> None:
    expected = jobs[1][0][name]
    for job in jobs[size]:
        assert job[name] == jobs[size][0][name]
        for metric, value in expected.items():
            assert job[name][metric] == pytest.approx(value, rel=1e-7)  # float32, in batches of other sizes
        assert job[name]["tokens"] == expected["tokens"]


def test_two_ranks_process_the_two_parts_of_a_batch() -> None:
    def seen(group: ProcessGroup, accumulate: int = 1) -> list[list[Any]]:
        loaded = batches(sequences(9), settings(accumulate=accumulate), group=group)
        return [[part.inputs.values.tolist() for part in parts] for parts in loaded.epoch(0)]

    for parts, one, other in zip(
        seen(ProcessGroup(), 2), seen(ProcessGroup(0, 2)), seen(ProcessGroup(1, 2)), strict=True
    ):
        assert parts == one + other


def test_a_single_process_needs_no_communication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group() as group:
        assert group == ProcessGroup(0, 1)
        tensor = torch.ones(2)
        group.sum_tensors([tensor])
        assert tensor.tolist() == [1, 1]
        assert (group.sum(2.5), group.all_gather(b"x"), group.any_rank(flag=True)) == ([2.5], [b"x"], True)


def test_the_main_process_alone() -> None:
    main, other = ProcessGroup(0, 2).main_only(), ProcessGroup(1, 2).main_only()
    assert (main, main.is_main, main.is_member) == (ProcessGroup(), True, True)
    assert (other.is_main, other.is_member) == (False, False)


def test_a_killed_process_ends_the_others() -> None:
    def die() -> None:
        with process_group() as group:
            for event in begin(Toy(), settings(epochs=10_000), sequences(20), group=group):
                if event.update == 3 and group.rank == 1:
                    os.kill(os.getpid(), signal.SIGKILL)

    assert run_processes(2, die) == [1, -signal.SIGKILL]


def test_a_run_of_two_processes_resumes_bit_for_bit(tmp_path: Path) -> None:
    chosen = build(CASES["language_model"], tmp_path, updates=9, evaluate_every=4, average_checkpoints=2, bptt_steps=3)
    assert run_processes(2, lambda: workflow.train(chosen, output=tmp_path / "whole")) == [0, 0]
    path = tmp_path / "interrupted"

    def interrupt(run: Run, event: Progress) -> None:
        if event.update == 6:
            os.kill(os.getpid(), signal.SIGINT)  # the first process alone receives the signal; all have to stop

    def stopped() -> None:
        with pytest.raises(Interrupted):
            workflow.train(chosen, output=path, listeners=[interrupt])

    assert run_processes(2, stopped) == [0, 0]
    with pytest.raises(RunError, match="was trained by 2 processes and can only be resumed with the same number"):
        workflow.resume(path)
    assert run_processes(2, lambda: workflow.resume(path)) == [0, 0]
    assert differences(outcome(tmp_path / "whole"), outcome(path)) == []
