"""Deterministic mutations of valid files, and checks of error messages."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

# 10,000 files take about 100 s of processor time, so much longer on a busy machine.
_MANY = [pytest.mark.slow, pytest.mark.timeout(4 * 3600)]
COUNTS = pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=_MANY)])

LONGEST_MESSAGE = 500

# Bytes that often break a reader: line ends and byte order marks of other systems, quotes,
# separators, unusual numbers and words, incomplete characters, brackets.
_PIECES: tuple[bytes, ...] = (
    b"\0", b"\r", b"\r\n", b"\n", b"\n\n", b"\t", b",", b'"', b'""', b"'", b" ", b"\\", b"\\u00",
    b"\xef\xbb\xbf", b"\xe9", b"\xc3", b"\xff\xfe", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8",
    b"\xed\xa0\x80", b"\x1b[31m", b"\x7f", b"nan", b"-inf", b"1e999", b"-1", b"0x10", b"1_000",
    b"9" * 400, b"null", b"true", b"[", b"]", b"{", b"}", b"(", b")", b"<", b">", b"= =",
    b"\xd9\xa3", b"x" * 2000, b"[" * 300, "\u202e\U0001f600".encode(),
)  # fmt: skip


def mutate(whole: bytes, generator: random.Random) -> bytes:
    """Mutate a file in one to three places."""
    data = whole
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        data = generator.choice(_WAYS)(data, generator)
    return data


def mutations(whole: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield mutated versions of a file."""
    generator = random.Random(seed)
    return (mutate(whole, generator) for _ in range(count))


def _flip(data: bytes, generator: random.Random) -> bytes:
    return _splice(data, generator, 1, bytes([generator.randrange(256)]))


def _flip_bit(data: bytes, generator: random.Random) -> bytes:
    if not data:
        return data
    place = generator.randrange(len(data))
    changed = data[place] ^ 1 << generator.randrange(8)
    return data[:place] + bytes([changed]) + data[place + 1 :]


def _delete(data: bytes, generator: random.Random) -> bytes:
    return _splice(data, generator, generator.choice((1, 2, 5, 30)), b"")


def _insert(data: bytes, generator: random.Random) -> bytes:
    return _splice(data, generator, 0, generator.choice(_PIECES))


def _replace(data: bytes, generator: random.Random) -> bytes:
    return _splice(data, generator, generator.choice((1, 3)), generator.choice(_PIECES))


def _cut(data: bytes, generator: random.Random) -> bytes:
    return data[: generator.randrange(len(data) + 1)]


def _cut_front(data: bytes, generator: random.Random) -> bytes:
    return data[generator.randrange(len(data) + 1) :]


def _splice(data: bytes, generator: random.Random, length: int, piece: bytes) -> bytes:
    place = generator.randrange(len(data) + 1)
    return data[:place] + piece + data[place + length :]


def _lines(change: Callable[[list[bytes], random.Random], None]) -> _Way:
    def way(data: bytes, generator: random.Random) -> bytes:
        lines = data.split(b"\n")
        change(lines, generator)
        return b"\n".join(lines)

    return way


def _repeat_line(lines: list[bytes], generator: random.Random) -> None:
    lines.insert(generator.randrange(len(lines) + 1), generator.choice(lines))


def _swap_lines(lines: list[bytes], generator: random.Random) -> None:
    first, second = generator.randrange(len(lines)), generator.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]


def _drop_line(lines: list[bytes], generator: random.Random) -> None:
    del lines[generator.randrange(len(lines))]


def _blank_line(lines: list[bytes], generator: random.Random) -> None:
    lines[generator.randrange(len(lines))] = generator.choice((b"", b" ", b"\t", b"\r"))


def _swap_fields(lines: list[bytes], generator: random.Random) -> None:
    row = generator.randrange(len(lines))
    separator = generator.choice((b"\t", b",", b" ", b":"))
    fields = lines[row].split(separator)
    generator.shuffle(fields)
    lines[row] = separator.join(fields)


def _drop_field(lines: list[bytes], generator: random.Random) -> None:
    row = generator.randrange(len(lines))
    separator = generator.choice((b"\t", b",", b" ", b":"))
    fields = lines[row].split(separator)
    del fields[generator.randrange(len(fields))]
    lines[row] = separator.join(fields)


def _windows_ends(data: bytes, generator: random.Random) -> bytes:
    return data.replace(b"\n", b"\r\n", generator.choice((-1, 1, 2)))


def _random_bytes(data: bytes, generator: random.Random) -> bytes:
    return generator.randbytes(generator.randrange(200))


_Way = Callable[[bytes, random.Random], bytes]
_WAYS: tuple[_Way, ...] = (
    *(_flip, _flip_bit, _delete, _insert, _insert, _replace, _cut, _cut_front),
    *map(_lines, (_repeat_line, _swap_lines, _drop_line, _blank_line, _swap_fields, _drop_field)),
    *(_windows_ends, _random_bytes),
)  # fmt: skip


def refusal(
    call: Callable[[], Any],
    errors: type[Exception] | tuple[type[Exception], ...],
    name: str,
    lines: int = 1,
) -> str | None:
    """Return the error message of a call, or None if it succeeds.

    The call must raise no other exception; each line of the message must be printable and have the
    file name.
    """
    message = None
    try:
        call()
    except errors as error:
        message = str(error)
    if message is not None:
        found = message.split("\n")
        assert len(found) <= lines
        for line in found:
            check_line(line, name)
    return message


def check_line(line: str, name: str) -> None:
    """Check a line of a message: it has the file name, is short and printable."""
    assert name in line
    assert len(line) < LONGEST_MESSAGE, line
    assert line.isprintable(), ascii(line)


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive of files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()
