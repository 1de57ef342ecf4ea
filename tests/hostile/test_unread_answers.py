"""A client that sends requests and never reads: its socket fills, not the server's memory."""

import socket
import time
from collections.abc import Iterator

import pytest

from kcoord.api_keys import ApiKey
from tests.hostile.conftest import Serve
from tests.support.hostile.batches import fetch_frame, good_batch, produce
from tests.support.hostile.scene import Scene, receive_frame, request_frame
from tests.support.procs import MIB

METADATA_OF_ALL = request_frame(ApiKey.METADATA, 12, b"\x00\x01\x00\x00")


@pytest.fixture
def rich(serve: Serve) -> Scene:
    """A server whose topic holds 8 MiB, and whose Metadata is long."""
    scene = serve(topics={"here": 1, "wide": 1000})
    for _ in range(8):
        produce(scene, good_batch(size=1_000_000))
    return scene


@pytest.fixture
def unread(rich: Scene) -> Iterator[socket.socket]:
    with rich.connect() as raw:
        yield raw


def test_many_metadata_requests_do_not_keep_others_waiting(rich: Scene, unread: socket.socket) -> None:
    growth = rich.growth_of(lambda: unread.sendall(METADATA_OF_ALL * 2_000))
    assert growth < 32 * MIB, f"{growth / MIB:.0f} MiB"
    assert rich.answer_time() < 5


def test_many_big_fetches_take_no_more_memory_than_a_few(rich: Scene, unread: socket.socket) -> None:
    def ask() -> None:
        unread.sendall(fetch_frame() * 50)
        rich.answer_time()

    growth = rich.growth_of(ask)
    assert growth < 64 * MIB, f"{growth / MIB:.0f} MiB for answers of 8 MiB each"


def test_others_are_served_while_a_client_does_not_read(rich: Scene, unread: socket.socket) -> None:
    unread.sendall(fetch_frame())
    waits = [rich.answer_time() for _ in range(50)]
    assert max(waits) < 5


def test_a_client_that_reads_late_gets_every_answer(rich: Scene, unread: socket.socket) -> None:
    for _ in range(10):
        unread.sendall(fetch_frame() + METADATA_OF_ALL)
    time.sleep(0.5)
    answers = [receive_frame(unread) for _ in range(20)]
    sizes = [len(answer or b"") for answer in answers]
    assert min(sizes[0::2]) > 8_000_000
    assert len(set(sizes[1::2])) == 1
