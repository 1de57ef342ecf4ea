"""Linux's io_uring: what is asked of the kernel and what it says, in memory that both share.

Theory of operation. A ring has two queues. What is to be sent is written into the first, for as many sockets as there
are, and one call of the kernel sends all of it; what has come is read out of the second, without any call. For that the
kernel is told once of each socket (`receive`). From then on it puts what comes into a free buffer, and says into which.

    send      sockets and pieces, by columns ─► submissions ─ one call ─► the kernel
    take      chunks, a copy of each ◄─ completions and buffers ◄─ the kernel, whenever this thread returns from it

A socket that has no room for all of a piece is not waited for: `send` says how much of it was sent. Of what was sent
whole the kernel says nothing, so that there is nothing to read.

The kernel works on the queues on this thread only, when that calls it or is interrupted, so that no order of writes has
to be enforced: it adds completions behind those that were seen, and takes buffers no further than it was told. So all
calls are to come from the thread that made the ring. Numbers and layouts are those of linux/io_uring.h.
"""

import ctypes
import errno
import os
import platform
import re
import socket
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE, mmap
from struct import Struct
from typing import Any, Final, NamedTuple

BUFFER_BYTES: Final = 4096
MOST_SENDS: Final = 1024  # in one call
MOST_RECEIVERS: Final = 4096

_SETUP, _ENTER, _REGISTER = 425, 426, 427  # the kernel's calls
_COMPLETIONS_ARE_TOLD, _FAILURES_STOP_NOTHING, _NO_INTERRUPTS = 1 << 3, 1 << 7, 1 << 8
_SUBMISSIONS_AT: Final = 0x10000000
_PARAMETERS: Final = Struct("=10I 7I12x 7I12x")
_SUBMISSION: Final = Struct("=BBHiQQIIQ24x")
_COMPLETION: Final = Struct("=QiI")
_BUFFER: Final = Struct("=QIHxx")
_BUFFERS: Final = Struct("=QIHH24x")
_GET_EVENTS: Final = 1 << 0
_HAS_OVERFLOWN: Final = 1 << 1
_REGISTER_BUFFERS: Final = 22
_CANCEL, _SEND, _RECEIVE = 14, 26, 27
_TAKES_BUFFER, _TELLS_FAILURE_ONLY = 1 << 5, 1 << 6
_AGAIN_AND_AGAIN: Final = 1 << 1
_AT_ONCE_AND_WHOLE: Final = socket.MSG_DONTWAIT | socket.MSG_WAITALL
_HAS_BUFFER, _GOES_ON, _BUFFER_SHIFT = 1 << 0, 1 << 1, 16
_OF_SEND, _OF_CANCEL = 1 << 63, 1 << 62  # in the keys of completions

_SLOTS: Final = 2 * MOST_SENDS
_OTHER_SLOT: Final = MOST_SENDS  # those before it are for sends
_COMPLETIONS: Final = 2 * MOST_RECEIVERS
_MOST_BUFFERS: Final = 1024
_FIRST_BUFFERS: Final = 128
_OLDEST_KERNEL: Final = (6, 1)  # before it, a piece that was sent in part may be told to be unsent
_STRIDE: Final = BUFFER_BYTES + 128  # if all began at the same place of a page, they would share lines of a cache


class Unsent(NamedTuple):
    """Of the piece at this place only so many bytes were sent."""

    place: int
    sent: int


