"""Throws malformed frames at a server: python -m tests.hostile.fuzzing HOST:PORT SEED FRAMES

Frames are sent a few at a time over many connections. The correlation id of each is its index, so that the answers show
how far the server got; if it hangs up, the next connection continues behind the frame that it refused. The connection
of a frame that waits (a Fetch that parks) is closed. The outcome is printed as one line of JSON.
"""

import json
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random

from kcoord.protocol.frames import FrameSplitter
from tests.hostile.mutations import malformed_frame

CONNECTIONS = 48
FRAMES_AT_ONCE = 6
PARKED_AFTER = 0.3
BAD_LENGTHS = (-1, -(2**31), 2**31 - 1, 200_000_000)


@dataclass(slots=True)
class Outcome:
    """How many frames were answered, closed their connection, or were parked when their connection was closed."""

    answered: int = 0
    closed: int = 0
    parked: int = 0
    connections: int = 0
    seconds: float = 0.0

    @property
    def frames(self) -> int:
        return self.answered + self.closed + self.parked


@dataclass(slots=True)
class Volley:
    """A connection, its frames, and how many of them are answered."""

    raw: socket.socket
    splitter: FrameSplitter
    frames: list[bytes]
    done: int
    sent_at: float


class Fuzzer:
    def __init__(self, address: tuple[str, int], seed: int, count: int) -> None:
        self._address = address
        self._fresh = self._generate(Random(seed), count)
        self._again: deque[bytes] = deque()
        self._selector = selectors.DefaultSelector()
        self._volleys: dict[int, Volley] = {}
        self.outcome = Outcome()

    def run(self) -> Outcome:
        started = time.perf_counter()
        self._open_more()
        while self._volleys:
            for key, _ in self._selector.select(timeout=0.05):
                self._receive(key.data)
            self._give_up_waiting()
            self._open_more()
        self.outcome.seconds = time.perf_counter() - started
        return self.outcome

    @staticmethod
    def _generate(random: Random, count: int) -> Iterator[bytes]:
        for _ in range(count):
            frame = malformed_frame(random)
            length = len(frame) if random.random() > 0.005 else random.choice(BAD_LENGTHS)
            yield struct.pack(">i", length) + frame

    def _open_more(self) -> None:
        while len(self._volleys) < CONNECTIONS and (frames := self._next_frames()):
            raw = socket.create_connection(self._address, timeout=20)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.outcome.connections += 1
            volley = Volley(raw, FrameSplitter(2**31 - 1), [], 0, 0.0)
            self._volleys[raw.fileno()] = volley
            self._selector.register(raw, selectors.EVENT_READ, volley)
            self._send(volley, frames)

    def _next_frames(self) -> list[bytes]:
        frames: list[bytes] = []
        while len(frames) < FRAMES_AT_ONCE:
            frame = self._again.popleft() if self._again else next(self._fresh, None)
            if frame is None:
                break
            frames.append(frame)
        return frames

    def _send(self, volley: Volley, frames: list[bytes]) -> None:
        volley.frames, volley.done, volley.sent_at = frames, 0, time.monotonic()
        try:
            volley.raw.sendall(b"".join(_numbered(frame, number) for number, frame in enumerate(frames)))
        except (BrokenPipeError, ConnectionResetError):
            self._end(volley)

    def _receive(self, volley: Volley) -> None:
        try:
            chunk = volley.raw.recv(1 << 18)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            self.outcome.closed += 1
            self._end(volley)
            return
        for answer in volley.splitter.feed(chunk):
            number: int = struct.unpack_from(">i", answer)[0]
            assert volley.done <= number < len(volley.frames), f"an answer to {number} after {volley.done} answers"
            self.outcome.answered += number + 1 - volley.done
            volley.done, volley.sent_at = number + 1, time.monotonic()
        if volley.done == len(volley.frames):
            if frames := self._next_frames():
                self._send(volley, frames)
            else:
                self._end(volley)

    def _give_up_waiting(self) -> None:
        oldest = time.monotonic() - PARKED_AFTER
        for volley in [volley for volley in self._volleys.values() if volley.sent_at < oldest]:
            self.outcome.parked += 1
            self._end(volley)

    def _end(self, volley: Volley) -> None:
        """Closes the connection; the frames behind the one that ended it are sent again."""
        self._again += volley.frames[volley.done + 1 :]
        self._selector.unregister(volley.raw)
        del self._volleys[volley.raw.fileno()]
        volley.raw.close()


def _numbered(frame: bytes, number: int) -> bytes:
    return frame[:8] + struct.pack(">i", number) + frame[12:] if len(frame) >= 12 else frame


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    result = Fuzzer((host, int(port)), int(sys.argv[2]), int(sys.argv[3])).run()
    print(json.dumps(asdict(result)))
