"""What a step can read besides tensors, recorded so that a compiled kernel is never used after it has changed.

Starting from a module and its functions, the record follows names: every name in the code of a reachable function,
looked up in every reachable object (attributes, class attributes, globals, closures, containers, imported modules,
environment variables). This finds more than a step reads and misses only what has no name in Python code. Each call of
the kernel compares identities.
"""

import dis
import enum
import functools
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import chain, islice, repeat
from operator import attrgetter, call, is_, itemgetter
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from seqloom.kernels.runtime.identities import Comparison, Identities, compare_none, compare_size, compare_values

MAX_READS = 2000
"""Objects that a step may reach; beyond, comparing them at every call would cost more than the kernel saves."""

LEAVES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    np.generic,
    Tensor,
    types.BuiltinFunctionType,
    types.CodeType,
    type(Ellipsis),
    type(NotImplemented),
)
TRUSTED = frozenset({"torch", "numpy", "numba", "llvmlite", *sys.stdlib_module_names}) - {"abc", "types"}
"""Packages whose functions, classes and modules are taken as constant; so is Seqloom, except for its cells.
A class that is made by a call of ``type`` may name ``abc`` or ``types`` as its module."""

VOLATILE = {
    **dict.fromkeys(("time", "datetime", "random", "secrets", "uuid"), "the time or random numbers"),
    **dict.fromkeys(("io", "pathlib", "shutil", "tempfile", "subprocess", "socket", "urllib"), "files or processes"),
}
"""Packages of the standard library whose functions give something else at each call, and what they read."""

SETTINGS = frozenset(
    {
        *("is_grad_enabled", "is_inference_mode_enabled", "is_inference", "is_autocast_enabled", "get_autocast_dtype"),
        *("get_default_dtype", "get_default_device", "get_num_threads", "get_num_interop_threads"),
        *("initial_seed", "get_rng_state", "are_deterministic_algorithms_enabled"),
    }
)
"""Functions of torch that read its settings."""

DYNAMIC = frozenset({"globals", "eval", "exec", "open", "input", "__import__"})
"""Built-in functions that read what has no name in the code."""

ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})
"""Names by which Python code reads environment variables."""
_NOT_IMPORTED = iter(())  # stands for a module that is not imported yet: nothing in it can be compared
_MODULE_FIELDS = frozenset(vars(nn.Module())) - {"training"}
_TABLES = ("_modules", "_parameters", "_buffers")
_CONSTRUCTORS = frozenset({"__init__", "__new__", "__init_subclass__"})


class _Read(NamedTuple):
    """Values that are compared at each call: ``get(target)`` returns them."""

    get: Callable[[Any], Iterable[object]]  # of the standard library, written in C: it runs at each call
    target: Any
    names: tuple[str, ...]  # of the values, as a person reads them
    sized: tuple[Sized, ...] = ()  # containers that must keep their length
    tensors: tuple[dict[str, Tensor | None], ...] = ()  # tables in which the same tensors must be None
    cls: type | None = None  # whose attributes these are
    followed: int | None = None  # number of values to follow; the others have reads of their own


