"""Objects of LLVM's made images (images.py), which need no linker.

In: object files, ELF for x86-64 with small, position-independent code. The sections of one are laid out side by
side, and what refers to places within them is resolved; calls and addresses of what is elsewhere go through a
table. Other objects have no image: LLVM links them (engine.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .images import PAGE, WORD, pack

# Of ELF, what is needed of it.
_HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_RELOCATABLE, _X86_64 = 1, 62
_BITS, _SYMBOLS, _RELOCATIONS, _NOTHING, _UNWINDING = 1, 2, 4, 8, 0x70000001
_WRITABLE, _ALLOCATED, _EXECUTABLE, _OF_THREADS = 1, 2, 4, 0x400
_UNDEFINED, _FIRST_RESERVED = 0, 0xFF00
_GLOBAL = 1
_ABSOLUTE, _NEAR, _TABLE, _CALL, _FAR = (1,), (2,), (9, 41, 42), (4,), (24,)  # kinds of relocations
_JUMP = b"\xff\x25"  # jmp *[rip + offset]


class _Unsupported(Exception):
    """An object has something that images have not."""


@dataclass
class _Section:
    kind: int
    flags: int
    content: bytes
    size: int
    link: int
    info: int
    alignment: int
    name: str
    place: int = -1  # in the image, if it is there


@dataclass
class _Symbol:
    name: str
    binding: int
    section: int
    value: int


@dataclass
class _Layout:
    """An image in the making: its bytes, and which words are addresses."""

    content: bytearray = field(default_factory=bytearray)
    own: list[tuple[int, int]] = field(default_factory=list)  # words that hold an address within the image
    imports: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # or one beyond a symbol's
    words: dict[Any, int] = field(default_factory=dict)  # the table of addresses
    stubs: dict[str, int] = field(default_factory=dict)  # jumps to what is elsewhere

    def align(self, alignment: int) -> int:
        self.content.extend(bytes(-len(self.content) % max(alignment, 1)))
        return len(self.content)


def image_of(code: bytes) -> bytes | None:
    """The image of an object file; None if it is of another kind, or has what images have not."""
    try:
        sections, symbols = _read(code)
        return _made(sections, symbols)
    except _Unsupported:
        return None


def _read(code: bytes) -> tuple[list[_Section], list[_Symbol]]:
    if len(code) < _HEADER.size or not code.startswith(b"\x7fELF\x02\x01"):
        raise _Unsupported
    _, _, _, _, _, kind, machine, _, _, _, at, _, _, _, _, _, count, names = _HEADER.unpack_from(code)
    if (kind, machine) != (_RELOCATABLE, _X86_64):
        raise _Unsupported
    rows = [_SECTION.unpack_from(code, at + i * _SECTION.size) for i in range(count)]
    texts = rows[names][4]
    sections = [
        _Section(
            kind,
            flags,
            b"" if kind == _NOTHING else code[offset : offset + size],
            size,
            link,
            info,
            alignment,
            _text(code, texts + name),
        )
        for name, kind, flags, _, offset, size, link, info, alignment, _ in rows
    ]
    symbols = [
        _Symbol(_text(sections[table.link].content, name), info >> 4, section, value)
        for table in sections
        if table.kind == _SYMBOLS
        for name, info, _, section, value, _ in _SYMBOL.iter_unpack(table.content)
    ]
    return sections, symbols


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode()


def _made(sections: list[_Section], symbols: list[_Symbol]) -> bytes:
    if any(s.section >= _FIRST_RESERVED and s.binding == _GLOBAL for s in symbols):
        raise _Unsupported
    layout = _Layout()
    there = [s for s in sections if s.flags & _ALLOCATED and s.kind != _UNWINDING and s.name != ".eh_frame"]
    if any(s.flags & _OF_THREADS or s.kind not in (_BITS, _NOTHING) for s in there):
        raise _Unsupported
    data = [s for s in there if s.flags & _WRITABLE and not s.name.startswith(".data.rel.ro")]
    fixed = [s for s in there if s not in data]
    for section in sorted(fixed, key=lambda s: not s.flags & _EXECUTABLE):
        _place(section, layout)
    pending = [
        (section, *_RELOCATION.unpack_from(table.content, at))
        for table in sections
        if table.kind == _RELOCATIONS and (section := sections[table.info]) in there
        for at in range(0, table.size, _RELOCATION.size)
    ]
    _make_room(pending, symbols, layout)
    read_only = len(layout.content)
    if data:
        layout.align(PAGE)
        for section in sorted(data, key=lambda s: s.kind == _NOTHING):
            _place(section, layout)
    for section, offset, kind, symbol, addend in pending:
        _relocate(layout, section.place + offset, kind, symbols[symbol], addend, sections)
    exports = {
        s.name: sections[s.section].place + s.value
        for s in symbols
        if s.binding == _GLOBAL and _UNDEFINED < s.section < _FIRST_RESERVED
    }
    return pack(bytes(layout.content), read_only, layout.own, layout.imports, exports)


def _place(section: _Section, layout: _Layout) -> None:
    if section.alignment > PAGE:
        raise _Unsupported
    section.place = layout.align(section.alignment)
    layout.content.extend(section.content.ljust(section.size, b"\0"))


def _make_room(pending: Sequence[Any], symbols: list[_Symbol], layout: _Layout) -> None:
    """Stubs for calls of what is elsewhere, and a table of the addresses that code looks up."""
    tabled = dict.fromkeys(symbol for _, _, kind, symbol, _ in pending if kind in _TABLE)
    called = [symbol for _, _, kind, symbol, _ in pending if kind in _CALL]
    outside = dict.fromkeys(symbol for symbol in called if symbols[symbol].section == _UNDEFINED)
    for symbol in outside:
        layout.stubs[symbols[symbol].name] = layout.align(WORD)
        layout.content.extend(bytes(WORD))
    layout.align(WORD)
    for symbol in tabled | outside:
        layout.words[symbols[symbol].name, symbols[symbol].section, symbols[symbol].value] = len(
            layout.content
        )
        layout.content.extend(bytes(WORD))
    for symbol in outside:
        stub, word = layout.stubs[symbols[symbol].name], layout.words[symbols[symbol].name, _UNDEFINED, 0]
        layout.content[stub : stub + 6] = _JUMP + struct.pack("<i", word - stub - 6)


def _relocate(
    layout: _Layout, place: int, kind: int, symbol: _Symbol, addend: int, sections: list[_Section]
) -> None:
    if symbol.section >= _FIRST_RESERVED:
        raise _Unsupported
    elsewhere = symbol.section == _UNDEFINED
    if elsewhere and symbol.binding != _GLOBAL:
        raise _Unsupported
    if not elsewhere and sections[symbol.section].place < 0:
        raise _Unsupported
    target = None if elsewhere else sections[symbol.section].place + symbol.value
    if kind in _TABLE:
        word = layout.words[symbol.name, symbol.section, symbol.value]
        _fill_in(layout, word, target, symbol, 0)
        target = word
    elif kind in _CALL and elsewhere:
        target = layout.stubs[symbol.name]
        _fill_in(layout, layout.words[symbol.name, _UNDEFINED, 0], None, symbol, 0)
    elif kind in _ABSOLUTE:
        _fill_in(layout, place, target, symbol, addend)
        return
    if target is None or kind not in (*_TABLE, *_CALL, *_NEAR, *_FAR):
        raise _Unsupported
    struct.pack_into("<q" if kind in _FAR else "<i", layout.content, place, target + addend - place)


def _fill_in(layout: _Layout, word: int, target: int | None, symbol: _Symbol, addend: int) -> None:
    """Have a word hold an address once that is known."""
    if target is not None:
        found = (word, target + addend)
        if found not in layout.own:
            layout.own.append(found)
    else:
        places = layout.imports.setdefault(symbol.name, [])
        if (word, addend) not in places:
            places.append((word, addend))
