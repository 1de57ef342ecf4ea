"""The lane: connections whose clients ask the same again and again, read and answered many at once.

Theory of operation. A loop reads one socket after the other and writes to one after the other. Of a small request these
two calls of the kernel are most of what it costs. Where the kernel has io_uring (ring.py), connections whose requests
stand (standing.py) take the lane: the loop no longer reads their sockets, what came to any of them is handed to them in
one go, and their answers leave in one call when the round is over (turns.py). A connection has a transport as before.
That one is in the lane while all is simple, and hands over to the loop's own transport, which still owns the socket:

    when the client does not read       the rest of the answer, and what follows until that is gone
    when an answer is large             that answer
    when a request is large, the        reading; when something stands once more, the connection takes the lane again
    connection pauses, or at the end
    of the stream

So it is the loop that waits until a socket has room, finds out that a client is gone, and closes.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final, Protocol

from kcoord.server.ring import BUFFER_BYTES, MOST_SENDS, Ring

log = logging.getLogger("kcoord.server")

_NEVER: Final = -1


class Rider(Protocol):
    """A connection."""

    def data_received(self, chunk: bytes) -> None: ...

    def left_lane(self, transport: asyncio.Transport) -> None:
        """This is its transport from now on."""


class Lane:
    """Raises OSError where the kernel has no ring."""

    def __init__(self, loop: asyncio.AbstractEventLoop, begin_round: Callable[[], None]) -> None:
        """`begin_round` has a round begun, at whose end `send` is called."""
        self.batch = 0  # which of all that leave together is being gathered
        self._ring = Ring()
        self._loop = loop
        self._begin_round = begin_round
        self._is_closed = False
        self._is_reading = False
        self._keys = count(1)
        self._transports: dict[int, LaneTransport] = {}
        self._senders: list[LaneTransport] = []
        self._pieces: list[bytes] = []
        loop.add_reader(self._ring.fd, self._read)

    def close(self) -> None:
        """Whoever is still in it is hung up on."""
        if self._is_closed:
            return
        for transport in list(self._transports.values()):
            transport.abort()
        self._close()

    def suits(self, transport: asyncio.Transport) -> bool:
        """Whether it is that of a plain socket."""
        return transport.get_extra_info("socket") is not None and transport.get_extra_info("ssl_object") is None

    def take(self, rider: Rider, transport: asyncio.Transport) -> "LaneTransport | None":
        """The transport that takes the place of one that suits; None for now, if there is no room, or answers wait."""
        if self._is_closed or not self._ring.has_room or transport.get_write_buffer_size():
            return None
        key, plain = next(self._keys), transport.get_extra_info("socket")
        taken = LaneTransport(self, key, plain.fileno(), rider, transport)
        if not self._try(lambda: self._ring.receive(taken.fd, key)):
            return None
        transport.pause_reading()
        self._transports[key] = taken
        return taken

    def gather(self, sender: "LaneTransport", piece: bytes) -> None:
        """To be sent with those of others; no other of this sender is in the batch."""
        if self._is_closed:
            return
        if not self._pieces and not self._is_reading:
            self._begin_round()
        self._senders.append(sender)
        self._pieces.append(piece)
        if len(self._pieces) == MOST_SENDS:
            self.send()

    def send(self) -> None:
        """What was gathered."""
        if self._pieces:
            self._try(self._send)

    def leave(self, key: int) -> None:
        """Once all that came before is handed over, its connection has left."""
        self._try(lambda: self._ring.stop_receiving(key))

    def forget(self, key: int) -> None:
        """Nothing is handed over any more; what was gathered leaves before the socket is closed."""
        if self._transports.pop(key, None) is not None:
            self.send()
            self.leave(key)

    def _read(self) -> None:
        if not self._is_closed:
            self._is_reading = True
            try:
                self._try(self._hand_over)
            finally:
                self._is_reading = False
            self.send()

    def _hand_over(self) -> None:
        transports = self._transports
        for key, chunk in self._ring.take():
            taken = transports.get(key)
            if taken is None:
                continue
            try:
                if chunk:
                    taken.hand_over(chunk)
                else:
                    self._let_go(key, taken)
            except Exception:  # is not to keep the others waiting
                log.exception("bug peer=%s: what came could not be read", taken.get_extra_info("peername"))
                taken.abort()
            if len(chunk) == BUFFER_BYTES:
                taken.leave()

    def _let_go(self, key: int, taken: "LaneTransport") -> None:
        """The loop may write to it from now on, so that what it has gathered leaves first."""
        if taken.is_in_batch:
            self.send()
        if self._transports.pop(key, None) is not None:  # the lane may have been given up
            taken.has_left()

    def _send(self) -> None:
        senders, self._senders = self._senders, []
        pieces, self._pieces = self._pieces, []
        self.batch += 1
        for place, sent in self._ring.send([sender.fd for sender in senders], pieces):
            senders[place].fall_behind(pieces[place][sent:])
        if self._ring.has_news:  # of which its file says nothing any more
            self._loop.call_soon(self._read)

    def _try(self, act: Callable[[], None]) -> bool:
        """Whether the kernel did it. If not, what was sent is not known: the lane is given up, and clients return."""
        if self._is_closed:
            return False
        try:
            act()
        except OSError as error:
            log.error("lane given up connections=%s why=%r", len(self._transports), str(error))
            self._close()
            for transport in list(self._transports.values()):
                transport.abort()
        return not self._is_closed

    def _close(self) -> None:
        self._is_closed = True
        self._senders.clear()
        self._pieces.clear()
        self._loop.remove_reader(self._ring.fd)
        self._ring.close()


class LaneTransport(asyncio.Transport):
    """A transport in the lane, in the place of the loop's own."""

    __slots__ = (
        "_batch",
        "_is_behind",
        "_is_leaving",
        "_is_paused",
        "_key",
        "_lane",
        "_loops",
        "_rider",
        "fd",
        "hand_over",
    )

    def __init__(self, lane: Lane, key: int, fd: int, rider: Rider, loops: asyncio.Transport) -> None:
        self.fd = fd
        self.hand_over = rider.data_received
        self._lane = lane
        self._key = key
        self._rider = rider
        self._loops = loops
        self._batch = _NEVER  # that it has a piece in
        self._is_behind = False  # the loop still sends what was written before
        self._is_leaving = False
        self._is_paused = False

    def write(self, data: Any) -> None:
        lane = self._lane
        if self._is_behind or self._batch == lane.batch or len(data) > BUFFER_BYTES:
            self._write_apart(data)
        else:
            self._batch = lane.batch
            lane.gather(self, data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self.get_out()
        self._loops.close()

    def abort(self) -> None:
        self.get_out()
        self._loops.abort()

    def get_out(self) -> None:
        """At once, as the socket is closed: what may still come is nobody's."""
        self._lane.forget(self._key)
        self._rider.left_lane(self._loops)

    def pause_reading(self) -> None:
        """What came before may still be handed over."""
        self._is_paused = True
        self.leave()

    def resume_reading(self) -> None:
        self._is_paused = False

    def get_write_buffer_size(self) -> int:
        return self._loops.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._loops.get_extra_info(name, default)

    # What the lane asks and says.

    @property
    def is_in_batch(self) -> bool:
        """Whether something that it wrote has not left."""
        return self._batch == self._lane.batch

    def fall_behind(self, rest: bytes) -> None:
        """The socket did not take all of a piece."""
        self._is_behind = True
        self._loops.write(rest)

    def leave(self) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._lane.leave(self._key)

    def has_left(self) -> None:
        self._rider.left_lane(self._loops)
        if not self._is_paused and not self._loops.is_closing():
            self._loops.resume_reading()

    def _write_apart(self, data: bytes) -> None:
        """Behind what was written before, wherever that is."""
        if self.is_in_batch:
            self._lane.send()
        self._is_behind = len(data) > BUFFER_BYTES or self._loops.get_write_buffer_size() > 0
        if self._is_behind:
            self._loops.write(data)
        else:
            self._batch = self._lane.batch
            self._lane.gather(self, data)
