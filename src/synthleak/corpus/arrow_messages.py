"""How much an Arrow file unpacks to, read from the messages that it is made of.

Buffers of a batch may be packed inside the file, and Arrow unpacks a whole batch at once: a file of
30 kB may hold gigabytes. Each packed buffer begins with its size, which is what Arrow allocates.
The tables that name the buffers are FlatBuffers (https://arrow.apache.org/docs/format/Columnar.html).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any

_MAGIC = b"ARROW1"
_HEADER_TYPE, _HEADER = 1, 2  # fields of a message
_SCHEMA, _DICTIONARY = 1, 2  # types of a header
_DATA = 1  # field of a dictionary: its batch
_BUFFERS, _COMPRESSION = 2, 3  # fields of a batch
_DICTIONARIES, _BATCHES = 2, 3  # fields of a footer
_BLOCK = 24
_BUFFER = 16


class NotArrow(ValueError):  # noqa: N818 - reads as what it is
    """The file is not made of Arrow's messages."""


def unpacked_bytes(file: IO[bytes], most: int) -> int:
    """Return how many bytes the batches of an Arrow file have unpacked, or a number above `most`.

    Nothing is unpacked, and nothing is read after there are too many.
    """
    import pyarrow as pa

    total = 0
    try:
        for message in _messages(file):
            total += _unpacked(message)
            if total > most:
                break
    except (struct.error, pa.ArrowException):
        raise NotArrow from None
    return total


def _messages(file: IO[bytes]) -> Iterator[Any]:
    """Yield the messages of a stream, or those that the footer of a file names."""
    import pyarrow as pa

    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        file.seek(0)
        yield from pa.ipc.MessageReader.open_stream(file)
        return
    end = file.seek(-4 - len(_MAGIC), 2)
    (size,) = struct.unpack("<i", file.read(4))
    if not 0 < size <= end:
        raise NotArrow
    file.seek(end - size)
    footer = file.read(size)
    for field in (_DICTIONARIES, _BATCHES):
        start, count = _vector(footer, _follow(footer, 0), field)
        for number in range(count):
            (place,) = struct.unpack_from("<q", footer, start + _BLOCK * number)
            file.seek(max(0, place))
            yield pa.ipc.read_message(file)


def _unpacked(message: Any) -> int:
    """Return the size of a message's buffers, unpacked."""
    table, body = message.metadata.to_pybytes(), message.body
    root = _follow(table, 0)
    kind, header = _field(table, root, _HEADER_TYPE), _field(table, root, _HEADER)
    if not kind or not header or body is None or table[kind] == _SCHEMA:
        return 0
    batch = _follow(table, header)
    if table[kind] == _DICTIONARY:
        batch = _follow(table, _field(table, batch, _DATA))
    if not _field(table, batch, _COMPRESSION):
        return int(body.size)
    start, count = _vector(table, batch, _BUFFERS)
    total = 0
    for number in range(count):
        place, length = struct.unpack_from("<qq", table, start + _BUFFER * number)
        if length:
            (size,) = struct.unpack("<q", body[max(0, place) : max(0, place) + 8].to_pybytes())
            total += max(size, length)  # -1: this one is not packed
    return total


def _field(table: bytes, at: int, number: int) -> int:
    """Return where a field of a FlatBuffers table lies; 0 if it is left out."""
    kinds = at - struct.unpack_from("<i", table, at)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", table, kinds)[0]:
        return 0
    offset = struct.unpack_from("<H", table, kinds + slot)[0]
    return at + offset if offset else 0


def _follow(table: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", table, at)[0])


def _vector(table: bytes, at: int, number: int) -> tuple[int, int]:
    """Return where the items of a vector begin, and how many there are."""
    field = _field(table, at, number)
    if not field:
        return 0, 0
    start = _follow(table, field)
    return start + 4, int(struct.unpack_from("<I", table, start)[0])
