"""The parts of a model as a tree: what each of them is, its widths, its weights and its number of parameters."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor, nn

from seqloom import terminal

WIDTHS = (
    ("input_size", "output_size"),
    ("input_size", "hidden_size"),
    ("in_features", "out_features"),
    ("num_embeddings", "embedding_dim"),
    ("in_channels", "out_channels"),
)
"""Attributes that hold the widths of the input and the output of a module."""
CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
KINDS = {
    "EncoderDecoder": "encoder-decoder",
    "JointNGram": "joint n-gram model",
    "JointNGramDecoder": "lattice decoder",
    "NGramDecoder": "n-gram model",
    "Word2Vec": "word2vec",
}
"""Classes whose name is not written as its words."""
MAX_WEIGHTS = 3  # of a part that are listed in the terminal


@dataclass(frozen=True)
class ModelPart:
    """A part of a model and the parts it consists of."""

    name: str  # such as "forward layer"; several equal ones "layers 1 to 6"
    kind: str  # such as "LSTM"
    path: str  # in the module, such as "encoder.layer.layers.0"; empty: the model itself
    input_size: int  # width of what it reads; 0: not known
    output_size: int
    weights: dict[str, tuple[int, ...]]  # its own, without those of its parts
    tables: dict[str, tuple[int, ...]]  # numbers that are counted or fixed, not trained by gradients
    parameters: int  # its own and those of its parts, each counted once
    shared: int  # parameters that belong to an earlier part, such as tied embeddings; counted there
    frozen: int  # of ``parameters``, those that are not trained
    parts: tuple["ModelPart", ...] = ()
    count: int = 1  # equal parts that this one stands for

    @property
    def widths(self) -> str:
        """Such as ``64 → 128``; what it reads may be unknown, as in ``→ 128``."""
        if self.input_size and self.output_size:
            return f"{self.input_size:,} → {self.output_size:,}"
        return f"→ {self.output_size:,}" if self.output_size else ""

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "ModelPart"]]:
        """The part itself and all parts of it, each with its depth."""
        yield depth, self
        for part in self.parts:
            yield from part.walk(depth + 1)

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, numbers and strings."""
        return asdict(self)


def anatomy(model: nn.Module, *, name: str = "") -> ModelPart:
    """The tree of a model's parts. The parameters of the root are all parameters of the model."""
    root = _part(model, name or _words(type(model).__name__), "", seen=set())
    stored = {key: tuple(value.shape) for key, value in _stored(model).items()}
    return replace(root, tables={**root.tables, **stored}) if stored else root


def _part(module: nn.Module, name: str, path: str, *, seen: set[int]) -> ModelPart:
    own = dict(module.named_parameters(recurse=False))
    shared = [value for value in own.values() if id(value) in seen]
    new = [value for value in own.values() if id(value) not in seen]
    seen.update(map(id, own.values()))
    parts = tuple(_parts(module, path, seen=seen))
    kind = _kind(module)
    weights = {key: tuple(value.shape) for key, value in own.items()}
    saved = module.state_dict()
    tables = {
        key: tuple(value.shape)
        for key, value in module.named_buffers(recurse=False)
        if value.numel() > 1 and key in saved
    }
    input_size, output_size = _widths(module)
    cell = getattr(module, "cell", None)
    if isinstance(cell, nn.Module) and len(parts) == 1 and parts[0].path == f"{path}.cell".lstrip("."):
        # A recurrent layer is named after its cell, whose weights are shown as its own.
        only = parts[0]
        direction = " (backward)" if getattr(module, "reverse", False) else ""
        kind, parts, weights, tables = only.kind + direction, only.parts, {**weights, **only.weights}, only.tables
        inner = [only]
    else:
        inner = list(parts)
    return ModelPart(
        name=name,
        kind=kind,
        path=path,
        input_size=input_size,
        output_size=output_size,
        weights=weights,
        tables=tables,
        parameters=_count(new) + sum(part.parameters for part in inner),
        shared=_count(shared),
        frozen=_count([value for value in new if not value.requires_grad]) + sum(part.frozen for part in inner),
        parts=parts,
    )


def _parts(module: nn.Module, path: str, *, seen: set[int]) -> Iterator[ModelPart]:
    """The parts that matter: those with weights, tables or a shape; lists are opened, and identities omitted."""
    for key, child in module.named_children():
        place = f"{path}.{key}".lstrip(".")
        if type(child) in CONTAINERS:
            singular = key.removesuffix("s").replace("_", " ")
            for number, inner in enumerate(_parts(child, place, seen=seen), start=1):
                yield replace(inner, name=f"{singular} {number}")
            continue
        part = _part(child, key.replace("_", " "), place, seen=seen)
        if part.parameters or part.shared or part.tables or part.parts or getattr(child, "in_anatomy", False):
            yield part


