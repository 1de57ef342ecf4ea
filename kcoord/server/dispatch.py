"""From a frame to its answer: which API, which decision, which bytes.

    frame ─ header ─ kio entity ─ api/*.to_request ─ broker/* decides ─ reply ─ frame

Nothing here waits: an answer is there at once, or the request is parked under a ticket and `Runtime` answers later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kcoord.api import (
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from kcoord.api.table import announced, reshaped, served
from kcoord.broker import configs, describing, fetching, offsets, producing, topics
from kcoord.broker.cluster import Asked, Cluster, Node
from kcoord.broker.fetch_sessions import FetchSessions
from kcoord.wire.codec import decode_request, encode_response
from kcoord.wire.headers import RequestHeader, read_request_start

Decide = Callable[[Cluster, Any, Asked], Any]

_decisions: Final[Mapping[int, Decide]] = MappingProxyType(
    {
        list_offsets.KEY: offsets.list_offsets,
        metadata.KEY: describing.metadata,
        find_coordinator.KEY: describing.find_coordinator,
        create_topics.KEY: topics.create_topics,
        delete_topics.KEY: topics.delete_topics,
        delete_records.KEY: offsets.delete_records,
        init_producer_id.KEY: producing.init_producer_id,
        offset_for_leader_epoch.KEY: offsets.offset_for_leader_epoch,
        describe_configs.KEY: configs.describe_configs,
        create_partitions.KEY: topics.create_partitions,
        incremental_alter_configs.KEY: configs.alter_configs,
        describe_cluster.KEY: describing.describe_cluster,
    }
)


class Unserved(ValueError):
    """An API or version that is not served: Kafka closes the connection, and so do we."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The bytes to send; none for a Produce that asked for no answer."""

    frame: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Answer later, when what it waits for has come."""

    header: RequestHeader
    waiting: fetching.Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """Close the connection, for this reason."""

    reason: str


Outcome = Answer | Park | HangUp


class Dispatch:
    """The requests of one node."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._fetch_sessions = FetchSessions(cluster.settings.max_incremental_fetch_session_cache_slots)

    def decide(self, frame: bytes, now_ms: int) -> Outcome:
        """What becomes of a request. Raises BadBody or Unserved."""
        start = read_request_start(frame)
        api = served.get(start.api_key)
        if api is None:
            raise Unserved(f"API key {start.api_key} is not served")
        if start.api_version not in api.VERSIONS:
            return self._unserved_version(start, api.NAME)
        header, entity = decode_request(frame, start.api_key, start.api_version)
        return self._decide(header, api.to_request(entity), Asked(node=self._node, now_ms=now_ms))

    def finish(self, park: Park, now_ms: int) -> Answer:
        """The answer to a request that was parked."""
        asked = Asked(node=self._node, now_ms=now_ms)
        return _answer(park.header, fetching.finish(self._cluster, park.waiting, asked))

    def _decide(self, header: RequestHeader, request: Any, asked: Asked) -> Outcome:
        match header.api_key:
            case produce.KEY:
                return self._produce(header, request, asked)
            case fetch.KEY:
                reply = fetching.fetch(self._cluster, self._fetch_sessions, request, asked)
                if isinstance(reply, fetching.Waiting):
                    return Park(header=header, waiting=reply)
                return _answer(header, reply)
            case api_versions.KEY:
                return _answer(header, api_versions.announce(announced(), request))
            case key:
                return _answer(header, _decisions[key](self._cluster, request, asked))

    def _produce(self, header: RequestHeader, request: producing.Produce, asked: Asked) -> Outcome:
        reply = producing.produce(self._cluster, request, asked)
        if request.acks != producing.acks_none:
            return _answer(header, reply)
        # The client waits for no answer, so that a closed connection is the only way to tell it (KafkaApis does so).
        return HangUp(reason="a Produce with acks=0 failed") if reply.has_errors else Answer(frame=b"")

    def _unserved_version(self, start: RequestHeader, name: str) -> Answer:
        if start.api_key != api_versions.KEY:
            raise Unserved(f"{name} version {start.api_version} is not served")
        oldest = RequestHeader(api_key=start.api_key, api_version=0, correlation_id=start.correlation_id)
        return _answer(oldest, api_versions.refuse_version())


def _answer(header: RequestHeader, reply: Any) -> Answer:
    reshape = reshaped.get(header.api_key)
    response = reshape(reply, header.api_version) if reshape else reply
    return Answer(frame=encode_response(header, response))