class Guards:
    """The values that a module's step can read, besides its parameters, and whether they are still the same."""

    def __init__(self, module: nn.Module, name: str) -> None:
        self.opaque: str | None = None
        """What the step can read although its changes cannot be noticed; None if there is no such thing."""
        self._reads = list(self._record(module, name))
        # Flat, so that ``matches`` compares everything in a few loops that run in C.
        self._gets = [read.get for read in self._reads]
        self._targets = [read.target for read in self._reads]
        self._sized = [container for read in self._reads for container in read.sized]
        self._tensors = [table for read in self._reads for table in read.tensors]
        self._values = tuple(self._current())
        self._lengths = list(map(len, self._sized))
        self._missing = _missing(self._tensors)
        self._identities = _identities(self._reads)

    def matches(self) -> bool:
        """Whether nothing has changed."""
        if self._identities is not None and self._identities.same():
            return True
        if list(map(len, self._sized)) != self._lengths or _missing(self._tensors) != self._missing:
            return False
        try:
            if all(map(is_, self._current(), self._values)):
                return True
            current = tuple(self._current())
        except (LookupError, AttributeError, ValueError):  # deleted
            return False
        if not all(map(_same, current, self._values)):
            return False
        self._values = current
        self._identities = _identities(self._reads)
        return True

    @property
    def comparisons(self) -> tuple[Comparison, ...] | None:
        """What compiled code compares; None if there is something that only Python can compare."""
        return None if self._identities is None else self._identities.comparisons

    def changed(self) -> str | None:
        """The name of the first value that has changed; None if there is none."""
        earlier = iter(self._values)
        lengths = iter(self._lengths)
        missing = iter(self._missing)
        for read in self._reads:
            if [len(container) for container in read.sized] != [next(lengths) for _ in read.sized]:
                return read.names[-1]
            if any(flag is not next(missing) for flag in _missing(read.tensors)):
                return read.names[-1]
            try:
                for current, name in zip(read.get(read.target), _padded(read), strict=False):
                    if not _same(current, next(earlier)):
                        return name
            except (LookupError, AttributeError, ValueError):
                return read.names[0]
        return None

    def _current(self) -> Iterator[object]:
        return chain.from_iterable(map(call, self._gets, self._targets))

    def _record(self, module: nn.Module, name: str) -> Iterator[_Read]:
        """Follow names until no further object and no further name is found."""
        objects: dict[int, tuple[object, str]] = {id(module): (module, name)}
        names = {"step", "project", "input", "forward", "State", "gates"}
        size = (0, 0)
        while size != (len(objects), len(names)):
            size = len(objects), len(names)
            for value, path in list(objects.values()):
                if isinstance(value, types.FunctionType):
                    names |= _names(value.__code__)[1]
                for child, child_path in _children(value, path, names):
                    if not _is_leaf(child):
                        objects.setdefault(id(child), (child, child_path))
            if len(objects) > MAX_READS:
                self.opaque = f"more than {MAX_READS} objects"
                return
        classes: set[type] = set()
        for value, path in objects.values():
            if isinstance(value, types.FunctionType) and (volatile := _volatile(value)):
                self.opaque = volatile
            if value is _NOT_IMPORTED:
                self.opaque = f"{path}, which it imports"
            elif _is_opaque(value):
                self.opaque = f"{path}, a {type(value).__qualname__}"
            for read in _reads(value, path, names):
                if read.cls is None:
                    yield read
                elif read.cls not in classes:
                    classes.add(read.cls)
                    yield read


def _identities(reads: Iterable[_Read]) -> Identities | None:
    """What the reads return now, to be compared by compiled code; None if it cannot compare one of them."""
    comparisons: list[Comparison] = []
    for read in reads:
        values = compare_values(read.get, read.target)
        if values is None:
            return None
        comparisons += [*values, *map(compare_size, read.sized)]
        comparisons += [compare_none(table, key) for table in read.tensors for key in table]
    return Identities(comparisons)


def _missing(tables: Iterable[dict[str, Tensor | None]]) -> list[bool]:
    """Which of the tensors in these tables are None."""
    return list(map(is_, chain.from_iterable(map(dict.values, tables)), repeat(None)))