def _stored(model: nn.Module) -> dict[str, Tensor]:
    """Tensors that a model saves although they are neither parameters nor buffers, such as counts of n-grams."""
    known = {key for key, _ in (*model.named_parameters(remove_duplicate=False), *model.named_buffers())}
    return {key: value for key, value in model.state_dict().items() if key not in known and isinstance(value, Tensor)}


def _count(values: Sequence[nn.Parameter]) -> int:
    return sum(value.numel() for value in values)


def _widths(module: nn.Module) -> tuple[int, int]:
    for before, after in WIDTHS:
        values = getattr(module, before, None), getattr(module, after, None)
        if all(isinstance(value, int) for value in values):
            return values  # type: ignore[return-value]
    size = getattr(module, "size", 0)
    return 0, size if isinstance(size, int) else 0


def _kind(module: nn.Module) -> str:
    connection = getattr(module, "connection", "plain")
    suffix = f" ({connection})" if isinstance(connection, str) and connection != "plain" else ""
    return _words(type(module).__name__) + suffix


def _words(name: str) -> str:
    """A class name as words: LuongAttention becomes "Luong attention", LSTM stays."""
    if name in KINDS:
        return KINDS[name]
    first, *others = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", name) or [name]
    return " ".join([first, *(word if word.isupper() else word.lower() for word in others)])


def merge_equal(part: ModelPart) -> ModelPart:
    """The same tree, in which parts that follow one another and have the same structure are one with a count."""
    merged: list[ModelPart] = []
    for inner in map(merge_equal, part.parts):
        if merged and re.search(r" \d+$", inner.name) and _structure(merged[-1]) == _structure(inner):
            last = merged[-1]
            merged[-1] = replace(
                last,
                count=last.count + 1,
                parameters=last.parameters + inner.parameters,
                frozen=last.frozen + inner.frozen,
            )
        else:
            merged.append(inner)
    return replace(part, parts=tuple(map(_named_range, merged)))


def _named_range(part: ModelPart) -> ModelPart:
    match = re.fullmatch(r"(.*) (\d+)", part.name)
    if part.count == 1 or not match:
        return part
    first = int(match[2])
    return replace(part, name=f"{match[1]}s {first} to {first + part.count - 1}")


def _structure(part: ModelPart) -> Any:
    inner = tuple((each.name, _structure(each)) for each in part.parts)
    each = part.parameters // part.count
    return part.kind, part.widths, tuple(part.weights.items()), each, part.shared, inner


def shape_text(shape: Sequence[int]) -> str:
    """Such as ``512 × 128``; a single number is ``1``."""
    return " × ".join(f"{size:,}" for size in shape) or "1"


def anatomy_rows(root: ModelPart) -> list[tuple[str, str, str, str, str]]:
    """Rows of a table: the part, indented by its depth, its widths, weights, parameters and share of all parameters."""
    rows = []
    for depth, prefix, part in _prefixed(merge_equal(root)):
        times = f" × {part.count}" if part.count > 1 else ""
        label = f"{part.name}: {part.kind}{times}" if depth else part.kind
        tensors = [f"{key} {shape_text(shape)}" for key, shape in {**part.weights, **part.tables}.items()]
        if len(tensors) > MAX_WEIGHTS:
            tensors = [*tensors[: MAX_WEIGHTS - 1], f"{len(tensors) - MAX_WEIGHTS + 1} more"]
        number = parameter_text(part)
        share = f"{part.parameters / root.parameters:.1%}" if root.parameters else ""
        rows.append((prefix + label, part.widths, ", ".join(tensors), number, share))
    return rows


def parameter_text(part: ModelPart) -> str:
    """The number of parameters; of equal parts, that of each and how many they are."""
    if part.count > 1:
        return f"{part.parameters // part.count:,} × {part.count}"
    return f"{part.parameters:,}" if part.parameters else "shared" if part.shared else "0"


def _prefixed(part: ModelPart, *, prefix: str = "", below: str = "", depth: int = 0) -> Iterator[Any]:
    yield depth, prefix, part
    for index, inner in enumerate(part.parts):
        last = index == len(part.parts) - 1
        here, after = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _prefixed(inner, prefix=below + here, below=below + after, depth=depth + 1)


def print_anatomy(root: ModelPart) -> None:
    """Print the tree as a table."""
    terminal.table(("part", "widths", "weights", "parameters", "share"), anatomy_rows(root))
    terminal.print_lines("", *anatomy_notes(root))


def anatomy_notes(root: ModelPart) -> list[str]:
    """The sum, and what is not trained, shared or counted."""
    shared = sum(part.shared for _, part in root.walk())
    tables = sum(_product(shape) for _, part in root.walk() for shape in part.tables.values())
    notes = [f"{root.parameters:,} parameters" + (f", {root.frozen:,} of them not trained" if root.frozen else "")]
    if shared:
        notes.append(f"{shared:,} more are shared: they are counted where they occur first")
    if tables:
        notes.append(f"{tables:,} numbers in tables that are counted or fixed, not trained by gradients")
    return notes


def _product(shape: Sequence[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
