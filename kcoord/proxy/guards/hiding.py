"""An interceptor that hides a topic and a transactional id from clients, whatever the cluster's ACLs allow.

It has three uses. It hides the proxy's journal in all APIs. It hides `__transaction_state`, whose records reveal the
journal's transactions and can end them, in the APIs that read or change it. It hides `__consumer_offsets` in the APIs
by which clients could get around rules that deny groups. For the journal:

The journal of groups that the proxy coordinates is a topic of the cluster (local/kafka_log.py). A client that could
access it through the proxy could forge offsets, delete groups, or fence the journal's writer. So clients cannot see it:

    request                                         the client gets
    names the topic, among others or alone          UNKNOWN_TOPIC_OR_PARTITION for it; the others are forwarded
    names it by id                                  UNKNOWN_TOPIC_ID
    CreateTopics with its name, or one that         TOPIC_AUTHORIZATION_FAILED
    collides with it (`.` and `_` are the same)
    names the transactional id                      TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    all topics, all transactions, all configs       the cluster's answer without it; a cursor to the next page that
                                                    would name it has another name
    Produce to it alone, with acks=0                no answer: the proxy hangs up, as a broker does
    APIs that naming_apis.py refuses                the proxy hangs up; they are not announced, either

Requests of the APIs in naming_apis.py are seen whole and searched for the bytes of the names; only those that contain
them are parsed. The search skips the records of a large Produce request. This interceptor runs before all others.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import codec, decode_request, decode_response, encode_request, known_versions
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.headers import RequestHeader, write_response_header
from kcoord.proxy.forwarding.interceptors import PASS, Answer, ClientInfo, Decision, Prefilter, Replace, Request
from kcoord.proxy.guards.guard_rules import Reason
from kcoord.proxy.guards.guarded_apis import GUARDED
from kcoord.proxy.guards.hidden_names import HiddenNames, Kind
from kcoord.proxy.guards.naming_apis import ALTER_CONFIGS, NAMING, REFUSED, NamingApi
from kcoord.proxy.guards.produce_names import names_in_produce
from kcoord.proxy.guards.refusal_log import RefusalLog
from kcoord.proxy.guards.refusing import Refusal, refused_response, result_list

_known_versions = cache(known_versions)

TRANSACTIONS_TOPIC: Final = "__transaction_state"
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_CURSOR_NAME: Final = "."
"""The name in a cursor that replaces the hidden one: no topic can have it."""
_PRODUCE: Final = ApiKey.PRODUCE
_CREATE_TOPICS: Final = ApiKey.CREATE_TOPICS
_BEHIND_ALL_PARTITIONS: Final = 1 << 24
_FIRST_BY_ID: Final = 13  # Fetch and Produce name topics by id from this version
_SHORT: Final = 4096
"""Frames of at most so many bytes are searched as they are: that takes no time."""
_TRANSACTION_KEY: Final = 1  # a key type of FindCoordinator
_MESSAGES: Final[Mapping[ErrorCode, str]] = {  # as Kafka's Errors has them
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.unknown_topic_id: "This server does not host this topic ID.",
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.operation_not_attempted: "The broker did not attempt to execute this operation.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """What a HidingInterceptor hides: the names, the APIs in which they are hidden, and the reason that is logged."""

    names: HiddenNames
    apis: Mapping[int, NamingApi]
    limits: Mapping[int, range]
    reason: Reason
    why: str


def hidden_journal(names: HiddenNames) -> Hidden:
    """Returns what a HidingInterceptor hides of the proxy's journal (the topic with groups' records): its topic and its
    transactional id, in all APIs.
    """
    return Hidden(
        names=names,
        apis=NAMING,
        limits=dict.fromkeys(REFUSED, range(0)),
        reason=Reason.JOURNAL,
        why="the journal of groups is the proxy's own",
    )


def untouchable_transactions(names: HiddenNames) -> Hidden:
    """Returns what a HidingInterceptor hides of `__transaction_state`: its name in the APIs that read or change its
    records and settings. Clients may see that it exists.

    A broker lets clients write to it that call themselves `__admin_client`.
    """
    keys = (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.WRITE_TXN_MARKERS,
        *ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
    )
    return Hidden(
        names=names,
        apis={key: replace(NAMING[key], unknown=ErrorCode.topic_authorization_failed) for key in keys},
        limits={},
        reason=Reason.JOURNAL,
        why="the transactions of the journal of groups are in this topic",
    )


def denied_offsets_topic(api_keys: Iterable[int]) -> Hidden:
    """Returns what a HidingInterceptor hides of `__consumer_offsets`: its name in these APIs alone.

    Clients are limited to the versions of these APIs that name topics and do not use ids: the proxy may have no login
    with which it could find out the topic's id.
    """
    apis = {key: replace(NAMING[key], unknown=ErrorCode.topic_authorization_failed) for key in api_keys}
    return Hidden(
        names=HiddenNames(topic=_OFFSETS_TOPIC),
        apis=apis,
        limits=dict.fromkeys(apis, range(_FIRST_BY_ID)),
        reason=Reason.DENIED,
        why="refused by the proxy: denied groups are in this topic",
    )


class HidingInterceptor:
    """An Interceptor that hides topics and transactional ids from clients: requests that name them get errors,
    responses omit them.
    """

    observed: frozenset[int] = frozenset()

    def __init__(self, hidden: "Hidden", clock: Callable[[], float]) -> None:
        self.names = hidden.names
        self.interests = frozenset(hidden.apis)
        self.limits = hidden.limits
        self._hidden = hidden
        self._log = RefusalLog(clock)
        self.refusals = self._log.counts

    def request(self, client: ClientInfo, request: Request) -> Decision:
        """Decides on a request: passes it if it names nothing hidden, else refuses it or forwards the rest of it."""
        api = self._hidden.apis[request.api_key]
        if api.has_cursor:
            request = self._with_hidden_cursor(request)
        split = self._split(api, request) if self._may_be_named(request) else None
        if split is None:
            return Replace(request.frame, partial(self._without_hidden, api, request)) if api.shown else PASS
        self._log.refused(client, GUARDED[api.key].name, self._hidden.reason, None, self._hidden.why)
        if split.forwarded is not None:
            frame = encode_request(split.header, split.forwarded)[4:]
            return Replace(frame, partial(self._merged_with_refusals, api, request, split.results))
        if api.key == ApiKey.PRODUCE and split.request.acks == 0:
            client.hang_up(f"Produce without acknowledgement: {self._hidden.why}")
            return Answer([])
        (first, *others) = split.results
        response = first if not others else _merged(api, request.api_version, first, others)
        return Answer(codec(api.key, request.api_version).response_pieces(request.correlation_id, response))

    def prefilter(self, api_key: int) -> Prefilter | None:
        """Returns a test whether a frame may contain a hidden name; None for an API of which every request must be
        seen, because its responses list names.
        """
        is_always_seen = self._hidden.apis[api_key].shown or api_key == ApiKey.CREATE_TOPICS
        return None if is_always_seen else self._may_be_in_short

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        """Does nothing: responses are changed by the transform of Replace."""

    def on_closed(self, client: ClientInfo) -> None:
        """Does nothing: there is no state per client."""

    def _may_be_in_short(self, frame: bytes) -> bool:
        return len(frame) > _SHORT or self.names.may_be_in(frame)

    def _may_be_named(self, request: Request) -> bool:
        frame = request.frame
        if request.api_key == _CREATE_TOPICS:  # a name that collides with the hidden one has other bytes
            return True
        if request.api_key == _PRODUCE and len(frame) > _SHORT:
            frame = names_in_produce(frame, request.api_version)
        return self.names.may_be_in(frame)

    def _split(self, api: NamingApi, request: Request) -> "_Split | None":
        """Splits a request; returns None if it names nothing hidden: the bytes found mean something else."""
        if request.api_version not in _known_versions(api.key):
            raise CorruptMessage(f"version {request.api_version} of API key {api.key}, which cannot be read here")
        header, entity = decode_request(request.frame, api.key, request.api_version)
        forwarded, refused = split(api, entity, self.names)
        if not refused:
            return None
        results = [_refused(api, request.api_version, part, error) for error, part in refused.items()]
        return _Split(header, entity, forwarded, [] if api.is_silent else results)

    def _merged_with_refusals(self, api: NamingApi, request: Request, results: list[Any], frame: bytes) -> bytes:
        """Merges the results for hidden names into the broker's answer about the rest."""
        frame = self._without_hidden(api, request, frame) if api.shown else frame
        if not results:
            return frame
        correlation_id, response = decode_response(frame, api.key, request.api_version)
        return _encoded(api.key, request, correlation_id, _merged(api, request.api_version, response, results))

    def _without_hidden(self, api: NamingApi, request: Request, frame: bytes) -> bytes:
        """Removes hidden names from the broker's answer."""
        if not self.names.may_be_in(frame):
            return frame
        correlation_id, response = decode_response(frame, api.key, request.api_version)
        if api.key == ApiKey.METADATA:
            self._learn(response)
        shown = without_hidden(response, api.shown, self.names)
        if api.has_cursor and shown.next_cursor and shown.next_cursor.topic_name == self.names.topic:
            shown = replace(shown, next_cursor=replace(shown.next_cursor, topic_name=_CURSOR_NAME, partition_index=0))
        return _encoded(api.key, request, correlation_id, shown)

    def _with_hidden_cursor(self, request: Request) -> Request:
        """Returns the request with a cursor behind the hidden topic if its cursor represents or names that topic."""
        header, entity = decode_request(request.frame, request.api_key, request.api_version)
        if not entity.cursor or entity.cursor.topic_name not in (_CURSOR_NAME, self.names.topic):
            return request
        behind = replace(entity.cursor, topic_name=self.names.topic, partition_index=_BEHIND_ALL_PARTITIONS)
        return request._replace(frame=encode_request(header, replace(entity, cursor=behind))[4:])

    def _learn(self, response: Any) -> None:
        for topic in response.topics:
            if topic.name == self.names.topic and getattr(topic, "topic_id", None):
                self.names.learn_topic_id(topic.topic_id)


