"""Commits of groups that the upstream cluster coordinates, counted on the way: an interceptor that lets all pass."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response
from kcoord.protocol.frames import BadBody
from kcoord.proxy.forwarding.interceptors import PASS, ClientInfo, Decision, Request

OFFSET_COMMIT: Final = 8


class _Answer(NamedTuple):
    """All of it but the correlation id, and what it says."""

    rest: bytes
    committed: int
    error: str | None


class CommitCounting:
    interests: frozenset[int] = frozenset()
    watched: frozenset[int] = frozenset({OFFSET_COMMIT})
    limits: Mapping[int, range] = {}

    def __init__(self) -> None:
        self.offsets = 0
        """Those that were committed."""
        self.errors: Counter[str] = Counter()
        """Of answers, by the first error that is in them."""
        self._last: dict[ClientInfo, _Answer] = {}

    def request(self, client: ClientInfo, request: Request) -> Decision:
        return PASS

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        last = self._last.get(client)
        if last is None or last.rest != frame[4:]:  # a client commits to the same partitions again and again
            try:
                last = self._last[client] = _read(request, frame)
            except BadBody:  # the client gets it as it is, and will say what it thinks of it
                return
        self.offsets += last.committed
        if last.error:
            self.errors[last.error] += 1

    def gone(self, client: ClientInfo) -> None:
        self._last.pop(client, None)


def _read(request: Request, frame: bytes) -> _Answer:
    _, answer = decode_response(frame, request.api_key, request.api_version)
    codes = [line.error_code for topic in answer.topics for line in topic.partitions]
    errors = [code.name.upper() for code in codes if code is not ErrorCode.none]
    return _Answer(frame[4:], len(codes) - len(errors), errors[0] if errors else None)
