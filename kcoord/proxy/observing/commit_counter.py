"""Counts the commits of groups that the upstream cluster coordinates: an interceptor that only observes."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.interceptors import PASS, ClientInfo, Decision, Request


class _Answer(NamedTuple):
    """A parsed OffsetCommit response, with its bytes behind the correlation id."""

    rest: bytes
    committed: int
    error: str | None


class CommitCounter:
    """An Interceptor that counts committed offsets, and errors of commits, in OffsetCommit responses."""

    interests: frozenset[int] = frozenset()
    observed: frozenset[int] = frozenset({ApiKey.OFFSET_COMMIT})
    limits: Mapping[int, range] = {}

    def __init__(self) -> None:
        self.offsets = 0
        """How many offsets were committed."""
        self.errors: Counter[str] = Counter()
        """How many responses had errors, by the first error in each."""
        self._last: dict[ClientInfo, _Answer] = {}

    def request(self, client: ClientInfo, request: Request) -> Decision:
        """Passes every request."""
        return PASS

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        """Counts the committed offsets and the errors in an OffsetCommit response."""
        last = self._last.get(client)
        if last is None or last.rest != frame[4:]:  # a client's commits mostly get identical responses
            try:
                last = self._last[client] = _parse_response(request, frame)
            except CorruptMessage:  # the client gets the malformed response unchanged
                return
        self.offsets += last.committed
        if last.error:
            self.errors[last.error] += 1

    def on_closed(self, client: ClientInfo) -> None:
        """Does nothing: there is no state per client."""
        self._last.pop(client, None)


def _parse_response(request: Request, frame: bytes) -> _Answer:
    _, answer = decode_response(frame, request.api_key, request.api_version)
    codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    errors = [code.name.upper() for code in codes if code is not ErrorCode.none]
    return _Answer(frame[4:], len(codes) - len(errors), errors[0] if errors else None)
