"""Requests that are decided in slices (broker/log/slices.py), interleaved with other work of the loop.

Theory of operation. Each iteration of the loop runs one slice of one request, so that other connections wait for one
slice at most, however many such requests there are; these take turns. Large batches are decompressed in a thread, for
one request at a time: memory is bounded by one such request, not by their number. Requests that wait for that hold
their compressed bytes, and little more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.broker.log.slices import Decompression, Slices


class _Job:
    """A request that is being decided."""

    __slots__ = ("is_dropped", "slices", "ticket")

    def __init__(self, ticket: Ticket, slices: "Slices[Any]") -> None:
        self.ticket = ticket
        self.slices = slices
        self.is_dropped = False


class SlicedRequests:
    """Runs requests that take long, such as a large Produce, in slices: one slice of one request in each iteration of
    the event loop. Large batches are decompressed in a thread, one at a time.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        finish: Callable[[Ticket, Any], None],
        fail: Callable[[Ticket, Exception], None],
    ) -> None:
        """`finish` is called with the return value of a request's slices, `fail` with their exception."""
        self._loop = loop
        self._finish = finish
        self._fail = fail
        self._jobs: dict[Ticket, _Job] = {}
        self._ready: deque[_Job] = deque()
        self._large: _Job | None = None  # the only job that may hold decompressed bytes, until it is done
        self._waiting: deque[tuple[_Job, Decompression]] = deque()  # jobs that need to become the large one
        self._scheduled: asyncio.Handle | None = None

    def add(self, ticket: Ticket, slices: "Slices[Any]", decompression: "Decompression | None") -> None:
        """Schedules the remaining slices of a request whose first slice has run. `decompression` is what that slice
        yielded, if anything.
        """
        self._jobs[ticket] = job = _Job(ticket, slices)
        self._schedule(job, decompression)

    def forget(self, ticket: Ticket) -> None:
        """Drops the request of a connection that has closed."""
        job = self._jobs.pop(ticket, None)
        if job is not None:
            job.is_dropped = True
            self._waiting = deque(each for each in self._waiting if each[0] is not job)
            if job in self._ready:
                self._ready.remove(job)
                self._end(job)

    def has(self, ticket: Ticket) -> bool:
        """Returns whether the request of this ticket still has slices to run."""
        return ticket in self._jobs

    def close(self) -> None:
        """Drops all requests, when the server stops."""
        for ticket in list(self._jobs):
            self.forget(ticket)
        if self._scheduled is not None:
            self._scheduled.cancel()

    def _schedule(self, job: _Job, decompression: "Decompression | None") -> None:
        if decompression is None:
            self._ready.append(job)
            if self._scheduled is None:
                self._scheduled = self._loop.call_soon(self._run_next)
        elif self._large is None or self._large is job:
            self._large = job
            running = self._loop.run_in_executor(None, decompression.run)
            running.add_done_callback(partial(self._decompressed, job))
        else:
            self._waiting.append((job, decompression))

    def _run_next(self) -> None:
        self._scheduled = None
        try:
            if self._ready:
                job = self._ready.popleft()
                self._advance(job, partial(job.slices.send, None))
        finally:  # a fault in one request must not stop the others
            if self._ready and self._scheduled is None:
                self._scheduled = self._loop.call_soon(self._run_next)

    def _decompressed(self, job: _Job, running: "asyncio.Future[bytes]") -> None:
        if job.is_dropped or running.cancelled():
            self._end(job)
            return
        error = running.exception()
        if error is None:
            self._advance(job, partial(job.slices.send, running.result()))
        else:
            self._advance(job, partial(job.slices.throw, error))

    def _advance(self, job: _Job, step: Callable[[], "Decompression | None"]) -> None:
        try:
            decompression = step()
        except StopIteration as end:
            self._end(job)
            self._finish(job.ticket, end.value)
        except Exception as error:
            self._end(job)
            self._fail(job.ticket, error)
        else:
            self._schedule(job, decompression)

    def _end(self, job: _Job) -> None:
        """Ends a job; if it was the large one, the next waiting job becomes it."""
        self._jobs.pop(job.ticket, None)
        job.slices.close()
        if self._large is job:
            self._large = None
            if self._waiting:
                self._schedule(*self._waiting.popleft())