def _same(one: object, other: object) -> bool:
    """Whether two values are the same object, or equal constants of one type."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool | int | float | complex | str | bytes):
        return repr(one) == repr(other)  # 0.0 is not -0.0 here
    return False


def _volatile(function: types.FunctionType) -> str | None:
    """What a function reads by built-in functions and trusted packages that is no constant; None if nothing."""
    variables, attributes = _names(function.__code__)
    if settings := (variables | attributes) & SETTINGS:
        return f"the settings of torch by {min(settings)}"
    if dynamic := (variables & DYNAMIC) - function.__globals__.keys():
        return f"anything by {min(dynamic)}"
    imported = [(name, name) for name, level in _imports(function.__code__) if not level]
    for name in variables & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            imported.append((name, value.__name__))
        elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.MethodType):
            owner = getattr(value, "__self__", None)  # a function of the module random is a method
            imported.append((name, str(getattr(value, "__module__", None) or type(owner).__module__)))
    for name, module in imported:
        package = module.partition(".")[0]
        if package in VOLATILE:
            return f"{VOLATILE[package]} by {name}"
        if module.startswith("numpy.random") or (package == "numpy" and "random" in attributes):
            return f"random numbers by {name}"
        if package in ("os", "posix", "nt") and not (variables | attributes) & ENVIRONMENT:
            return f"the state of the system by {name}"
    return None


def _is_trusted(module: object) -> bool:
    if not isinstance(module, str):
        return False
    package, _, rest = module.partition(".")
    return package in TRUSTED or (package == "seqloom" and not rest.startswith("cells"))


def _is_leaf(value: object) -> bool:
    """Whether nothing inside the value can change, or its changes do not matter."""
    if isinstance(value, nn.Module):
        return False
    if isinstance(value, enum.Enum):
        return _is_leaf(value.value)
    if isinstance(value, LEAVES) or type(value).__module__.partition(".")[0] == "torch":
        return True
    if isinstance(value, types.ModuleType):
        return _is_trusted(value.__name__)
    if isinstance(value, type | types.FunctionType):
        return _is_trusted(value.__module__)
    return False


def _is_opaque(value: object) -> bool:
    """Whether the value may hold something that changes and that cannot be compared."""
    if isinstance(value, tuple | frozenset | list | dict | set | type | functools.partial | types.CellType):
        return False
    if type(value).__module__.partition(".")[0] in VOLATILE:
        return True
    if _functions(value) or hasattr(value, "__dict__") or _slots(value):
        return False
    return not hasattr(value, "__get__")  # descriptors of a class


def _functions(value: object) -> tuple[Any, ...]:
    """The functions inside a function, a method or a descriptor."""
    if isinstance(value, types.FunctionType):
        return (value,)
    if isinstance(value, types.MethodType | staticmethod | classmethod):
        return (value.__func__,)
    if isinstance(value, property):
        return tuple(function for function in (value.fget, value.fset) if function is not None)
    if isinstance(value, functools.cached_property):
        return (value.func,)
    return ()


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names of globals in a function's code; those of attributes, and texts that may be such names."""
    variables, attributes = set(), set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            variables.add(instruction.argval)
        elif instruction.opcode in dis.hasname:
            attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            attributes.add(constant)
        elif isinstance(constant, types.CodeType):
            inner = _names(constant)
            variables |= inner[0]
            attributes |= inner[1]
    return frozenset(variables), frozenset(attributes)


@functools.lru_cache(maxsize=1024)
def _imports(code: types.CodeType) -> frozenset[tuple[str, int]]:
    """The modules that a function's code imports, as written, with the number of leading dots."""
    modules: set[tuple[str, int]] = set()
    instructions = list(dis.get_instructions(code))
    for index, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            modules.add((instruction.argval, instructions[index - 2].argval))  # before it: the dots, and what is taken
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            modules |= _imports(constant)
    return frozenset(modules)


def _slots(value: object) -> tuple[str, ...]:
    """The attributes of a value that are not in its ``__dict__`` and that are set."""
    names: list[str] = []
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in names if name not in ("__dict__", "__weakref__") and hasattr(value, name))


def _reads(value: object, path: str, names: set[str]) -> Iterator[_Read]:
    """The values to compare in one object and in its class."""
    if isinstance(value, type):
        yield from _class_reads(value, names)
        yield from _class_reads(type(value), names)
    elif isinstance(value, types.ModuleType):
        yield from _field_reads(vars(value), names & vars(value).keys(), path)
    elif isinstance(value, types.FunctionType):
        yield from _function_reads(value)
    elif isinstance(value, nn.Module):
        yield from _module_reads(value, path)
        yield from _class_reads(type(value), names)
    elif not _functions(value):
        if isinstance(value, list | set):
            yield _Read(tuple, value, (path,), (value,))
        elif isinstance(value, dict):
            yield _Read(tuple, value, (path,), (value,))
            yield _Read(dict.values, value, (path,), (value,))
        if slots := _slots(value):
            yield _attribute_read(value, slots, path)
        if hasattr(value, "__dict__"):
            yield _attribute_read(value, ("__dict__",), path)._replace(followed=0)
            yield from _field_reads(vars(value), vars(value).keys(), path)
        if not _is_trusted(type(value).__module__):
            yield _attribute_read(value, ("__class__",), path)._replace(followed=0)
            yield from _class_reads(type(value), names)


def _field_reads(fields: Any, names: Iterable[str], path: str) -> Iterator[_Read]:
    """Some entries of the dictionary of an object, a class or a Python module, and the number of all entries."""
    if keys := tuple(names):
        yield _Read(itemgetter(*_at_least_two(keys)), fields, _paths(path, keys), (fields,))
    else:
        yield _Read(tuple, (), (path,), (fields,))


def _attribute_read(value: object, names: tuple[str, ...], path: str) -> _Read:
    return _Read(attrgetter(*_at_least_two(names)), value, _paths(path, names))


