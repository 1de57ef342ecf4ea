"""How requests of one API and version, and their answers, are handled: looked up by the first bytes of a frame.

| route                   | APIs and versions                                          | what is done with the frame   |
|-------------------------|------------------------------------------------------------|-------------------------------|
| request is forwarded    | most                                                       | streamed as it arrives        |
| request is seen whole   | those that interceptors intercept or observe               | buffered until it is complete |
| request is prefiltered  | those of them that an interceptor can exclude cheaply      | forwarded, if it came in one  |
| request is refused      | versions that were not announced to clients                | hung up on, as Kafka does     |
| answer is forwarded     | most                                                       | streamed as it arrives        |
| answer needs no rewrite | Fetch and Produce without addresses, the common case       | forwarded in one piece        |
| answer is scanned       | other Fetch since version 16                               | streamed, except its tail     |
| answer is whole         | those with addresses, ApiVersions, those that interceptors | buffered and rewritten        |
|                         | observe or transform                                       |                               |
"""

from collections.abc import Callable, Sequence
from copy import copy
from enum import Enum
from struct import Struct
from typing import Final

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import known_versions
from kcoord.protocol.tagged_fields import skip_tagged_fields
from kcoord.protocol.varint import read_uvarint
from kcoord.proxy.forwarding.interceptors import HasPrefilter, Interceptor, Prefilter
from kcoord.proxy.rewriting import fetch_scanner
from kcoord.proxy.rewriting.api_versions import Limits
from kcoord.proxy.rewriting.broker_addresses import may_have_addresses, rewritable_versions
from kcoord.proxy.rewriting.passthrough import (
    FIRST_BY_ID,
    fetch_needs_no_rewrite,
    produce_by_id_needs_no_rewrite,
    produce_by_name_needs_no_rewrite,
)

START: Final = Struct(">iIi")
"""The start of a request: length, API key and version as one number (the kind), correlation id."""

_HEADERLESS_LOGIN: Final = (ApiKey.SASL_HANDSHAKE, 0)
"""After SaslHandshake version 0, tokens without a header follow (KIP-152), which could be taken for requests. So it is
refused. ApiVersions still announces it: librdkafka before 2.11.1 takes a broker without it for one without logins."""
_MAX_APIS: Final = 1000
_MAX_VERSIONS: Final = 64
_FIRST_FLEXIBLE_PRODUCE: Final = 9
_FIRST_TRANSACTIONAL_PRODUCE: Final = 3


class AnswerRoute(Enum):
    """How a response gets to the client: streamed, scanned for its tail while it streams, or buffered whole."""

    PASSES = "passes"
    SCANNED = "walked"
    WHOLE = "whole"


class Route:
    """How the proxy handles requests of one API and version, and their responses: forwarded, seen whole by
    interceptors, or refused.
    """

    __slots__ = (
        "answer",
        "answer_is_only_observed",
        "answer_passes",
        "api_key",
        "api_version",
        "interceptors",
        "is_forwarded_produce",
        "is_only_observed",
        "is_produce",
        "is_refused",
        "is_seen_whole",
        "needs_no_rewrite",
        "observers",
        "passes",
        "prefilter",
    )

    def __init__(
        self, api_key: int, api_version: int, limits: Limits, interceptors: Sequence[Interceptor] = ()
    ) -> None:
        self.api_key, self.api_version = api_key, api_version
        self.observers = tuple(each for each in interceptors if api_key in each.observed)
        self.interceptors = tuple(each for each in interceptors if api_key in each.interests)
        self.is_produce = api_key == ApiKey.PRODUCE
        is_unknown_api_versions = api_key == ApiKey.API_VERSIONS and api_version not in limits[ApiKey.API_VERSIONS]
        self.is_seen_whole = bool(self.observers or self.interceptors or is_unknown_api_versions)
        is_unannounced = api_key in limits and api_version not in limits[api_key] and not is_unknown_api_versions
        self.is_refused = is_unannounced or (api_key, api_version) == _HEADERLESS_LOGIN
        self.answer = _answer_route(api_key, api_version, is_observed=bool(self.observers))
        self.answer_passes = self.answer is AnswerRoute.PASSES
        self.needs_no_rewrite = None if self.observers else _no_rewrite_check(api_key, api_version)
        self.passes = not (self.is_seen_whole or self.is_refused or self.is_produce)
        self.is_forwarded_produce = self.is_produce and not (self.is_seen_whole or self.is_refused)
        self.is_only_observed = bool(self.observers) and not (self.interceptors or self.is_refused or self.is_produce)
        is_only_intercepted = bool(self.interceptors) and not (
            self.observers or self.is_refused or is_unknown_api_versions
        )
        self.prefilter = _combined_prefilter(api_key, self.interceptors) if is_only_intercepted else None
        self.answer_is_only_observed = (
            self.answer is AnswerRoute.WHOLE
            and api_key != ApiKey.API_VERSIONS
            and not may_have_addresses(api_key, api_version)
        )

    def with_whole_answer(self) -> "Route":
        """Returns this route with the response buffered whole, for a request whose response will be transformed."""
        if self.answer is AnswerRoute.WHOLE and self.needs_no_rewrite is None:
            return self
        route = copy(self)
        route.answer, route.answer_passes, route.needs_no_rewrite = AnswerRoute.WHOLE, False, None
        return route

    def refuse(self) -> None:
        """Makes the route refuse its requests: the client is hung up on."""
        self.is_refused, self.passes, self.is_only_observed, self.is_forwarded_produce = True, False, False, False
        self.prefilter = None


