"""The records that the client programs write, made from a seed, and the digest of what they read.

| set    | for                  | holds                                                                                |
|--------|----------------------|--------------------------------------------------------------------------------------|
| binary | clients with an API  | null, empty and binary keys and values, headers with null values, times out of order |
| text   | Java's console tools | what fits on a line: text keys, values and headers, null and empty ones among them   |

A set is written to a file once, so that a program in any language reads it instead of making it. All numbers are
big-endian; `bytes` is an int32 length (-1 is null) and the bytes:

    record  = partition int32, timestamp int64, content
    content = key bytes, value bytes, header count int32, (name bytes, value bytes) of each header

The digest of a partition is SHA-256 over (offset int64, content) of its records, in the order they were read; the
times are digested apart, because Java's console producer does not let one choose them.
"""

import hashlib
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PARTITIONS = 2
FIRST_TIMESTAMP = 1_700_000_000_000

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True)
class PartitionDigest:
    """A digest of what was read from one partition so far."""

    records: int = 0
    contents: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    timestamps: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        self.records += 1
        self.contents.update(_INT64.pack(offset) + _content(key, value, headers))
        self.timestamps.update(_INT64.pack(timestamp))

    def summary(self) -> dict[str, int | str]:
        return {
            "records": self.records,
            "contents": self.contents.hexdigest(),
            "timestamps": self.timestamps.hexdigest(),
        }


def binary_records(seed: int, count: int) -> list[Record]:
    """Returns records of every shape that a client with an API can write."""
    rng = random.Random(seed)
    return [
        Record(
            partition=rng.randrange(PARTITIONS),
            timestamp=FIRST_TIMESTAMP + index + rng.randrange(-20, 20),
            key=_binary_key(rng),
            value=_binary_value(rng),
            headers=_headers(rng, _binary_header_value),
        )
        for index in range(count)
    ]


def text_records(seed: int, count: int) -> list[Record]:
    """Returns records that fit on a line, in the partition where Java's default partitioner puts their key."""
    rng = random.Random(seed)
    records = []
    for index in range(count):
        key = f"ключ-{rng.randrange(count)}".encode()
        records.append(
            Record(
                partition=(_murmur2(key) & 0x7FFFFFFF) % PARTITIONS,
                timestamp=FIRST_TIMESTAMP + index,
                key=key,
                value=_text_value(rng),
                headers=_headers(rng, _text_header_value),
            )
        )
    return records


def write_records(path: Path, records: Iterable[Record]) -> None:
    with path.open("wb") as file:
        for record in records:
            file.write(_PREFIX.pack(record.partition, record.timestamp))
            file.write(_content(record.key, record.value, record.headers))


def read_records(path: Path) -> Iterator[Record]:
    stored = path.read_bytes()
    position = 0

    def take_bytes() -> bytes | None:
        nonlocal position
        (length,) = _INT32.unpack_from(stored, position)
        position += 4
        if length < 0:
            return None
        position += length
        return stored[position - length : position]

    while position < len(stored):
        partition, timestamp = _PREFIX.unpack_from(stored, position)
        position += _PREFIX.size
        key, value = take_bytes(), take_bytes()
        (header_count,) = _INT32.unpack_from(stored, position)
        position += 4
        headers = tuple(((take_bytes() or b"").decode(), take_bytes()) for _ in range(header_count))
        yield Record(partition, timestamp, key, value, headers)


def digests(records: Iterable[Record]) -> list[PartitionDigest]:
    """Returns the digests that a reader must get if these records are all that a topic has."""
    partitions = [PartitionDigest() for _ in range(PARTITIONS)]
    for record in records:
        digest = partitions[record.partition]
        digest.add(digest.records, record.timestamp, record.key, record.value, record.headers)
    return partitions


_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PREFIX = struct.Struct(">iq")
_MURMUR = 0x5BD1E995
_NULL = _INT32.pack(-1)


def _content(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    parts = [_bytes(key), _bytes(value), _INT32.pack(len(headers))]
    for name, header_value in headers:
        parts += (_bytes(name.encode()), _bytes(header_value))
    return b"".join(parts)


def _bytes(content: bytes | None) -> bytes:
    return _NULL if content is None else _INT32.pack(len(content)) + content


def _murmur2(key: bytes) -> int:
    """Computes the hash of Java's default partitioner: org.apache.kafka.common.utils.Utils.murmur2."""
    whole = len(key) // 4 * 4
    hashed = 0x9747B28C ^ len(key)
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        word = word * _MURMUR & 0xFFFFFFFF
        word = (word ^ word >> 24) * _MURMUR & 0xFFFFFFFF
        hashed = (hashed * _MURMUR & 0xFFFFFFFF) ^ word
    if rest := key[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MURMUR & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * _MURMUR & 0xFFFFFFFF
    return hashed ^ hashed >> 15


def _binary_key(rng: random.Random) -> bytes | None:
    match rng.randrange(20):
        case 0 | 1:
            return None
        case 2:
            return b""
        case _:
            return rng.randbytes(rng.randrange(1, 24))


def _binary_value(rng: random.Random) -> bytes | None:
    match rng.randrange(50):
        case 0:
            return None
        case 1:
            return b""
        case 2:
            size = rng.randrange(1024, 2049)
        case _:
            size = rng.randrange(1, 180)
    # Half of a value is noise and half a pattern, so that every codec has something to do and something to refuse.
    return rng.randbytes(size // 2) + (b"kcoord" * size)[: size - size // 2]


def _text_value(rng: random.Random) -> bytes | None:
    match rng.randrange(20):
        case 0:
            return None
        case 1:
            return b""
        case _:
            return (f"строка {rng.getrandbits(64):x} " * rng.randrange(1, 8)).encode()


def _headers(rng: random.Random, value: Callable[[random.Random], bytes | None]) -> Headers:
    if rng.randrange(5):
        return ()
    return tuple((rng.choice(("trace", "источник", "trace-2")), value(rng)) for _ in range(rng.randrange(1, 4)))


def _binary_header_value(rng: random.Random) -> bytes | None:
    return rng.choice((None, b"", rng.randbytes(8)))


def _text_header_value(rng: random.Random) -> bytes | None:
    return rng.choice((None, b"", f"значение {rng.randrange(1000)}".encode()))
