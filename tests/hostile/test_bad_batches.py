"""Produce requests whose batches are malformed or malicious."""

import struct
import time
import zlib
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import cramjam
import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import HEADER_SIZE
from kcoord.protocol.records.compression import Codec, compress
from tests.hostile.conftest import Serve
from tests.support.hostile.batches import batch_of, good_batch, list_offset, now_ms, produce
from tests.support.hostile.scene import Scene, request_frame, wait_until
from tests.support.procs import MIB

TINY_RECORD = bytes([12, 0, 0, 0, 1, 1, 0])
# A batch is decompressed to be validated, up to 64 MiB (DECOMPRESSED_LIMIT), into buffers that grow to that.
BOMB_ROOM = 192 * MIB


def changed(at: int, form: str, value: int) -> bytes:
    batch = bytearray(good_batch())
    struct.pack_into(form, batch, at, value)
    return bytes(batch)


def good_length() -> int:
    return len(good_batch()) - 12


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (None, ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (good_batch()[:-1], ErrorCode.invalid_record),
        (good_batch() * 2, ErrorCode.invalid_record),
        (changed(17, ">I", 1), ErrorCode.corrupt_message),
        (changed(8, ">i", -1), ErrorCode.corrupt_message),
        (changed(8, ">i", 0), ErrorCode.corrupt_message),
        (changed(8, ">i", HEADER_SIZE - 13), ErrorCode.corrupt_message),
        (changed(8, ">i", 2**31 - 1), ErrorCode.invalid_record),
        (changed(16, ">b", 0), ErrorCode.invalid_record),
        (changed(16, ">b", 3), ErrorCode.corrupt_message),
        (changed(57, ">i", 2**31 - 1), ErrorCode.corrupt_message),
    ],
    ids=[
        "null", "empty", "cut off", "two", "wrong checksum", "negative length", "no length", "shorter than its header",
        "longer than its frame", "magic 0", "magic 3", "two billion records",
    ],
)  # fmt: skip
def test_a_batch_that_is_none_is_refused(scene: Scene, batch: bytes | None, error: ErrorCode) -> None:
    assert produce(scene, batch).error_code is error


@pytest.mark.parametrize("codec", list(Codec)[1:], ids=lambda codec: codec.name.lower())
def test_bytes_that_do_not_decompress_are_refused(scene: Scene, codec: Codec) -> None:
    packed = compress(codec, TINY_RECORD * 1000)
    for torn in (b"", b"\xff" * 40, packed[:-5], packed[: len(packed) // 2], b"\x00" + packed, packed[::-1]):
        assert produce(scene, batch_of(torn, codec=codec, records=1000)).error_code


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_a_batch_that_claims_more_records_than_it_has_is_refused_at_once(scene: Scene, codec: Codec) -> None:
    batch = batch_of(compress(codec, TINY_RECORD), codec=codec, records=2**31 - 1)
    started = time.perf_counter()
    assert scene.growth_of(lambda: produce(scene, batch)) < 4 * MIB
    assert produce(scene, batch).error_code is ErrorCode.invalid_record
    assert time.perf_counter() - started < 30


def test_record_lengths_that_lie_are_refused(scene: Scene) -> None:
    for position in range(len(TINY_RECORD)):
        for lie in (b"\x7f", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 11):
            record = TINY_RECORD[:position] + lie + TINY_RECORD[position + 1 :]
            answer = produce(scene, batch_of(record, codec=Codec.NONE, records=1))
            # One byte of attributes or deltas may be any number, and a negative size is a null: Kafka accepts these
            # too.
            is_harmless = 1 <= position <= 5 and lie == b"\x7f"
            assert answer.error_code or is_harmless, (position, lie)


@cache
def zstd_bomb() -> bytes:
    return bytes(cramjam.zstd.compress(bytes(1 << 30)))


@cache
def gzip_bomb() -> bytes:
    """A gigabyte: after a full flush the same bytes decompress to the same zeros again."""
    stream = zlib.compressobj(wbits=31)
    first, again = (stream.compress(bytes(10 << 20)) + stream.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * 95


@pytest.mark.parametrize(("make", "codec"), [(zstd_bomb, Codec.ZSTD), (gzip_bomb, Codec.GZIP)])
@pytest.mark.parametrize("topic", ["here", "compacted"])
def test_a_bomb_is_refused_with_bounded_memory(
    serve: Serve, make: Callable[[], bytes], codec: Codec, topic: str
) -> None:
    scene = serve(topics={topic: 1}, settings={"log.cleanup.policy": "compact" if topic == "compacted" else "delete"})
    batch = batch_of(make(), codec=codec, records=1)
    assert len(batch) < MIB
    before = scene.resident_bytes
    growth = scene.growth_of(lambda: produce(scene, batch, topic=topic))
    assert growth < BOMB_ROOM, f"{growth / MIB:.0f} MiB"
    assert produce(scene, batch, topic=topic).error_code is ErrorCode.message_too_large
    # Free memory is retained until the server has been idle for a while.
    wait_until(lambda: scene.resident_bytes - before < 32 * MIB, what="what a bomb took is given back")
    assert list_offset(scene, now_ms() - 1000, topic=topic).offset == -1, "nothing of it was taken"


def test_a_few_kilobytes_that_hold_millions_of_records_do_not_stop_the_server(serve: Serve) -> None:
    scene = serve(topics={"here": 1})
    records = 4_000_000
    batch = batch_of(bytes(cramjam.zstd.compress(TINY_RECORD * records)), codec=Codec.ZSTD, records=records)
    assert len(batch) < 4096
    started = time.perf_counter()
    growth = scene.growth_of(lambda: produce(scene, batch))
    assert growth < 128 * MIB, f"{len(batch)} bytes took {growth / MIB:.0f} MiB"
    assert time.perf_counter() - started < 30


def test_reading_a_highly_compressed_batch_by_time_again_and_again_takes_no_more_memory(scene: Scene) -> None:
    one = good_batch(size=64 * MIB // 64)  # 1 MiB of zeros in one record, which zstd compresses to a few bytes.
    body = one[HEADER_SIZE:]
    batch = batch_of(bytes(cramjam.zstd.compress(body)), codec=Codec.ZSTD, records=1)
    assert produce(scene, batch).error_code is ErrorCode.none
    list_offset(scene, now_ms() - 60_000)
    growth = scene.growth_of(lambda: [list_offset(scene, now_ms() - 60_000) for _ in range(100)])
    assert growth < 16 * MIB, f"{growth / MIB:.1f} MiB"


def test_a_produce_without_topics_or_partitions_is_answered(scene: Scene) -> None:
    for version, body in ((3, struct.pack(">hhii", -1, 1, 1000, 0)), (9, struct.pack(">bhiB", 0, 1, 1000, 1) + b"\0")):
        assert scene.exchange(request_frame(ApiKey.PRODUCE, version, body)) is not None


def test_the_same_partition_ten_thousand_times_in_one_produce_is_answered(scene: Scene) -> None:
    lines = [{"index": 0, "records": b""} for _ in range(10_000)]
    with scene.client() as client:
        answer = client.ask(ApiKey.PRODUCE, 9, acks=-1, topic_data=[{"name": "here", "partition_data": lines}])
    indexes = [line.index for line in answer.responses[0].partition_responses]
    assert all(left <= right for left, right in pairwise(indexes))
