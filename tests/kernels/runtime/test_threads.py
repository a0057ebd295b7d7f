import multiprocessing
import os
import subprocess
import sys
import threading
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


def make_layer() -> Recurrent:
    layer = build("LSTM()")
    assert isinstance(layer, Recurrent)
    return layer


def gradients(layer: Recurrent, x: Tensor) -> tuple[Tensor, ...]:
    """Outputs, and gradients of the input and the parameters, without changing anything that threads share."""
    x = x.detach().requires_grad_()
    out, _ = layer(x)
    return (out.detach(), *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()]))


def assert_all_close(actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for left, right in zip(actual, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-12)  # rounding: sums over rows in another order


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    torch.set_num_threads(2)


def test_several_python_threads_call_one_layer_at_once() -> None:
    layer = make_layer()
    inputs = [noise(1 + seed % 3, 5 + seed, layer.input_size, seed=seed) for seed in range(12)]
    expected = [gradients(layer, x) for x in inputs]
    fresh = Recurrent(layer.cell)  # the first thread compiles its kernel
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda x: gradients(fresh, x), inputs * 5))
    for index, values in enumerate(actual):
        assert_all_close(values, expected[index % len(inputs)])


@pytest.mark.usefixtures("two_threads")
def test_python_threads_that_start_openmp_threads() -> None:
    layer = make_layer()
    inputs = [noise(1 + seed % 3, 5, layer.input_size, seed=seed) for seed in range(6)]
    expected = [gradients(layer, x) for x in inputs]
    with ThreadPoolExecutor(3) as pool:
        actual = list(pool.map(lambda x: gradients(layer, x), inputs))
    for values, right in zip(actual, expected, strict=True):
        assert_all_close(values, right)


def work(connection: Connection, layer: Recurrent, x: Any) -> None:
    # As NumPy arrays, because sending tensors needs torch's shared memory.
    connection.send([value.numpy() for value in gradients(layer, torch.from_numpy(x))])
    connection.close()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 4])
def test_a_forked_process_after_threads_were_used(batch: int) -> None:
    layer = make_layer()
    x = noise(batch, 6, layer.input_size)
    expected = gradients(layer, x)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside threads
        process = context.Process(target=work, args=(sender, layer, x.numpy()))
        process.start()
    try:
        assert receiver.poll(60), "the forked process does not answer"
        actual = receiver.recv()
        process.join(60)
        assert process.exitcode == 0
    finally:
        process.kill()
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(left, right.numpy(), rtol=0, atol=1e-12)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_without_openmp(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = make_layer()
    x = noise(batch, 6, layer.input_size)
    expected = gradients(layer, x)
    pool = cache(threads._pool.__wrapped__)
    monkeypatch.setattr(threads, "_openmp", lambda: None)
    monkeypatch.setattr(threads, "_pool", pool)
    assert not threads.can_team()
    assert_all_close(gradients(layer, x), expected)
    assert pool.cache_info().currsize == (batch > 1)
    with pytest.raises(RuntimeError, match="OpenMP"):
        threads.run_team(0, 0, 2)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 3, 7])
def test_more_threads_than_processors_than_rows_or_than_vectors(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = make_layer()
    x = noise(batch, 6, layer.input_size)
    expected = gradients(layer, x)
    monkeypatch.setattr(threads, "count", lambda: 5)
    assert_all_close(gradients(layer, x), expected)


def test_small_kernels_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    parts: list[int] = []
    run = threads.run

    def recorded(address: int, table: int, count: int) -> None:
        parts.append(count)
        run(address, table, count)

    monkeypatch.setattr(threads, "run", recorded)
    layer = make_layer()
    layer(noise(4, 5, layer.input_size))
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    layer(noise(4, 5, layer.input_size))
    assert parts == [1, 2]


def test_the_number_of_threads_is_that_of_torch() -> None:
    torch.set_num_threads(2)
    assert threads.count() == 2
    torch.set_num_threads(1)
    assert threads.count() == 1
    assert not threads.can_team()


def test_a_forked_process_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "_main_process", -1)
    assert threads.count() == 1


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_mapped_rows_are_in_order(count: int, rows: int) -> None:
    torch.set_num_threads(count)
    assert threads.map_rows(lambda row: row * row, [row % 3 for row in range(rows)]) == [
        row * row for row in range(rows)
    ]


def test_the_longest_row_is_started_first() -> None:
    started: list[int] = []
    threads.map_rows(started.append, [3, 9, 0, 9, 5])
    assert started == [1, 3, 4, 0, 2]


def test_one_row_or_one_thread_starts_no_other_thread() -> None:
    names = [*threads.map_rows(lambda _: threading.current_thread(), [1] * 5)]
    torch.set_num_threads(2)
    names += threads.map_rows(lambda _: threading.current_thread(), [1])
    assert set(names) == {threading.main_thread()}


def test_rows_run_in_parallel() -> None:
    torch.set_num_threads(2)
    barrier = threading.Barrier(2, timeout=60)
    assert sorted(threads.map_rows(lambda _: barrier.wait(), [1, 1])) == [0, 1]  # a single thread would time out


def test_errors_in_rows_are_raised() -> None:
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        threads.map_rows(lambda row: 1 // (row - 3), [1] * 5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes_with_one_thread() -> None:
    """The threads of the parent do not exist in the child, which would wait for them forever."""
    program = """if True:
        import os, signal, torch, seqloom
        torch.set_num_threads(2)
        layer, x = seqloom.recurrent("lstm", 32, 32), torch.ones(64, 20, 32)
        expected = layer(x)[0]
        if child := os.fork():
            raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        signal.alarm(60)
        os._exit(0 if torch.allclose(layer(x)[0], expected, atol=1e-6) else 3)
    """
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
