"""Topics in the controllers' log; tests/integration/storage/test_topics_on_disk reads that of a real broker."""

import logging
from pathlib import Path
from uuid import UUID

import pytest

from kcoord.protocol.records.record import Record, write_batch
from kcoord.protocol.varint import uvarint
from kcoord.storage.kraft_metadata import FOLDER, KraftMetadata, KraftTopic, read_kraft_metadata

orders, payments = UUID(int=1), UUID(int=2)


def text(value: str | None) -> bytes:
    return b"\0" if value is None else uvarint(len(value) + 1) + value.encode()


def record(kind: int, *fields: bytes) -> bytes:
    return uvarint(1) + uvarint(kind) + uvarint(0) + b"".join(fields) + b"\0"


def topic(name: str, topic_id: UUID) -> bytes:
    return record(2, text(name), topic_id.bytes)


def partition(index: int, topic_id: UUID) -> bytes:
    return record(3, index.to_bytes(4), topic_id.bytes, b"what is not read")


def config(name: str, key: str, value: str | None, *, kind: int = 2) -> bytes:
    return record(4, kind.to_bytes(1), text(name), text(key), text(value))


def removal(topic_id: UUID) -> bytes:
    return record(9, topic_id.bytes)


def producer_ids(end: int) -> bytes:
    return record(15, bytes(12), end.to_bytes(8))


def batch(*values: bytes, base_offset: int = 0, is_control: bool = False) -> bytes:
    return write_batch([Record(value=value) for value in values], base_offset=base_offset, is_control=is_control)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path / FOLDER


def test_a_folder_without_the_log_tells_nothing(tmp_path: Path) -> None:
    assert read_kraft_metadata(tmp_path) == KraftMetadata()


def test_topics_partitions_settings_and_producer_ids_are_read(folder: Path) -> None:
    first = batch(topic("orders", orders), partition(0, orders), partition(1, orders), topic("payments", payments))
    control = batch(b"\0\1\2", base_offset=4, is_control=True)
    second = batch(
        config("orders", "retention.ms", "5"),
        config("orders", "segment.bytes", "6"),
        config("orders", "segment.bytes", None),
        config("orders", "num.io.threads", "1", kind=4),
        removal(payments),
        producer_ids(2000),
        record(27, b"a kind that nobody needs"),
        base_offset=5,
    )
    (folder / "00000000000000000000.log").write_bytes(first + control)
    (folder / "00000000000000000005.log").write_bytes(second + second[:40])
    assert read_kraft_metadata(folder.parent) == KraftMetadata(
        topics={orders: KraftTopic(name="orders", partitions=2, configs={"retention.ms": "5"})}, producer_ids=2000
    )


def test_the_newest_checkpoint_stands_for_what_was_before_it(folder: Path) -> None:
    (folder / "00000000000000000002-0000000001.checkpoint").write_bytes(batch(topic("old", payments)))
    (folder / "00000000000000000007-0000000001.checkpoint").write_bytes(batch(topic("orders", orders)))
    log = batch(*[removal(orders)] * 7) + batch(partition(4, orders), base_offset=7)
    (folder / "00000000000000000000.log").write_bytes(log)
    assert read_kraft_metadata(folder.parent).topics == {orders: KraftTopic(name="orders", partitions=5)}


@pytest.mark.parametrize(
    "content",
    [
        batch(uvarint(9) + uvarint(2)),
        batch(record(2, text("orders"), b"short")),
        batch(record(2, uvarint(200), b"short")),
        batch(b"\1\xff"),
        bytes(8) + (1).to_bytes(4) + bytes(100),
    ],
)
def test_a_log_that_cannot_be_read_is_left_aside_as_a_whole(
    folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (folder / "00000000000000000000.log").write_bytes(batch(topic("orders", orders)) + content)
    assert read_kraft_metadata(folder.parent) == KraftMetadata()
    assert [each.message.partition(" why")[0] for each in caplog.records] == [f"left aside folder={folder}"]