def _at_least_two(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, a single one twice: ``itemgetter`` and ``attrgetter`` return a tuple only of several values."""
    return names if len(names) > 1 else names * 2


def _paths(path: str, keys: Iterable[str]) -> tuple[str, ...]:
    return (*[f"{path}.{key}" for key in keys], path)


def _module_reads(module: nn.Module, path: str) -> Iterator[_Read]:
    """Attributes and children; of parameters and buffers only which of them are None."""
    fields = vars(module)
    children, parameters, buffers = (fields[name] for name in _TABLES)
    yield _attribute_read(module, ("__class__", "__dict__"), path)._replace(followed=0)
    names = tuple(fields.keys() - _MODULE_FIELDS)
    yield _Read(
        itemgetter(*names, *_TABLES),
        fields,
        _paths(path, names),
        sized=(fields, children, parameters, buffers),
        tensors=tuple(table for table in (parameters, buffers) if table),
        followed=len(names),
    )
    if children:
        yield _Read(dict.values, children, _paths(path, children))


def _function_reads(function: types.FunctionType) -> Iterator[_Read]:
    """Code, defaults, globals and closure."""
    yield _attribute_read(function, ("__code__", "__defaults__", "__kwdefaults__"), function.__name__)
    variables = tuple(_names(function.__code__)[0] & function.__globals__.keys())
    if variables:
        get = itemgetter(*_at_least_two(variables))
        yield _Read(get, function.__globals__, _paths(function.__module__, variables))
    builtin = tuple(_names(function.__code__)[0] - function.__globals__.keys())
    if builtin and not function.__module__.startswith("seqloom."):  # a global may hide them later
        yield _Read(functools.partial(map, function.__globals__.get), builtin, _paths(function.__module__, builtin))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__" and _contents(cell):
            yield _Read(attrgetter("cell_contents", "cell_contents"), cell, (name,))


def _class_reads(cls: type, names: set[str]) -> Iterator[_Read]:
    for base in cls.__mro__:
        if not _is_trusted(base.__module__):
            keys = [name for name, value in vars(base).items() if name in names or _is_operator(name, value)]
            for read in _field_reads(vars(base), keys, base.__name__):
                yield read._replace(cls=base)


def _is_operator(name: str, value: object) -> bool:
    """Whether Python itself looks up a method (``__getitem__``, ``__mul__`` …)."""
    return name.startswith("__") and name not in _CONSTRUCTORS and isinstance(value, types.FunctionType)


def _contents(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # not set yet
        return False


def _children(value: object, path: str, names: set[str]) -> Iterator[tuple[object, str]]:
    """The values inside one object that a step can reach, with their names."""
    if isinstance(value, tuple | frozenset):
        yield from ((element, path) for element in value)
    if isinstance(value, functools.partial):
        yield from ((element, path) for element in (value.func, value.args, value.keywords))
    if isinstance(value, types.MethodType):
        yield value.__self__, path
    if isinstance(value, enum.Enum):
        yield value.value, path
    yield from ((function, path) for function in _functions(value) if function is not value)
    if isinstance(value, types.FunctionType):
        yield from _surroundings(value)
    # The code of torch's modules is not searched for names.
    everything = isinstance(value, list | dict | set | types.FunctionType) or (
        isinstance(value, nn.Module) and _is_trusted(type(value).__module__)
    )
    for read in _reads(value, path, names):
        for child, child_path in zip(islice(read.get(read.target), read.followed), _padded(read), strict=False):
            if everything or isinstance(child, nn.Module | type) or _named(child, child_path, names):
                yield child, child_path


def _surroundings(function: types.FunctionType) -> Iterator[tuple[object, str]]:
    """The modules that a function imports while it runs, and the environment variables if it reads them."""
    variables, attributes = _names(function.__code__)
    if (variables | attributes) & ENVIRONMENT:
        yield vars(os.environ)["_data"], "os.environ"
    for name, level in _imports(function.__code__):
        package = str(function.__globals__.get("__package__") or "")
        module = importlib.util.resolve_name("." * level + name, package) if level and package else name
        if not _is_trusted(module):
            yield sys.modules.get(module, _NOT_IMPORTED), module


def _named(value: object, path: str, names: set[str]) -> bool:
    name = path.rpartition(".")[2]
    return name in names or _is_operator(name, value)


def _padded(read: _Read) -> Iterator[str]:
    """The names of the values of a read; those of a container are all called alike."""
    return chain(read.names, repeat(read.names[-1]))
