"""Finds the frames in a byte stream that is forwarded: most of its bytes pass through unread, some frames whole. Pure.

Bytes leave in the order in which they came. A chunk may end anywhere, and what it leaves unfinished is one of these:

    remaining   how many bytes are still to come of a frame whose beginning has been forwarded; they pass unread
    held        the bytes that must wait: the beginning of a frame that is needed whole, or everything since `stop`

Forwarded frames that follow each other in a chunk are one run, so that they are written in one piece:

    if scanner.feed(chunk) or scanner.begin_held():     # the second if the chunk was added to bytes that are held
        while scanner.find_frame():                     # a frame begins at `position` of `chunk`
            scanner.pass_frame(length)                  # forward it, even if most of it is still to come
            frame = scanner.take_frame(length)          # or have it whole; None: it is held until it is whole
            run = scanner.cut()                         # and forward something else instead, after this run
        run = scanner.finish()                          # the last run
"""


class FrameScanner:
    """Scans one byte stream for frames. `is_at_boundary` is whether the next byte begins a frame and may be scanned."""

    __slots__ = (
        "_frame_start",
        "_header_bytes",
        "_held",
        "_is_closed",
        "_needed_bytes",
        "_run_start",
        "chunk",
        "is_at_boundary",
        "is_stopped",
        "position",
        "remaining",
    )

    def __init__(self, header_bytes: int) -> None:
        """Scans for frames whose length and first fields, which decide about them, have so many bytes."""
        self.chunk = b""
        self.position = 0
        self.remaining = 0
        self.is_at_boundary = True
        self.is_stopped = False
        self._is_closed = False
        self._header_bytes = header_bytes
        self._held = bytearray()
        self._needed_bytes = 0
        self._run_start = self._frame_start = 0

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def pass_chunk(self, size: int) -> bool:
        """Returns whether a chunk of this size passes as it is, since it only continues a frame that passes."""
        if size > self.remaining:
            return False
        self.remaining -= size
        self.is_at_boundary = self.remaining == 0
        return True

    def feed(self, chunk: bytes) -> bool:
        """Takes received bytes; returns whether they can be scanned now. Otherwise they are held: see `begin_held`."""
        if self._is_closed:
            return False
        if self._held or self.is_stopped:
            self._held += chunk
            return False
        self._begin(chunk)
        return True

    def begin_held(self) -> bool:
        """Begins to scan the bytes that are held; returns whether there are enough of them, and scanning goes on."""
        if not self._held or self.is_stopped or len(self._held) < self._needed_bytes:
            return False
        self._begin(bytes(self._held))
        self._held.clear()
        return True

    def find_frame(self) -> bool:
        """Returns whether a frame begins at `position`, and enough of it is there to decide about it."""
        received = len(self.chunk) - self.position
        if received <= 0 or self._needed_bytes or self.is_stopped or self._is_closed:
            return False
        if received < self._header_bytes:
            self._needed_bytes = self._header_bytes
            return False
        return True

    def pass_frame(self, length: int) -> None:
        """Adds the frame at `position`, with its length prefix, to the run that is forwarded."""
        self.position += 4 + length

    def take_frame(self, length: int) -> bytes | None:
        """Takes the frame at `position` without its length prefix; None if it has to be held until it is whole.

        It stays part of the run that is forwarded, unless it is `cut` out.
        """
        end = self.position + 4 + length
        if end > len(self.chunk):
            self._needed_bytes = 4 + length
            return None
        self._frame_start, self.position = self.position, end
        return self.chunk[self._frame_start + 4 : end]

    def hold_until(self, needed_bytes: int) -> None:
        """Holds the frame at `position` until so many bytes of it, its length prefix included, have been received."""
        self._needed_bytes = needed_bytes

    def cut(self) -> bytes | memoryview:
        """Cuts the frame that was taken last out of the bytes that are forwarded, and returns those before it."""
        run = self._slice(self._run_start, self._frame_start)
        self._run_start = self.position
        return run

    def finish(self) -> bytes | memoryview:
        """Ends the scan of a chunk. Returns the bytes of it that are to be forwarded and were not returned yet; holds
        those of a frame that is needed whole and has not wholly arrived."""
        end = len(self.chunk)
        run = self._slice(self._run_start, min(self.position, end))
        if self._is_closed:
            return run
        if self.position > end:
            self.remaining = self.position - end
        elif self.position < end:
            self._held += memoryview(self.chunk)[self.position :]
        self.is_at_boundary = self.position == end and not self.is_stopped
        self.chunk = b""
        return run

    def stop(self) -> None:
        """Holds all bytes behind the frame that was taken last, until `resume`."""
        self.is_stopped = True

    def resume(self) -> bool:
        """Continues after `stop`: begins to scan the bytes that are held by now, if there are any."""
        self.is_stopped = False
        self.is_at_boundary = not self._held
        return self.begin_held()

    def close(self) -> None:
        """Drops the bytes that are held: no more frames will be found."""
        self._is_closed = True
        self.is_at_boundary = False
        self.remaining = 0
        self._held.clear()

    def _begin(self, chunk: bytes) -> None:
        self.chunk, self.position, self._run_start = chunk, self.remaining, 0
        self.remaining = self._needed_bytes = 0

    def _slice(self, start: int, end: int) -> bytes | memoryview:
        if end <= start:
            return b""
        return self.chunk if start == 0 and end == len(self.chunk) else memoryview(self.chunk)[start:end]
