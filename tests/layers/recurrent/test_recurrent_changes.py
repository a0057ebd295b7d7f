"""Whatever a cell's step reads may change after the first call: the layer follows, or runs the loop and says why."""

import enum
import os
import random
import sys
import time
from collections.abc import Callable
from os import getenv
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.cells import Elman
from seqloom.layers.recurrent.recurrent import Recurrent

SCALE = 1.0
TABLE = {"scale": [1.0]}
SLOPE = SimpleNamespace(value=1.0)


def scaled(hidden: Tensor) -> Tensor:
    return hidden * SCALE


class Slotted:
    __slots__ = ("scale",)
    sign = 1

    def __init__(self) -> None:
        self.scale = 1.0


class Negated(Slotted):
    __slots__ = ()
    sign = -1


class Options:
    default = 1.0

    def __init__(self) -> None:
        self.scale = 1.0
        self.inner = SimpleNamespace(scale=1.0)

    @property
    def doubled(self) -> float:
        return 2 * self.scale

    def __mul__(self, hidden: Tensor) -> Tensor:
        return hidden * self.scale


class Scale(type):
    """A metaclass, whose attributes its classes have."""

    scale = 1.0


class OfMetaclass(metaclass=Scale):
    pass


class Choice(enum.Enum):
    TABLE = TABLE["scale"]


class Scaled(Elman):
    """An Elman cell whose output is scaled by something that ``read`` finds."""

    scale: ClassVar[float] = 1.0
    read: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__(3, 5)
        self._scale = 1.0
        self.options = Options()
        self.slotted = Slotted()
        self.numbers: Any = [{"scale": 1.0}]
        self.factor: Callable[[Tensor], Tensor] = lambda hidden: hidden * SLOPE.value
        self.count = 0

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        (hidden,), gates = super().step(projected, state)
        return self.State(self.read(hidden)), gates


SETTINGS: Any = ModuleType("tests.layers.recurrent.scale_settings")
sys.modules[SETTINGS.__name__] = SETTINGS


def import_scale(_: Any, hidden: Tensor) -> Tensor:
    import tests.layers.recurrent.scale_settings as settings  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return hidden * settings.scale  # type: ignore[no-any-return]


def import_relative(_: Any, hidden: Tensor) -> Tensor:
    from .scale_settings import scale  # noqa: TID252

    return hidden * scale  # type: ignore[no-any-return]


def hide_abs(_: Any) -> None:
    globals()["abs"] = lambda _: 3.0


def change_environment(_: Any) -> None:
    os.environ["SEQLOOM_TEST_SCALE"] = "3"


def closure() -> tuple[Callable[[Any, Tensor], Tensor], Callable[[Any], None]]:
    scale = 1.0

    def change(_: Any) -> None:
        nonlocal scale
        scale = 3.0

    return lambda _, hidden: hidden * scale, change


def change_scale(_: Any) -> None:
    global SCALE  # noqa: PLW0603
    SCALE = 3.0


