"""A linker for one relocatable WebAssembly object file of LLVM: the module that a browser or Node loads.

The format is that of the tool conventions (https://github.com/WebAssembly/tool-conventions, Linking.md). Indices of
functions are final already, since nothing is imported but the memory. What remains: the memory becomes the module's
own, addresses of data are filled in, and functions are exported.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seqloom.export_check import ExportError

CUSTOM, TYPE, IMPORT, FUNCTION, MEMORY, GLOBAL, EXPORT, CODE, DATA = 0, 1, 2, 3, 5, 6, 7, 10, 11
DATA_COUNT = 12  # needed by instructions that are not used
PAGE = 65536
DATA_START = 1024
"""Address of the first data; a null pointer is none of them."""

FUNCTION_INDEX, ADDRESS_LEB, ADDRESS_SLEB, TYPE_INDEX = 0, 3, 4, 6
SYMBOL_TABLE = 8
UNDEFINED, EXPLICIT_NAME = 0x10, 0x40


def link(code: bytes, functions: Sequence[str]) -> bytes:
    """The module: it exports ``functions``, its ``memory``, and ``__heap_base``, the address after its data."""
    if code[:8] != b"\0asm\x01\0\0\0":
        raise ExportError("LLVM has not written a WebAssembly object file")
    sections = list(_sections(code))
    bodies = {kind: bytearray(body) for kind, _, body in sections if kind != CUSTOM}
    custom = {name: body for kind, name, body in sections if kind == CUSTOM}
    _check_imports(bytes(bodies.pop(IMPORT, b"\0")))
    bodies.pop(DATA_COUNT, None)
    symbols = _symbols(custom["linking"])
    segments = _segments(bytes(bodies.pop(DATA, b"\0")))
    heap = DATA_START
    starts = []
    for segment in segments:
        heap = -(-heap // 64) * 64
        starts.append(heap)
        heap += len(segment)
    heap = -(-heap // 64) * 64
    if "reloc.CODE" in custom:
        _relocate(bodies[CODE], custom["reloc.CODE"], symbols, starts)
    if any(name.startswith("reloc.DATA") for name in custom):
        raise ExportError("the WebAssembly object file has addresses in its data, which are not linked")
    indices = {symbol.name: symbol.index for symbol in symbols if symbol.kind == 0}
    exports = [(name, b"\0" + _leb(indices[name])) for name in functions]
    exports += [("memory", b"\x02\0"), ("__heap_base", b"\x03\0")]
    pages = -(-heap // PAGE)
    bodies[MEMORY] = bytearray(b"\x01\0" + _leb(pages))
    bodies[GLOBAL] = bytearray(b"\x01\x7f\0\x41" + _sleb(heap) + b"\x0b")
    bodies[EXPORT] = bytearray(_leb(len(exports)) + b"".join(_name(name) + kind for name, kind in exports))
    data = b"".join(
        b"\0\x41" + _sleb(start) + b"\x0b" + _leb(len(segment)) + segment
        for start, segment in zip(starts, segments, strict=True)
    )
    bodies[DATA] = bytearray(_leb(len(segments)) + data)
    order = (TYPE, FUNCTION, MEMORY, GLOBAL, EXPORT, CODE, DATA)
    if unknown := set(bodies) - set(order):
        raise ExportError(f"the WebAssembly object file has sections that are not linked: {sorted(unknown)}")
    parts = [bytes([kind]) + _leb(len(bodies[kind])) + bytes(bodies[kind]) for kind in order if kind in bodies]
    return code[:8] + b"".join(parts)


@dataclass(frozen=True)
class _Symbol:
    kind: int  # 0: a function, 1: data
    name: str
    index: int  # of the function, or of the segment of data
    offset: int = 0  # in the segment


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    @property
    def is_done(self) -> bool:
        return self.place >= len(self.data)

    def byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def number(self) -> int:
        """An unsigned LEB128 number."""
        return self._leb128()[0]

    def signed(self) -> int:
        """A signed LEB128 number: its highest bit is the sign."""
        result, bits = self._leb128()
        return result - (1 << bits) if result >> (bits - 1) else result

    def _leb128(self) -> tuple[int, int]:
        """The bits of a LEB128 number, seven in each byte, and how many there are."""
        result = bits = 0
        while True:
            byte = self.byte()
            result |= (byte & 127) << bits
            bits += 7
            if byte < 128:
                return result, bits

    def take(self, count: int) -> bytes:
        self.place += count
        return self.data[self.place - count : self.place]

    def text(self) -> str:
        return self.take(self.number()).decode()


def _sections(code: bytes) -> Iterator[tuple[int, str, bytes]]:
    """Kind, name of a custom section, and content."""
    reader = _Reader(code)
    reader.place = 8
    while not reader.is_done:
        kind = reader.byte()
        body = _Reader(reader.take(reader.number()))
        name = body.text() if kind == CUSTOM else ""
        yield kind, name, body.data[body.place :]


def _check_imports(body: bytes) -> None:
    reader = _Reader(body)
    for _ in range(reader.number()):
        module, name = reader.text(), reader.text()
        kind = reader.byte()
        if kind != 2 or name != "__linear_memory":
            raise ExportError(
                f"the WebAssembly object file imports {module}.{name}, which a module without a runtime lacks"
            )
        flags = reader.byte()
        reader.number()
        if flags & 1:
            reader.number()


def _symbols(body: bytes) -> list[_Symbol]:
    reader, symbols = _Reader(body), []
    reader.number()  # version
    while not reader.is_done:
        kind = reader.byte()
        part = _Reader(reader.take(reader.number()))
        if kind == SYMBOL_TABLE:
            symbols += [_symbol(part) for _ in range(part.number())]
    return symbols


def _symbol(reader: _Reader) -> _Symbol:
    kind, flags = reader.byte(), reader.number()
    if kind == 1:
        name = reader.text()
        if flags & UNDEFINED:
            raise ExportError(f"the WebAssembly object file needs {name}")
        index, offset = reader.number(), reader.number()
        reader.number()  # size
        return _Symbol(kind, name, index, offset)
    index = reader.number()
    has_name = kind != 3 and (not flags & UNDEFINED or flags & EXPLICIT_NAME)
    return _Symbol(kind, reader.text() if has_name else "", index)


def _segments(body: bytes) -> list[bytes]:
    """The content of each segment of data."""
    reader, segments = _Reader(body), []
    for _ in range(reader.number()):
        if reader.number() != 0 or reader.byte() != 0x41:  # active, at a constant offset
            raise ExportError("the WebAssembly object file has data that are not linked")
        reader.signed()
        reader.byte()
        segments.append(reader.take(reader.number()))
    return segments


def _relocate(code: bytearray, relocations: bytes, symbols: list[_Symbol], starts: list[int]) -> None:
    reader = _Reader(relocations)
    reader.number()  # section
    for _ in range(reader.number()):
        kind, place, index = reader.byte(), reader.number(), reader.number()
        if kind in (FUNCTION_INDEX, TYPE_INDEX):
            continue
        if kind not in (ADDRESS_LEB, ADDRESS_SLEB):
            raise ExportError(f"the WebAssembly object file has a relocation of kind {kind}, which is not linked")
        addend, symbol = reader.signed(), symbols[index]
        value = starts[symbol.index] + symbol.offset + addend
        code[place : place + 5] = _padded(value)


def _padded(value: int) -> bytes:
    """A non-negative number below 2³¹ as LEB128 of five bytes, signed or not."""
    return bytes([*((value >> shift) & 127 | 128 for shift in (0, 7, 14, 21)), (value >> 28) & 127])


def _leb(value: int) -> bytes:
    result = bytearray()
    while True:
        byte, value = value & 127, value >> 7
        result.append(byte | (128 if value else 0))
        if not value:
            return bytes(result)


def _sleb(value: int) -> bytes:
    result = bytearray()
    while True:
        byte, value = value & 127, value >> 7
        is_last = value == 0 and not byte & 64
        result.append(byte if is_last else byte | 128)
        if is_last:
            return bytes(result)


def _name(text: str) -> bytes:
    return _leb(len(text)) + text.encode()
