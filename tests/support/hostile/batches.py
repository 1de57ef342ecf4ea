"""Produce requests with batches that are valid, or nearly."""

import time
from datetime import timedelta
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.protocol.records.batch import BatchHeader, assemble, read_header
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, write_batch
from tests.support.hostile.scene import Scene


def good_batch(*, size: int = 100, codec: Codec = Codec.NONE) -> bytes:
    return write_batch([Record(key=b"k", value=bytes(size), timestamp=now_ms())], codec=codec)


def batch_of(packed: bytes, *, codec: Codec, records: int) -> bytes:
    """Makes a batch whose checksum is right, whatever its records are."""
    header: BatchHeader = read_header(good_batch(codec=codec))
    return assemble(header._replace(record_count=records, last_offset_delta=records - 1), packed)


def produce(scene: Scene, batch: bytes | None, *, topic: str = "here", version: int = 9, timeout: float = 60.0) -> Any:
    """Produces one batch and returns the partition's result."""
    with scene.client(timeout=timeout) as client:
        lines = [{"index": 0, "records": batch}]
        answer = client.ask(
            ApiKey.PRODUCE,
            version,
            acks=-1,
            timeout=timedelta(seconds=5),
            topic_data=[{"name": topic, "partition_data": lines}],
        )
    return answer.responses[0].partition_responses[0]


def fetch_frame(
    *, topic: str = "here", offset: int = 0, max_wait: float = 0.0, min_bytes: int = 1, correlation_id: int = 1
) -> bytes:
    """Makes a Fetch of all records, up to a gigabyte."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 30, "current_leader_epoch": -1}
    values = {
        "max_wait": timedelta(seconds=max_wait),
        "min_bytes": min_bytes,
        "max_bytes": 1 << 30,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    header = RequestHeader(api_key=ApiKey.FETCH, api_version=12, correlation_id=correlation_id, client_id="hostile")
    return encode_request(header, build_entity(request_type(ApiKey.FETCH, 12), values))


def list_offset(scene: Scene, timestamp: int, *, topic: str = "here") -> Any:
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    answer = scene.ask(ApiKey.LIST_OFFSETS, 7, topics=[{"name": topic, "partitions": [partition]}])
    return answer.topics[0].partitions[0]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