FOLLOWED: dict[str, tuple[Callable[[Any, Tensor], Tensor], Callable[[Any], None]]] = {
    "class attribute": (lambda cell, h: h * cell.scale, lambda cell: setattr(type(cell), "scale", 3.0)),
    "class": (lambda cell, h: h * type(cell).scale, lambda cell: setattr(type(cell), "scale", 3.0)),
    "shadowed": (lambda cell, h: h * cell.scale, lambda cell: setattr(cell, "scale", 3.0)),
    "private": (lambda cell, h: h * cell._scale, lambda cell: setattr(cell, "_scale", 3.0)),
    "object": (lambda cell, h: h * cell.options.scale, lambda cell: setattr(cell.options, "scale", 3.0)),
    "replaced": (
        lambda cell, h: h * cell.options.scale,
        lambda cell: setattr(cell, "options", SimpleNamespace(scale=3.0)),
    ),
    "inner object": (
        lambda cell, h: h * cell.options.inner.scale,
        lambda cell: setattr(cell.options.inner, "scale", 3.0),
    ),
    "replaced dictionary": (
        lambda cell, h: h * cell.options.scale,
        lambda cell: setattr(cell.options, "__dict__", vars(cell.options) | {"scale": 3.0}),
    ),
    "class of a slotted object": (
        lambda cell, h: h * cell.slotted.sign * cell.slotted.scale,
        lambda cell: setattr(cell.slotted, "__class__", Negated),
    ),
    "property": (lambda cell, h: h * cell.options.doubled, lambda cell: setattr(cell.options, "scale", 3.0)),
    "operator": (lambda cell, h: cell.options * h, lambda cell: setattr(cell.options, "scale", 3.0)),
    "class of an object": (lambda cell, h: h * cell.options.default, lambda _: setattr(Options, "default", 3.0)),
    "slots": (lambda cell, h: h * cell.slotted.scale, lambda cell: setattr(cell.slotted, "scale", 3.0)),
    "container": (lambda cell, h: h * cell.numbers[0]["scale"], lambda cell: cell.numbers[0].update(scale=3.0)),
    "length": (lambda cell, h: h * len(cell.numbers), lambda cell: cell.numbers.append(0)),
    "getattr": (lambda cell, h: h * getattr(cell, "_scale"), lambda cell: setattr(cell, "_scale", 3.0)),  # noqa: B009
    "hasattr": (lambda cell, h: h * 3.0 if hasattr(cell, "more") else h, lambda cell: setattr(cell, "more", 1)),
    "global": (lambda _, h: h * SCALE, change_scale),
    "global in a function": (lambda _, h: scaled(h), change_scale),
    "global container": (lambda _, h: h * TABLE["scale"][0], lambda _: TABLE["scale"].__setitem__(0, 3.0)),
    "stored function": (lambda cell, h: cell.factor(h), lambda _: setattr(SLOPE, "value", 3.0)),
    "replaced function": (lambda cell, h: cell.factor(h), lambda cell: setattr(cell, "factor", torch.sigmoid)),
    "closure": closure(),
    "environment variable": (lambda _, h: h * float(os.environ["SEQLOOM_TEST_SCALE"]), change_environment),
    "getenv": (lambda _, h: h * float(getenv("SEQLOOM_TEST_SCALE", "1")), change_environment),
    "import": (import_scale, lambda _: setattr(SETTINGS, "scale", 3.0)),
    "metaclass": (lambda _, h: h * OfMetaclass.scale, lambda _: setattr(Scale, "scale", 3.0)),
    "new class attribute": (
        lambda _, h: h * getattr(OfMetaclass, "more", 1.0),
        lambda _: setattr(OfMetaclass, "more", 3.0),
    ),
    "value of an enumeration": (lambda _, h: h * Choice.TABLE.value[0], lambda _: TABLE["scale"].__setitem__(0, 3.0)),
    "built-in function that a global hides": (lambda _, h: h * abs(-1.0), hide_abs),
    "relative import": (import_relative, lambda _: setattr(SETTINGS, "scale", 3.0)),
}