class _Split(NamedTuple):
    """A request, split into the part to forward and the results for the hidden part."""

    header: RequestHeader
    request: Any
    forwarded: Any | None
    """The request without hidden names; None if nothing remains to be forwarded."""
    results: list[Any]
    """Responses with the results for hidden names."""


def split(api: NamingApi, entity: Any, names: HiddenNames) -> tuple[Any | None, dict[ErrorCode, Any]]:
    """Splits a request (kio's entity) into the part to forward (None if nothing is left) and the parts to refuse, by
    error.
    """
    if api.key == ApiKey.FIND_COORDINATOR and getattr(entity, "key_type", 0) != _TRANSACTION_KEY:
        return entity, {}
    if any(names.is_transaction(getattr(entity, field, None)) for field in api.transaction_fields):
        return None, {ErrorCode.transactional_id_authorization_failed: entity}
    field = next((each for each in api.lists if hasattr(entity, each)), None)
    requested = getattr(entity, field) if field else None
    if not field or not requested:  # it names nothing: it requests everything, or nothing
        return entity, {}
    forwarded, refused = _split_list(api, requested, names)
    rest_of_request = replace(entity, **{field: tuple(forwarded)})
    is_forwarded = bool(forwarded) or api.is_silent or _continues_session(api, entity)
    return rest_of_request if is_forwarded else None, {
        error: replace(entity, **{field: tuple(part)}) for error, part in refused.items()
    }


