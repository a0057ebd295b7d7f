import multiprocessing
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.registry import build, noise
from torch import Tensor

from seqloom.kernels.fuse import scan
from seqloom.kernels.runtime import threads
from seqloom.layers.recurrent.recurrent import Recurrent


def made() -> Recurrent:
    layer = build("LSTM()")
    assert isinstance(layer, Recurrent)
    return layer


def gradients(layer: Recurrent, x: Tensor) -> tuple[Tensor, ...]:
    """Outputs, and gradients of the input and the parameters, without touching what threads share."""
    x = x.detach().requires_grad_()
    out, _ = layer(x)
    return (out.detach(), *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()]))


def assert_all_near(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    for left, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-12)  # rounding: sums over rows in another order


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    torch.set_num_threads(2)


def test_several_python_threads_call_one_layer_at_once() -> None:
    layer = made()
    inputs = [noise(1 + seed % 3, 5 + seed, layer.input_size, seed=seed) for seed in range(12)]
    wanted = [gradients(layer, x) for x in inputs]
    fresh = Recurrent(layer.cell)  # its kernel is made by whoever comes first
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: gradients(fresh, x), inputs * 5))
    for index, values in enumerate(found):
        assert_all_near(values, wanted[index % len(inputs)])


@pytest.mark.usefixtures("two_threads")
def test_python_threads_that_use_threads() -> None:
    layer = made()
    inputs = [noise(1 + seed % 3, 5, layer.input_size, seed=seed) for seed in range(6)]
    wanted = [gradients(layer, x) for x in inputs]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda x: gradients(layer, x), inputs))
    for values, right in zip(found, wanted, strict=True):
        assert_all_near(values, right)


def work(connection: Connection, layer: Recurrent, x: Any) -> None:
    # What a forked process may rely on: numbers by NumPy, since sending tensors needs torch's shared memory.
    connection.send([value.numpy() for value in gradients(layer, torch.from_numpy(x))])
    connection.close()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 4])
def test_a_forked_process_after_threads_were_used(batch: int) -> None:
    layer = made()
    x = noise(batch, 6, layer.input_size)
    wanted = gradients(layer, x)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside threads
        process = context.Process(target=work, args=(theirs, layer, x.numpy()))
        process.start()
    try:
        assert ours.poll(60), "the forked process gives no answer"
        found = ours.recv()
        process.join(60)
        assert process.exitcode == 0
    finally:
        process.kill()
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right.numpy(), rtol=0, atol=1e-12)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_without_openmp(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = made()
    x = noise(batch, 6, layer.input_size)
    wanted = gradients(layer, x)
    pool = cache(threads._pool.__wrapped__)
    monkeypatch.setattr(threads, "_openmp", lambda: None)
    monkeypatch.setattr(threads, "_pool", pool)
    assert not threads.can_team()
    assert_all_near(gradients(layer, x), wanted)
    assert pool.cache_info().currsize == (batch > 1)
    with pytest.raises(RuntimeError, match="OpenMP"):
        threads.run_team(0, 0, 2)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 3, 7])
def test_more_threads_than_processors_than_rows_or_than_vectors(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = made()
    x = noise(batch, 6, layer.input_size)
    wanted = gradients(layer, x)
    monkeypatch.setattr(threads, "count", lambda: 5)
    assert_all_near(gradients(layer, x), wanted)


def test_small_work_is_done_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    parts: list[int] = []
    run = threads.run

    def watched(address: int, table: int, count: int) -> None:
        parts.append(count)
        run(address, table, count)

    monkeypatch.setattr(threads, "run", watched)
    layer = made()
    layer(noise(4, 5, layer.input_size))
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    layer(noise(4, 5, layer.input_size))
    assert parts == [1, 2]


def test_torch_decides_how_many_threads() -> None:
    torch.set_num_threads(2)
    assert threads.count() == 2
    torch.set_num_threads(1)
    assert threads.count() == 1
    assert not threads.can_team()


def test_a_forked_process_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "_main_process", -1)
    assert threads.count() == 1
