"""The ring by itself, with the kernel of this machine."""

import errno
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcoord.server import ring as ring_module
from kcoord.server.ring import BUFFER_BYTES, MOST_SENDS, Ring, Unsent
from tests.server.rings import needs_ring

pytestmark = needs_ring
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    yield ring
    ring.close()


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Connections over TCP: the server's end, and the client's."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as listening:
        made = []
        for _ in range(3):
            client = stack.enter_context(socket.create_connection(listening.getsockname()))
            server = stack.enter_context(listening.accept()[0])
            server.setblocking(False)
            client.settimeout(30)
            made.append((server, client))
        yield made


def taken(ring: Ring, count: int, seconds: float = 30) -> list[tuple[int, bytes]]:
    """As many chunks as are told, at least so many."""
    came = ring.take()
    while len(came) < count:
        assert select.select([ring.fd], [], [], seconds)[0], f"no more than {came}"
        came += ring.take()
    return came


def all_of(client: socket.socket) -> bytes:
    """What has come so far."""
    got = b""
    while select.select([client], [], [], 0.05)[0]:
        got += client.recv(1 << 20)
    return got


def test_what_comes_to_any_of_the_sockets_is_told_with_its_key(ring: Ring, pairs: list[Pair]) -> None:
    for key, (server, _) in enumerate(pairs):
        ring.receive(server.fileno(), key)
    for key, (_, client) in enumerate(pairs):
        client.sendall(b"from %d" % key)
    assert sorted(taken(ring, 3)) == [(0, b"from 0"), (1, b"from 1"), (2, b"from 2")]
    pairs[1][1].sendall(b"again")
    assert taken(ring, 1) == [(1, b"again")]


def test_pieces_leave_in_one_call_each_to_its_own_socket(ring: Ring, pairs: list[Pair]) -> None:
    pieces = [b"a", b"bb" * 1000, b"ccc"]
    assert ring.send([server.fileno() for server, _ in pairs], pieces) == []
    assert [client.recv(BUFFER_BYTES) for _, client in pairs] == pieces


