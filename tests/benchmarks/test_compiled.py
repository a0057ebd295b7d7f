"""The benchmark of compiled models compares answers that are equal."""

import numpy as np
import torch

from benchmarks import compiled
from seqloom.kernels.llvm.target import native

SHAPE = compiled.Shape("gru", 7, 3, 5)


def test_all_calls_give_the_same_answer() -> None:
    model = compiled.build(SHAPE)
    values = np.random.default_rng(1).standard_normal((SHAPE.time, SHAPE.size))
    ours: object = compiled.seqloom_call(model, values)()
    assert isinstance(ours, torch.Tensor)
    (peer,) = compiled.onnx_call(model, SHAPE, values)[0]()
    call, size = compiled.compiled_call(model, SHAPE, values, native())
    error, (_, _, answer) = call()
    assert error == 0
    assert size > 0
    for other in (peer, answer):
        np.testing.assert_allclose(np.ravel(other), ours.numpy().ravel(), atol=1e-6)
