"""Replaces broker addresses in whole answers, by API and version. Pure.

| API                              | where the addresses are                                                   |
|----------------------------------|---------------------------------------------------------------------------|
| Metadata, DescribeCluster        | brokers, near the beginning: what follows may be large, and is not walked |
| FindCoordinator                  | coordinators                                                              |
| ShareFetch, ShareAcknowledge     | node endpoints, at the end                                                |
| Produce since 10, Fetch since 16 | node endpoints, in a tagged field at the end (node_endpoints.py)          |

In all of them an address has the same layout: the broker's id (4 bytes), the host (a string), the port (4 bytes). So
it is enough to find the hosts, with a search that is generated from kio's classes.

DescribeQuorum since version 2 names the endpoints of controllers, which clients cannot reach through a proxy: clients
are limited to earlier versions. Answers with addresses that brokers and controllers send each other do not concern
clients.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from struct import Struct
from typing import Final, NamedTuple, Protocol

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import codec, known_versions
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.headers import read_response_header
from kcoord.protocol.validate import Search
from kcoord.protocol.varint import uvarint
from kcoord.proxy.rewriting import node_endpoints
from kcoord.proxy.rewriting.endpoints import Endpoint, EndpointOf, encode, encode_compact

_ADDRESSES_SINCE: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 16,
    ApiKey.METADATA: 0,
    ApiKey.FIND_COORDINATOR: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.SHARE_FETCH: 0,
    ApiKey.SHARE_ACKNOWLEDGE: 0,
}
_LIMITED_TO: Final[Mapping[int, range]] = {ApiKey.DESCRIBE_QUORUM: range(2)}
_ALL_BROKERS: Final = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER})
_IN_TAGS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
_NUMBER: Final = Struct(">i")


class ResponseWithAddresses(Protocol):
    """A response that names brokers, whose addresses in it have been located."""

    @property
    def brokers(self) -> Mapping[int, Endpoint]:
        """The upstream endpoints of the brokers that it names, by broker id."""

    def rewritten(self, endpoint_of: EndpointOf) -> bytes:
        """Returns the response frame with every broker's endpoint replaced by that of the proxy."""


def rewritable_versions(api_key: int) -> range | None:
    """Returns the versions of an API whose responses the proxy can rewrite; None for an API whose responses never name
    brokers.
    """
    if api_key not in _ADDRESSES_SINCE:
        return _LIMITED_TO.get(api_key)
    known = known_versions(api_key)
    # Versions without addresses need not be known: they are forwarded as they are.
    return range(0 if _ADDRESSES_SINCE[api_key] else known.start, known.stop)


def may_have_addresses(api_key: int, api_version: int) -> bool:
    """Returns whether responses of this API and version may name brokers."""
    return api_key in _ADDRESSES_SINCE and api_version >= _ADDRESSES_SINCE[api_key]


def names_all_brokers(api_key: int) -> bool:
    """Returns whether responses of this API name all brokers of the cluster, such as Metadata."""
    return api_key in _ALL_BROKERS


def find_addresses(frame: bytes, api_key: int, api_version: int) -> ResponseWithAddresses | None:
    """Locates the addresses of brokers in a response frame; None if it has none. Raises CorruptMessage."""
    return _with_tail(frame, api_key, api_version) if api_key in _IN_TAGS else _with_hosts(frame, api_key, api_version)


class _WithTail(NamedTuple):
    body: bytes
    tail: bytes

    @property
    def brokers(self) -> Mapping[int, Endpoint]:
        return node_endpoints.brokers_in(self.tail)

    def rewritten(self, endpoint_of: EndpointOf) -> bytes:
        return self.body + node_endpoints.rewrite(self.tail, endpoint_of)


def _with_tail(frame: bytes, api_key: int, api_version: int) -> ResponseWithAddresses | None:
    known = codec(api_key, api_version)
    _, position = read_response_header(frame, known.response_header_version)
    start = known.find_response_tags(frame, position)
    return _WithTail(frame[:start], frame[start:]) if frame[start:] != node_endpoints.NO_TAGS else None


class _Host(NamedTuple):
    node_id: int
    endpoint: Endpoint
    start: int
    """The position of the host's length."""
    end: int
    """The position behind the port."""


class _WithHosts(NamedTuple):
    frame: bytes
    hosts: Sequence[_Host]
    is_compact: bool

    @property
    def brokers(self) -> Mapping[int, Endpoint]:
        return {each.node_id: each.endpoint for each in self.hosts}

    def rewritten(self, endpoint_of: EndpointOf) -> bytes:
        encoded = encode_compact if self.is_compact else encode
        parts: list[bytes] = []
        position = 0
        for each in self.hosts:
            parts += [self.frame[position : each.start], encoded(endpoint_of(each.node_id))]
            position = each.end
        return b"".join([*parts, self.frame[position:]])


def _with_hosts(frame: bytes, api_key: int, api_version: int) -> ResponseWithAddresses | None:
    header_version, search = _search(api_key, api_version)
    is_compact = header_version == 1
    _, position = read_response_header(frame, header_version)
    found = [_host(frame, start, int(form[:-1]), is_compact) for start, form in search(frame, position)]
    known = [each for each in found if each.node_id >= 0 and each.endpoint.host]
    return _WithHosts(frame, known, is_compact) if known else None


@cache
def _search(api_key: int, api_version: int) -> tuple[int, Search]:
    known = codec(api_key, api_version)
    last_field = "brokers" if api_key in _ALL_BROKERS else None
    return known.response_header_version, known.find_in_response("host", last_field=last_field)


def _host(frame: bytes, start: int, size: int, is_compact: bool) -> _Host:
    before = start - (len(uvarint(size + 1)) if is_compact else 2)
    end = start + size + 4
    if before < 4 or end > len(frame):
        raise CorruptMessage("an address that does not fit its answer")
    (node_id,) = _NUMBER.unpack_from(frame, before - 4)
    (port,) = _NUMBER.unpack_from(frame, start + size)
    return _Host(node_id, Endpoint(frame[start : start + size].decode(errors="replace"), port), before, end)
