import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import torch

from seqloom.kernels.runtime import buffers
from seqloom.kernels.runtime.buffers import MAX_FREE, allocate, borrow

LIKE = torch.empty(0, dtype=torch.float64)


@pytest.fixture(autouse=True)
def no_free_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_free", [])


def test_a_buffer_is_reused() -> None:
    with borrow(1000, LIKE) as first:
        address = first.data_ptr()
    with borrow(990, LIKE) as second:
        assert second.data_ptr() == address
        assert second.numel() >= 990


def test_borrowed_buffers_are_distinct() -> None:
    with ExitStack() as stack:
        borrowed = [stack.enter_context(borrow(100, LIKE)) for _ in range(5)]
        assert len({buffer.data_ptr() for buffer in borrowed}) == 5
    with ExitStack() as stack:
        again = [stack.enter_context(borrow(100, LIKE)) for _ in range(5)]
        assert {buffer.data_ptr() for buffer in again} == {buffer.data_ptr() for buffer in borrowed}


def test_threads_never_share_a_buffer() -> None:
    start = threading.Barrier(4)

    def use(number: int) -> bool:
        start.wait()
        intact = True
        for _ in range(200):
            with borrow(64, LIKE) as buffer:
                buffer.fill_(number)
                intact &= bool((buffer == number).all())
        return intact

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))


def test_a_buffer_from_inference_mode_can_be_used_in_training() -> None:
    with torch.inference_mode(), borrow(100, LIKE) as first:
        address = first.data_ptr()
    with borrow(100, LIKE) as again:
        assert again.data_ptr() == address
        again.fill_(1)  # raises RuntimeError for an inference tensor
    assert not again.is_inference()


def test_buffers_of_another_dtype_are_not_reused() -> None:
    with borrow(100, LIKE):
        pass
    with borrow(100, LIKE.float()) as actual:
        assert actual.dtype == torch.float32
        assert actual.numel() >= 100


def test_a_small_request_does_not_borrow_a_large_buffer() -> None:
    with borrow(1_000_000, LIKE):
        pass
    with borrow(100, LIKE) as small:
        assert small.numel() < 10_000


def test_the_number_of_buffers_is_bounded() -> None:
    with ExitStack() as stack:
        for _ in range(3 * MAX_FREE):
            stack.enter_context(borrow(10, LIKE))
    assert len(buffers._free) == MAX_FREE


def test_a_buffer_is_returned_after_an_error() -> None:
    with pytest.raises(RuntimeError), borrow(100, LIKE):
        raise RuntimeError
    assert len(buffers._free) == 1


def test_allocated_memory_has_the_requested_shape_in_huge_pages_too() -> None:
    large = allocate(LIKE, 3, buffers.HUGE_PAGE_MIN // 8)
    assert large.shape == (3, buffers.HUGE_PAGE_MIN // 8)
    assert large.fill_(1).sum() == large.numel()
    assert allocate(LIKE, 0, 5).shape == (0, 5)
