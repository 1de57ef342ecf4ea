"""A server whose disk is full: Produce is refused, acknowledged records stay, and it continues once there is space."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response
from kcoord.protocol.records.record import Record, write_batch
from tests.hostile.conftest import Serve
from tests.support import procs
from tests.support.hostile.batches import fetch_frame, good_batch, now_ms, produce
from tests.support.hostile.scene import Scene, wait_until
from tests.support.procs import MIB

BATCH_SIZE = 100_000


@contextmanager
def full_disk(scene: Scene, size: int) -> Iterator[None]:
    """Limits the size of the server's files: a write beyond it is cut short, and the next one fails."""
    before = resource.prlimit(scene.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(scene.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(scene.pid, resource.RLIMIT_FSIZE, before)


def numbered_batch(number: int) -> bytes:
    value = number.to_bytes(4) + bytes(BATCH_SIZE)
    return write_batch([Record(key=b"k", value=value, timestamp=now_ms())])


def read_all(scene: Scene) -> bytes:
    """Reads everything in the topic; the offsets and the epoch at the head of each batch are the server's."""
    answer = scene.exchange(fetch_frame())
    assert answer
    partition = decode_response(answer, ApiKey.FETCH, 12)[1].responses[0].partitions[0]
    assert partition.error_code is ErrorCode.none
    return bytes(partition.records)


def values(records: bytes) -> list[bytes]:
    size = len(numbered_batch(0))
    return [records[start + 16 : start + size] for start in range(0, len(records), size)]


def test_what_was_acknowledged_stays_when_the_disk_is_full_and_more_comes_once_there_is_room(serve: Serve) -> None:
    scene = serve(topics={"here": 1})
    sent = [numbered_batch(number) for number in range(30)]
    acknowledged = []
    with full_disk(scene, MIB):
        for batch in sent[:20]:
            line = produce(scene, batch)
            if line.error_code is ErrorCode.none:
                acknowledged.append(batch)
            else:
                assert line.error_code is ErrorCode.kafka_storage_error
                assert "File too large" in line.error_message
        assert 5 < len(acknowledged) < 15
        assert values(read_all(scene)) == [batch[16:] for batch in acknowledged]
    for batch in sent[20:]:
        assert produce(scene, batch).error_code is ErrorCode.none
    assert values(read_all(scene)) == [batch[16:] for batch in [*acknowledged, *sent[20:]]]
    assert len(scene.log_lines("storage failing")) == 1
    assert len(scene.log_lines("storage works again")) == 1


def test_the_files_of_records_have_no_name_and_go_with_the_records(
    serve: Serve, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("records")
    monkeypatch.setenv("TMPDIR", str(folder))
    scene = serve(topics={"here": 1, "there": 1})
    files = scene.open_files
    for topic in ("here", "there"):
        produce(scene, good_batch(size=MIB // 2), topic=topic)
    wait_until(lambda: scene.open_files == files + 2, what="two files are open")
    in_folder = [target for target in procs.opened(scene.pid) if target.startswith(str(folder))]
    assert len(in_folder) == 2
    assert list(folder.iterdir()) == []
    partitions = [{"partition_index": 0, "offset": -1}]
    scene.ask(ApiKey.DELETE_RECORDS, 2, topics=[{"name": "here", "partitions": partitions}])
    wait_until(lambda: scene.open_files == files + 1, what="deleted records give their file back")
    scene.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "there", "topic_id": None}])
    wait_until(lambda: scene.open_files == files, what="a deleted topic gives its file back")
    assert list(folder.iterdir()) == []


def test_records_are_not_held_in_memory(serve: Serve) -> None:
    scene = serve(topics={"here": 1})
    produce(scene, good_batch(size=MIB // 2))
    before = scene.resident_bytes
    for _ in range(200):
        assert produce(scene, good_batch(size=MIB // 2)).error_code is ErrorCode.none
    growth = scene.resident_bytes - before
    assert growth < 16 * MIB, f"100 MiB of records took {growth / MIB:.1f} MiB of memory"