def test_a_socket_without_room_is_not_waited_for_and_it_is_said_how_much_was_sent(
    ring: Ring, pairs: list[Pair]
) -> None:
    (server, client), (other, reader), _ = pairs
    rounds, piece = 1, bytes(range(256)) * (BUFFER_BYTES // 256)
    while not (unsent := ring.send([server.fileno(), other.fileno()], [piece, b"."])):
        rounds += 1
    (behind,) = unsent
    assert behind.place == 0
    assert behind.sent < len(piece)
    assert ring.send([server.fileno()], [b"more"]) == [Unsent(place=0, sent=0)]
    assert all_of(reader) == b"." * rounds
    assert all_of(client) == piece * (rounds - 1) + piece[: behind.sent]


def test_what_cannot_be_sent_because_nobody_is_there_is_said_to_be_unsent(ring: Ring, pairs: list[Pair]) -> None:
    server, _ = pairs[0]
    server.shutdown(socket.SHUT_WR)
    fds = [server.fileno(), pairs[1][0].fileno()]
    assert ring.send(fds, [b"gone", b"here"]) == [Unsent(place=0, sent=0)]
    assert pairs[1][1].recv(10) == b"here"


def test_the_end_of_a_stream_is_told_as_an_empty_chunk_behind_what_came_before(ring: Ring, pairs: list[Pair]) -> None:
    server, client = pairs[0]
    ring.receive(server.fileno(), 7)
    client.sendall(b"last words")
    client.shutdown(socket.SHUT_WR)
    assert taken(ring, 2) == [(7, b"last words"), (7, b"")]


def test_a_client_that_resets_its_connection_is_told_of_as_one_that_hangs_up(ring: Ring, pairs: list[Pair]) -> None:
    server, client = pairs[0]
    ring.receive(server.fileno(), 7)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    assert taken(ring, 1) == [(7, b"")]


def test_who_stops_receiving_has_all_that_came_and_then_the_end_and_leaves_the_rest_to_others(
    ring: Ring, pairs: list[Pair]
) -> None:
    server, client = pairs[0]
    ring.receive(server.fileno(), 7)
    client.sendall(b"before")
    ring.stop_receiving(7)
    assert taken(ring, 2) == [(7, b"before"), (7, b"")]
    client.sendall(b"after")
    assert not select.select([ring.fd], [], [], 0.05)[0]
    assert select.select([server], [], [], 30)[0]
    assert server.recv(10) == b"after"
    ring.stop_receiving(7)  # again, of which nothing is heard
    assert ring.take() == []


def test_more_than_there_are_buffers_for_is_told_in_order(ring: Ring, pairs: list[Pair]) -> None:
    (server, client), (other, asking), _ = pairs
    ring.receive(server.fileno(), 1)
    ring.receive(other.fileno(), 2)
    whole = b"".join(b"%07d\n" % number for number in range(600_000))
    got, sent = b"", 0
    while len(got) < len(whole):
        if sent < len(whole):
            sent += client.send(whole[sent : sent + (1 << 20)])
        came = taken(ring, 1)
        assert {key for key, _ in came} == {1}
        got += b"".join(chunk for _, chunk in came)
    assert got == whole
    asking.sendall(b"and me?")
    assert taken(ring, 1) == [(2, b"and me?")]
    assert ring._circulating > 128, "more buffers, as they were missing"


def test_a_kernel_that_stops_by_itself_is_asked_again(pairs: list[Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "_AGAIN_AND_AGAIN", 0)  # once only
    ring = Ring()
    server, client = pairs[0]
    ring.receive(server.fileno(), 7)
    for words in (b"one", b"two", b"three"):
        client.sendall(words)
        assert taken(ring, 1) == [(7, words)]
    ring.close()


def test_failures_for_which_the_queue_has_no_room_are_told_by_the_send_that_failed(
    pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in {"MOST_SENDS": 8, "_OTHER_SLOT": 8, "_SLOTS": 16, "_COMPLETIONS": 16}.items():
        monkeypatch.setattr(ring_module, name, size)
    ring = Ring()
    for key in range(100, 140):
        ring._receivers[key] = -1
        ring.stop_receiving(key)  # which fails, and fills the queue
    (dead, _), (well, client), _ = pairs
    dead.shutdown(socket.SHUT_WR)
    assert ring.send([dead.fileno(), well.fileno()], [b"gone", b"here"]) == [Unsent(place=0, sent=0)]
    assert ring.send([well.fileno()], [b" and there"]) == []
    assert client.recv(100, socket.MSG_PEEK)[:4] == b"here"
    assert all_of(client) == b"here and there"
    ring.close()


def test_there_is_room_for_so_many(ring: Ring, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "MOST_RECEIVERS", 2)
    for key in range(2):
        assert ring.has_room
        ring.receive(pairs[key][0].fileno(), key)
    assert not ring.has_room
    ring.stop_receiving(0)
    assert ring.has_room


def test_no_memory_and_no_file_is_left_of_a_ring_that_is_closed(pairs: list[Pair]) -> None:
    server, _ = pairs[0]
    for _ in range(3):
        ring = Ring()
        ring.receive(server.fileno(), 1)
        ring.close()
    assert not [line for line in Path("/proc/self/maps").read_text().splitlines() if "io_uring" in line]
    assert not [link for link in Path("/proc/self/fd").iterdir() if "io_uring" in _pointed_at(link)]


def _pointed_at(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # that of this look itself
        return ""


def test_the_queues_go_round(ring: Ring, pairs: list[Pair]) -> None:
    fds = [server.fileno() for server, _ in pairs]
    for key, fd in enumerate(fds):
        ring.receive(fd, key)
    for turn in range(5000):  # two in the middle, of 8192
        count = 1 + turn % 3
        assert ring.send(fds[:count], [b"%d" % turn] * count) == []
        for _, client in pairs[:count]:
            client.sendall(client.recv(10))
        assert sorted(taken(ring, count)) == [(key, b"%d" % turn) for key in range(count)]


def test_as_many_leave_at_once_as_there_is_room_for(ring: Ring) -> None:
    with ExitStack() as stack:
        ends = [socket.socketpair() for _ in range(MOST_SENDS)]
        for end in ends:
            stack.enter_context(end[0])
            stack.enter_context(end[1])
        pieces = [b"%d" % number * 10 for number in range(MOST_SENDS)]
        assert ring.send([ours.fileno() for ours, _ in ends], pieces) == []
        assert [theirs.recv(100) for _, theirs in ends] == pieces


@pytest.mark.parametrize("missing", [errno.ENOSYS, errno.EPERM, errno.EINVAL])
def test_a_kernel_that_has_no_ring_says_so(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    def refuse(self: Ring, number: int, *arguments: int) -> int:
        raise OSError(missing, "no")

    monkeypatch.setattr(Ring, "_call", refuse)
    with pytest.raises(OSError, match=f"Errno {missing}"):
        Ring()


@pytest.mark.parametrize("release", ["6.0.19", "5.15.0-91-generic", "4.18.0-553.el8_10.x86_64", "unheard of"])
def test_an_older_kernel_is_not_asked(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr("platform.release", lambda: release)
    with pytest.raises(OSError, match=r"Linux 6\.1 is needed"):
        Ring()


def test_a_kernel_that_cannot_receive_again_and_again_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "_AGAIN_AND_AGAIN", 1 << 15)  # which none knows, as older ones do not know this
    with pytest.raises(OSError, match="again and again"):
        Ring()