@pytest.fixture(autouse=True)
def restore(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SEQLOOM_TEST_SCALE", "1")
    SETTINGS.scale = 1.0
    yield
    globals()["SCALE"] = TABLE["scale"][0] = SLOPE.value = Options.default = Scale.scale = 1.0
    globals().pop("abs", None)
    if hasattr(OfMetaclass, "more"):
        del OfMetaclass.more


def make(read: Callable[[Any, Tensor], Tensor]) -> tuple[Recurrent, Tensor]:
    torch.manual_seed(0)
    return Recurrent(type("Scaled", (Scaled,), {"read": read})()).double(), torch.randn(2, 4, 3).double()


def by_loop(layer: Recurrent, x: Tensor) -> Tensor:
    layer.fused = False
    out: Tensor = layer(x)[0]
    layer.fused = True
    return out


@pytest.mark.parametrize("case", FOLLOWED)
def test_changes_are_followed(case: str) -> None:
    read, change = FOLLOWED[case]
    layer, x = make(read)
    before = layer(x)[0]
    with torch.no_grad():
        for _ in range(3):  # prepares a call without gradients
            layer(x)
    assert layer.path == "fused"
    change(layer.cell)
    with torch.no_grad():
        inferred = layer(x)[0]
    after = layer(x)[0]
    assert layer.path == "fused"
    assert float((after - before).detach().abs().max()) > 0.1
    expected = by_loop(layer, x)
    torch.testing.assert_close(after, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(inferred, expected.detach(), rtol=0, atol=1e-12)


def count(cell: Any, hidden: Tensor) -> Tensor:
    cell.count += 1
    scaled: Tensor = hidden * cell.count
    return scaled


def count_in_class(cell: Any, hidden: Tensor) -> Tensor:
    type(cell).scale += 1
    scaled: Tensor = hidden * type(cell).scale
    return scaled


def count_in_container(cell: Any, hidden: Tensor) -> Tensor:
    cell.numbers.append(1)
    return hidden * len(cell.numbers)


def catch(_: Any, hidden: Tensor) -> Tensor:
    """A refusal of the compiler is no reason for another result."""
    try:
        return hidden.sort(dim=-1).values
    except Exception:  # noqa: BLE001
        return hidden * 3


def read_file() -> str:
    with open(__file__) as file:  # noqa: PTH123  which a user may write
        return file.read()


def read_array(cell: Any, hidden: Tensor) -> Tensor:
    return hidden * float(cell.table[0])


LOOPED: dict[Callable[[Any, Tensor], Tensor], str] = {
    count: "step changes Scaled.count",
    count_in_class: "step changes Scaled",
    count_in_container: "step changes Scaled.numbers",
    read_array: "step can read Scaled.table, a ndarray, whose changes cannot be noticed",
    lambda _, hidden: hidden if random.random() < 0.9 else -hidden: "the time or random numbers by random",  # noqa: S311
    lambda cell, hidden: hidden * (cell.generator.random() < 2): "step can read Scaled.generator, a Random",
    lambda _, hidden: hidden * (np.random.rand() < 2): "step can read random numbers by np",  # noqa: NPY002
    lambda _, hidden: hidden * (1 + int(time.time()) // 10**9): "the time or random numbers by time",
    lambda _, hidden: hidden * len(os.getcwd()): "the state of the system by os",  # noqa: PTH109
    lambda cell, hidden: hidden * len(cell.file.read_text()): "step can read Scaled.file, a ",
    lambda _, hidden: hidden * len(read_file()): "anything by open",
    lambda _, hidden: hidden * globals()["SC" + "ALE"]: "anything by globals",
    lambda _, hidden: hidden * 2 if torch.is_grad_enabled() else hidden: "the settings of torch by is_grad_enabled",
    lambda _, hidden: hidden / torch.get_num_threads(): "the settings of torch by get_num_threads",
    catch: "torch.Tensor.sort is not supported",
    lambda _, hidden: hidden / len(hidden): "depends on the size of the batch",
    lambda _, hidden: hidden.float().double(): "computes in float32, the cell in float64",
    lambda _, hidden: hidden.half().double(): "computes in float16, the cell in float64",
    lambda _, hidden: hidden * hidden.sum(dim=-1, keepdim=True, dtype=torch.float32): "computes in float32",
    lambda _, hidden: hidden * (hidden.tolist()[0][0] > 0): "step calls Tensor.tolist",
    lambda _, hidden: hidden * float(hidden.detach().numpy()[0, 0] > 0): "step calls Tensor.numpy",
    lambda _, hidden: hidden * 2 if hidden.requires_grad else hidden: "step calls Tensor.requires_grad",
}


@pytest.mark.parametrize("read", LOOPED)
def test_what_cannot_be_followed_runs_in_the_loop_and_says_why(read: Callable[[Any, Tensor], Tensor]) -> None:
    layer, x = make(read)
    cell: Any = layer.cell
    cell.table, cell.generator, cell.file = np.ones(3), random.Random(1), Path(__file__)  # noqa: S311  no secret
    with pytest.warns(UserWarning, match=LOOPED[read]):
        layer(x)
    assert LOOPED[read] in layer.path
    layer(x)  # does not warn again
    cell.count, cell.numbers, type(cell).scale = 0, [], 1.0
    random.seed(1)
    actual = layer(x)[0]
    cell.count, cell.numbers, type(cell).scale = 0, [], 1.0
    random.seed(1)
    assert torch.equal(actual, by_loop(layer, x))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_a_function_of_torchscript_runs_in_the_loop() -> None:
    scripted = torch.jit.script(torch.nn.Tanh())
    layer, x = make(lambda _, hidden: scripted(hidden))
    with pytest.warns(UserWarning, match="step calls a function of TorchScript"):
        actual = layer(x)[0]
    torch.testing.assert_close(actual, by_loop(layer, x), rtol=0, atol=0)


def test_a_change_back_uses_the_first_kernel_again() -> None:
    layer, x = make(lambda cell, hidden: hidden * cell.options.scale)
    options: Any = layer.cell.options
    first = layer.kernel(x)
    options.scale = 2.0
    assert layer.kernel(x) is not first
    options.scale = float("1.0")  # another object of the same value
    assert layer.kernel(x) is first
    layer.eval()
    assert layer.kernel(x) is not first
    layer.train()
    assert layer.kernel(x) is first


def test_an_equal_object_is_watched_from_then_on() -> None:
    layer, x = make(lambda cell, hidden: hidden * cell.options.scale)
    cell: Any = layer.cell
    layer(x)
    cell.options = Options()
    layer(x)
    cell.options.scale = 3.0
    torch.testing.assert_close(layer(x)[0], by_loop(layer, x))