def _combined_prefilter(api_key: int, interceptors: Sequence[Interceptor]) -> Prefilter | None:
    """Returns a prefilter that excludes requests all interceptors exclude, or None if one of them has no prefilter."""
    prefilters = [each.prefilter(api_key) if isinstance(each, HasPrefilter) else None for each in interceptors]
    known = [prefilter for prefilter in prefilters if prefilter is not None]
    if len(known) < len(prefilters):
        return None
    return known[0] if len(known) == 1 else lambda frame: any(screen(frame) for screen in known)


def _answer_route(api_key: int, api_version: int, *, is_observed: bool) -> AnswerRoute:
    if is_observed or api_key == ApiKey.API_VERSIONS:
        return AnswerRoute.WHOLE
    if not may_have_addresses(api_key, api_version):
        return AnswerRoute.PASSES
    return (
        AnswerRoute.SCANNED
        if api_key == ApiKey.FETCH and api_version >= fetch_scanner.FIRST_WITH_ENDPOINTS
        else AnswerRoute.WHOLE
    )


def _no_rewrite_check(api_key: int, api_version: int) -> Callable[[bytes], bool] | None:
    """Returns the check that a whole answer of this API has no addresses; None if the API has none, or no check."""
    if not may_have_addresses(api_key, api_version):
        return None
    if api_key == ApiKey.FETCH:
        return fetch_needs_no_rewrite
    if api_key == ApiKey.PRODUCE:
        return produce_by_id_needs_no_rewrite if api_version >= FIRST_BY_ID else produce_by_name_needs_no_rewrite
    return None


class Routes(dict[int, Route]):
    """The routes of a proxy, by API key and version as one number, each made when it is first looked up."""

    def __init__(self, interceptors: Sequence[Interceptor], *, refused: frozenset[int] = frozenset()) -> None:
        """`refused` are API keys that no client may use, even if ApiVersions announces them."""
        super().__init__()
        self.limits = version_limits(interceptors)
        self._interceptors = interceptors
        self._refused = refused

    def __missing__(self, kind: int) -> Route:
        api_key, api_version = kind >> 16, kind & 0xFFFF
        route = Route(api_key, api_version, self.limits, self._interceptors)
        if api_key in self._refused:
            route.refuse()
        is_likely = api_key < _MAX_APIS and api_version < _MAX_VERSIONS
        if is_likely and not route.is_refused:  # a client that sends arbitrary kinds must not fill the memory
            self[kind] = route
        return route


def version_limits(interceptors: Sequence[Interceptor]) -> dict[int, range]:
    """Returns the versions that are announced to clients at most, by API key. Requests of other versions are
    refused.
    """
    limits: dict[int, range] = {ApiKey.API_VERSIONS: known_versions(ApiKey.API_VERSIONS)}
    for api_key in range(_MAX_APIS):
        if (versions := rewritable_versions(api_key)) is not None:
            limits[api_key] = versions
    for interceptor in interceptors:
        for api_key in interceptor.interests | interceptor.observed:
            limits[api_key] = _intersection(limits.get(api_key), _readable_versions(api_key))
        for api_key, versions in interceptor.limits.items():
            limits[api_key] = _intersection(limits.get(api_key), versions)
    return limits


def _readable_versions(api_key: int) -> range:
    """Returns the versions that kio can read, with Produce from 0: Kafka 4 serves Produce from 3 but announces 0, since
    librdkafka takes a higher minimum for a broker that is too new."""
    known = known_versions(api_key)
    return range(known.stop) if api_key == ApiKey.PRODUCE else known


def _intersection(limit: range | None, other: range) -> range:
    if limit is None:
        return other
    return range(max(limit.start, other.start), min(limit.stop, other.stop))


def wants_answer(buffer: bytes, position: int, end: int, api_version: int) -> bool | None:
    """Returns whether a Produce request wants a response: not with acks=0. None if more bytes are needed to know.

    `position` is that of the client id, behind the correlation id. Raises BadVarint.
    """
    try:
        position = _skip_string(buffer, position)
        if api_version >= _FIRST_FLEXIBLE_PRODUCE:
            position = _skip_compact_string(buffer, skip_tagged_fields(buffer, position))
        elif api_version >= _FIRST_TRANSACTIONAL_PRODUCE:
            position = _skip_string(buffer, position)
        if position + 2 > end:
            return None
        return buffer[position] != 0 or buffer[position + 1] != 0
    except IndexError:
        return None


def _skip_string(buffer: bytes, position: int) -> int:
    length = buffer[position] << 8 | buffer[position + 1]
    return position + 2 + (length if length < 0x8000 else 0)


def _skip_compact_string(buffer: bytes, position: int) -> int:
    length, position = read_uvarint(buffer, position)
    return position + max(length - 1, 0)
