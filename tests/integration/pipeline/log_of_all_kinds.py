"""A folder of segments with rows for every table: segments of real brokers, and some that only our code writes."""

import shutil
from pathlib import Path

from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record
from tests.support.pipeline.segment_files import (
    ABORT,
    AT_MS,
    COMMIT,
    batch,
    commit,
    in_a_row,
    marker,
    tombstone,
    write_segment,
)

_REAL = Path(__file__).parent.parent.parent.parent / "fixtures" / "segments"
_DAY_MS = 86_400_000
_UNREADABLE = Record(timestamp=AT_MS, key=b"\x00\x01\x00", value=b"\x00\x04")


def write_log_of_all_kinds(folder: Path) -> None:
    """Writes several partitions, days and codecs; transactions with either end; records that are rejected."""
    for partition, name in enumerate(("plain", "lz4")):
        shutil.copytree(_REAL / name / "__consumer_offsets-0", folder / f"__consumer_offsets-{partition}")
    for partition, codec in ((7, Codec.NONE), (8, Codec.ZSTD), (9, Codec.LZ4)):
        log = f"__consumer_offsets-{partition}"
        first = in_a_row(
            batch(*(_commit(number, partition) for number in range(300)), codec=codec),
            batch(commit(1, group="kept"), producer=partition),
            marker(COMMIT, partition, 0),
            batch(commit(2, group="aborted"), producer=partition),
            marker(ABORT, partition, 0),
            batch(commit(3, group="open"), producer=partition),
        )
        second = in_a_row(batch(_UNREADABLE, tombstone(group="kept"), commit(9, group="late", version=3), codec=codec))
        write_segment(folder, *first, log=log)
        write_segment(folder, _moved(second[0], 400), log=log, base_offset=400)
    write_segment(folder, *in_a_row(batch(*_orders(3)), batch(*_orders(5))), log="orders-0")


def _commit(number: int, partition: int) -> Record:
    made = commit(number, group=f"group-{number % 11}", partition=partition, metadata="x" * (number % 3))
    return Record(timestamp=AT_MS + number % 3 * _DAY_MS, key=made.key, value=made.value)


def _orders(count: int) -> list[Record]:
    return [Record(timestamp=AT_MS, key=None, value=b"order") for _ in range(count)]


def _moved(content: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + content[8:]