class Ring:
    """Raises OSError where there is no io_uring, or none that can do all of this."""

    def __init__(self) -> None:
        if _kernel() < _OLDEST_KERNEL:
            raise OSError(errno.ENOSYS, f"io_uring: Linux {'.'.join(map(str, _OLDEST_KERNEL))} is needed")
        # Keeps the GIL, as the writes of a loop do: to get it back would take longer than most calls.
        self._syscall = ctypes.PyDLL(None, use_errno=True).syscall
        self._syscall.restype, self._syscall.argtypes = ctypes.c_long, [ctypes.c_long] * 7
        flags = _COMPLETIONS_ARE_TOLD | _FAILURES_STOP_NOTHING | _NO_INTERRUPTS
        parameters = ctypes.create_string_buffer(_PARAMETERS.pack(0, _COMPLETIONS, flags, *[0] * 21))
        self.fd = self._call(_SETUP, _SLOTS, ctypes.addressof(parameters))
        """Can be waited for: it is readable when something has come."""
        self._receivers: dict[int, int] = {}  # sockets by key
        self._came: list[tuple[int, bytes]] = []
        self._unsent: list[Unsent] = []
        self._submitted = self._taken = self._given = 0  # how many there ever were, as far as the kernel counts
        self._circulating = 0  # buffers
        try:
            self._map_queues(_PARAMETERS.unpack_from(parameters))
            self._lay_out_sends()
            self._lay_out_buffers()
            self._try_out()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.fd)
        vars(self).clear()  # what is mapped would keep the ring, and that the sockets it receives from

    @property
    def has_room(self) -> bool:
        """For one more to receive from."""
        return len(self._receivers) < MOST_RECEIVERS

    @property
    def has_news(self) -> bool:
        """Whether something can be taken that the kernel will not tell of again."""
        return bool(self._came)

    def receive(self, fd: int, key: int) -> None:
        """Have all that comes to this socket told, under a key that no other has had."""
        self._receivers[key] = fd
        self._do(_SUBMISSION.pack(_RECEIVE, _TAKES_BUFFER, _AGAIN_AND_AGAIN, fd, 0, 0, 0, 0, key))

    def stop_receiving(self, key: int) -> None:
        """What came before is still told, and then that it is over."""
        if self._receivers.pop(key, None) is not None:
            self._do(_SUBMISSION.pack(_CANCEL, _TELLS_FAILURE_ONLY, 0, -1, 0, key, 0, 0, _OF_CANCEL))

    def take(self) -> list[tuple[int, bytes]]:
        """What came, with keys. An empty chunk is the last: the other side hung up, or it was stopped, or failed."""
        self._read_completions()
        came, self._came = self._came, []
        return came

    def send(self, fds: Sequence[int], pieces: Sequence[bytes]) -> list[Unsent]:
        """Send each piece to the socket beside it; no two to the same. What could not be sent whole."""
        count, whole = len(pieces), b"".join(pieces)
        assert count <= MOST_SENDS, "more than there are slots for"
        self._outgoing[: len(whole)] = whole
        sizes = array("I", map(len, pieces))
        self._send_fds[:count] = array("i", fds)
        self._send_sizes[:count] = sizes
        self._send_addresses[:count] = array("Q", accumulate(sizes, initial=self._outgoing_at))[:count]
        _write_around(self._slots, self._submitted, self._send_slots[:count])
        self._submit(count)
        self._read_completions()
        unsent, self._unsent = self._unsent, []
        return unsent

    def _do(self, submission: bytes) -> None:
        at = _OTHER_SLOT * _SUBMISSION.size
        self._submissions[at : at + _SUBMISSION.size] = submission
        _write_around(self._slots, self._submitted, array("I", [_OTHER_SLOT]))
        self._submit(1)

    def _submit(self, count: int) -> None:
        self._submitted = (self._submitted + count) & 0xFFFFFFFF
        self._submission_tail[0] = self._submitted
        while count:
            count -= self._call(_ENTER, self.fd, count, 0, _GET_EVENTS)

    def _read_completions(self) -> None:
        """All of them, also those that had no room until others were read."""
        self._read_queue()
        while self._submission_flags[0] & _HAS_OVERFLOWN:
            self._call(_ENTER, self.fd, 0, 0, _GET_EVENTS)
            self._read_queue()

    def _read_queue(self) -> None:
        begin, end = self._taken, self._completion_tail[0]
        if begin == end:
            return
        came, pool, used, starved = self._came, self._pool, array("H"), []
        for key, result, flags in _COMPLETION.iter_unpack(self._between(begin, end)):
            if flags & _HAS_BUFFER:
                buffer = flags >> _BUFFER_SHIFT
                used.append(buffer)
                at = buffer * _STRIDE
                came.append((key, pool[at : at + result]))
                if not flags & _GOES_ON:
                    starved.append(key)
            elif key & _OF_SEND:
                self._unsent.append(Unsent(key ^ _OF_SEND, max(result, 0)))
            elif result == -errno.ENOBUFS:
                self._circulate(min(self._circulating, _MOST_BUFFERS - self._circulating))
                starved.append(key)
            elif not key & _OF_CANCEL:
                self._receivers.pop(key, None)
                came.append((key, b""))
        self._completion_head[0] = self._taken = end
        if used:
            self._give(used)
        for key in starved:
            self._go_on(key)

    def _between(self, begin: int, end: int) -> "bytes | memoryview":
        """The completions from one to another that were ever written."""
        first, last = (number % _COMPLETIONS * _COMPLETION.size for number in (begin, end))
        if first < last:
            return self._completions[first:last]
        return bytes(self._completions[first:]) + bytes(self._completions[:last])

    def _go_on(self, key: int) -> None:
        """The kernel stopped by itself."""
        fd = self._receivers.get(key)
        if fd is None:
            self._came.append((key, b""))
        else:
            self.receive(fd, key)

    def _give(self, buffers: "array[int]") -> None:
        """Have the kernel put what comes into these."""
        addresses = array("Q", map(self._addresses.__getitem__, buffers))
        _write_around(self._buffer_addresses, self._given, addresses)
        _write_around(self._buffer_numbers, self._given, buffers)
        self._given = (self._given + len(buffers)) & 0xFFFF
        self._buffers_tail[0] = self._given

    def _circulate(self, count: int) -> None:
        """So many buffers more: memory that was never written to is none."""
        begin, self._circulating = self._circulating, self._circulating + count
        self._give(array("H", range(begin, self._circulating)))

    def _map_queues(self, parameters: Sequence[int]) -> None:
        submissions, completions, own, told = parameters[0], parameters[1], parameters[10:17], parameters[17:24]
        assert (submissions, completions) == (_SLOTS, _COMPLETIONS), "as many as were asked for"
        size = max(own[6] + 4 * submissions, told[5] + _COMPLETION.size * completions)
        queues = memoryview(mmap(self.fd, size, MAP_SHARED, PROT_READ | PROT_WRITE))
        words = queues[: size // 4 * 4].cast("I")
        self._submission_tail, self._submission_flags = words[own[1] // 4 :], words[own[4] // 4 :]
        self._slots = words[own[6] // 4 : own[6] // 4 + submissions]
        self._completion_head, self._completion_tail = words[told[0] // 4 :], words[told[1] // 4 :]
        self._completions = queues[told[5] : told[5] + _COMPLETION.size * completions]
        self._submissions = mmap(self.fd, _SUBMISSION.size * submissions, MAP_SHARED, offset=_SUBMISSIONS_AT)

    def _lay_out_sends(self) -> None:
        """What all sends have in common is written once."""
        self._outgoing, self._outgoing_at = _memory(MOST_SENDS * BUFFER_BYTES)
        for slot in range(MOST_SENDS):
            constant = (_SEND, _TELLS_FAILURE_ONLY, 0, -1, 0, 0, 0, _AT_ONCE_AND_WHOLE, slot | _OF_SEND)
            _SUBMISSION.pack_into(self._submissions, slot * _SUBMISSION.size, *constant)
        fields: Any = memoryview(self._submissions)[: MOST_SENDS * _SUBMISSION.size]
        self._send_fds = fields.cast("i")[1::16]
        self._send_sizes = fields.cast("I")[6::16]
        self._send_addresses = fields.cast("Q")[2::8]
        self._send_slots = array("I", range(MOST_SENDS))

    def _lay_out_buffers(self) -> None:
        self._pool, first = _memory(_MOST_BUFFERS * _STRIDE)
        self._addresses = [first + number * _STRIDE for number in range(_MOST_BUFFERS)]
        self._free_buffers, at = _memory(_MOST_BUFFERS * _BUFFER.size)
        for place in range(_MOST_BUFFERS):
            _BUFFER.pack_into(self._free_buffers, place * _BUFFER.size, 0, BUFFER_BYTES, 0)
        fields: Any = memoryview(self._free_buffers)
        self._buffer_addresses = fields.cast("Q")[0::2]
        self._buffer_numbers = fields.cast("H")[6::8]
        self._buffers_tail = fields.cast("H")[7:8]
        given = ctypes.create_string_buffer(_BUFFERS.pack(at, _MOST_BUFFERS, 0, 0))
        self._call(_REGISTER, self.fd, _REGISTER_BUFFERS, ctypes.addressof(given), 1)
        self._circulate(_FIRST_BUFFERS)

    def _try_out(self) -> None:
        """A kernel may know of all the calls, and not of all that is asked for in them."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.receive(ours.fileno(), key=0)
            unsent = self.send([theirs.fileno()], [b"tried"])
            self._call(_ENTER, self.fd, 0, 0, _GET_EVENTS)
            came = self.take()
            self.stop_receiving(0)
            self._call(_ENTER, self.fd, 0, 0, _GET_EVENTS)
            if unsent or (came + self.take()) != [(0, b"tried"), (0, b"")]:
                raise OSError(errno.ENOSYS, "io_uring cannot receive again and again")

    def _call(self, number: int, *arguments: int) -> int:
        """Raises OSError."""
        result: int = self._syscall(number, *arguments, *[0] * (6 - len(arguments)))
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"io_uring: {os.strerror(code)}")
        return result


def _kernel() -> tuple[int, ...]:
    """Major and minor version, of Linux; nothing of any other."""
    found = re.match(r"(\d+)\.(\d+)", platform.release()) if sys.platform == "linux" else None
    return tuple(map(int, found.groups())) if found else ()


def _memory(size: int) -> tuple[mmap, int]:
    """That the kernel may use, and where it is."""
    memory = mmap(-1, size)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _write_around(column: Any, count: int, values: "array[int]") -> None:
    """Behind the first `count` ever written to a column that goes round."""
    begin = count % len(column)
    room = len(column) - begin
    if len(values) <= room:
        column[begin : begin + len(values)] = values
    else:
        column[begin:] = values[:room]
        column[: len(values) - room] = values[room:]