def without_hidden(entity: Any, path: tuple[str, ...], names: HiddenNames) -> Any:
    """Removes elements with hidden names from the list at the end of the path in a response entity, and from the lists
    along it.
    """
    field, *deeper = path
    visible = [each for each in getattr(entity, field) if not _is_hidden(each, names)]
    if deeper:
        visible = [without_hidden(each, tuple(deeper), names) for each in visible]
    return replace(entity, **{field: tuple(visible)})


_Refused = dict[ErrorCode, list[Any]]


def _split_list(api: NamingApi, asked: tuple[Any, ...], names: HiddenNames) -> tuple[list[Any], _Refused]:
    if api.inner and hasattr(asked[0], api.inner):
        return _split_nested(api, api.inner, asked, names)
    forwarded: list[Any] = []
    refused: _Refused = {}
    for each in asked:
        error = names.error_for(each, api.kind, api.unknown)
        if api.key == ApiKey.CREATE_TOPICS and names.collides(each.name):
            error = api.unknown
        (forwarded if error is None else refused.setdefault(error, [])).append(each)
    if api.is_atomic and refused and forwarded:
        refused[ErrorCode.operation_not_attempted] = forwarded
        forwarded = []
    return forwarded, refused


def _split_nested(api: NamingApi, inner: str, asked: tuple[Any, ...], names: HiddenNames) -> tuple[list[Any], _Refused]:
    """Splits elements whose names are in an inner list; an element may also be hidden itself."""
    flat = replace(api, inner=None)
    forwarded: list[Any] = []
    refused: _Refused = {}
    for each in asked:
        if (error := names.error_for(each, api.kind, api.unknown)) is not None:
            refused.setdefault(error, []).append(each)
            continue
        rest, inside = _split_list(flat, getattr(each, inner), names)
        if rest or not inside:
            forwarded.append(replace(each, **{inner: tuple(rest)}))
        for inner_error, part in inside.items():
            refused.setdefault(inner_error, []).append(replace(each, **{inner: tuple(part)}))
    return forwarded, refused


def _continues_session(api: NamingApi, entity: Any) -> bool:
    """Whether a request is a Fetch within a session: with no topics, it fetches all of the session (KIP-227)."""
    return api.key == ApiKey.FETCH and getattr(entity, "session_epoch", 0) > 0


def _is_hidden(entity: Any, names: HiddenNames) -> bool:
    return names.error_for(entity, Kind.TOPIC, ErrorCode.unknown_topic_or_partition) is not None


def _refused(api: NamingApi, api_version: int, entity: Any, error: ErrorCode) -> Any:
    refusal = Refusal(error, _MESSAGES[error])
    return refused_response(api.key, api_version, entity, refusal, is_per_element=True)


def _merged(api: NamingApi, api_version: int, response: Any, others: list[Any]) -> Any:
    """Merges the results of several responses into one."""
    name = result_list(api.key, api_version)
    results = [result for each in (response, *others) for result in getattr(each, name)]
    return replace(response, **{name: tuple(results)})


def _encoded(api_key: int, request: Request, correlation_id: int, response: Any) -> bytes:
    """Encodes a response, without its length."""
    known = codec(api_key, request.api_version)
    parts = [write_response_header(correlation_id, known.response_header_version)]
    known.write_response(response, parts)
    return b"".join(parts)
