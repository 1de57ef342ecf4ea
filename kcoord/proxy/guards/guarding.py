"""The guard: an interceptor that refuses requests by the operator's rules.

    request                                       refused with
    changes in read-only mode, denied APIs        the error code of guarded_apis.py, at the level refusing.py describes
    APIs and versions unknown here                hanging up; they are not announced, either
    a denied group among others                   the error for this group; the others are forwarded, and the results
                                                  merged
    a subscription that no leader can parse       INCONSISTENT_GROUP_PROTOCOL, as the coordinator for no protocols
    a member beyond the group's size limit        GROUP_MAX_SIZE_REACHED, as the coordinator with group.max.size
    a new member of a group that rebalances       COORDINATOR_LOAD_IN_PROGRESS and a throttle time: clients back off,
    too often                                     and retry
    Produce with acks=0                           hanging up, as a broker does

Limits never refuse existing members: one would lose its session, which would begin another rebalance. A new member is
checked when it asks for a member id, and again when it joins with it, as others may have joined in between.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final, NamedTuple

from kcoord.admin.durations import format_duration
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import codec, decode_request, decode_response, encode_request, known_versions
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.headers import RequestHeader, write_response_header
from kcoord.proxy.forwarding.interceptors import PASS, Answer, ClientInfo, Decision, Replace, Request
from kcoord.proxy.guards.guard_rules import GuardRules, Reason
from kcoord.proxy.guards.guarded_apis import (
    GUARDED,
    GuardedApi,
    error_of,
    group_of,
    groups_of,
    is_from_replica,
    sought_coordinator,
)
from kcoord.proxy.guards.refusal_log import RefusalLog
from kcoord.proxy.guards.refusing import Refusal, refusal_pieces, refused_response, result_list
from kcoord.proxy.guards.subscriptions import why_unfit
from kcoord.proxy.observing.group_observer import GroupObserver

_known_versions = cache(known_versions)

_EVERY_KEY: Final = range(1 << 15)
_FETCH: Final = ApiKey.FETCH
_METADATA: Final = ApiKey.METADATA
_JOIN_GROUP: Final = ApiKey.JOIN_GROUP
_CONSUMER_GROUP_HEARTBEAT: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
_WAIT: Final = timedelta(seconds=1)  # without it Java's consumer retries ten times a second
_FIRST_HARMLESS_METADATA: Final = 4  # earlier versions have no allow_auto_topic_creation


class _Refused(NamedTuple):
    reason: Reason
    refusal: Refusal


class GuardInterceptor:
    """An Interceptor that refuses requests by GuardRules, with an authorization error. `refusals` counts them by reason
    and API name.
    """

    def __init__(self, rules: GuardRules, observer: GroupObserver, clock: Callable[[], float]) -> None:
        self._rules = rules
        self._observer = observer
        self._clock = clock
        self._log = RefusalLog(clock)
        self.refusals = self._log.counts
        self.interests = _interests(rules)
        # The APIs whose responses may have to be merged.
        self.observed = frozenset(key for key in rules.apis_with_rules() if GUARDED[key].names_many_groups)

        self.limits = _limits(rules)
        self._only_replicas_matter = ApiKey.FETCH not in rules.apis_with_rules()

    def request(self, client: ClientInfo, request: Request) -> Decision:
        """Decides by the rules: passes the request, refuses it, or forwards only the part about allowed groups."""
        api = GUARDED.get(request.api_key)
        if api is None or request.api_version not in _known_versions(request.api_key):
            raise CorruptMessage(
                f"version {request.api_version} of API key {request.api_key}, of which nothing is known here"
            )
        if api.key == _FETCH and self._only_replicas_matter and not is_from_replica(request.frame, request.api_version):
            return PASS
        header, entity = decode_request(request.frame, request.api_key, request.api_version)
        groups = groups_of(api, entity)
        is_change = self._is_change(api, request, entity)
        reasons = {group_id: self._rules.why_refused(api, group_id, is_change=is_change) for group_id in groups}
        refused = {group_id: reason for group_id, reason in reasons.items() if reason}
        for group_id, reason in refused.items():
            self._log.refused(client, api.name, reason, group_id, _message(reason))
        if refused and len(refused) < len(reasons):
            return _without_refused_groups(refused, api, header, entity)
        if refused:
            reason = next(iter(refused.values()))
            return _refusal(client, api, request, entity, Refusal(error_of(api, entity), _message(reason)))
        if api.key == _METADATA:
            return _without_creation(header, entity)
        if limited := self._join_refusal(api, entity):
            self._log.refused(client, api.name, limited.reason, groups[0], limited.refusal.message)
            return _refusal(client, api, request, entity, limited.refusal)
        if _joins_by_heartbeat(api, entity):
            self._observer.on_join_heartbeat(client, request, entity)
        return PASS

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        """Does nothing: a merged response is made by the transform of Replace."""

    def on_closed(self, client: ClientInfo) -> None:
        """Does nothing: there is no state per client."""

    def _is_change(self, api: GuardedApi, request: Request, entity: Any) -> bool:
        """Whether a request may change something upstream, even if its API usually only reads."""
        if self._rules.changes(api):
            return True
        if api.key == _FETCH:
            return is_from_replica(request.frame, request.api_version)
        sought = sought_coordinator(api, entity)
        return sought is not None and self._rules.why_refused(sought, None, is_change=True) is not None

    def _join_refusal(self, api: GuardedApi, entity: Any) -> _Refused | None:
        """Returns why a joining member is refused; None for other requests, too."""
        if api.key == _CONSUMER_GROUP_HEARTBEAT:
            return self._limit_refusal(entity, entity.instance_id) if _joins_by_heartbeat(api, entity) else None
        if api.key != _JOIN_GROUP:
            return None
        if self._rules.checks_subscriptions and (why := why_unfit(entity)):
            return _Refused(Reason.SUBSCRIPTION, Refusal(ErrorCode.inconsistent_group_protocol, why))
        return self._limit_refusal(entity, getattr(entity, "group_instance_id", None))

    def _limit_refusal(self, entity: Any, instance_id: str | None) -> _Refused | None:
        group = self._observer.group(entity.group_id)
        if group is None or group.is_known(entity.member_id, instance_id):
            return None
        now = self._clock()
        size = self._rules.size_limit(entity.group_id)
        if size and group.size(now) >= size.members:
            why = f"the group has {_several(group.size(now), 'member')}, {_allowed(size.members)}"
            return _Refused(Reason.GROUP_SIZE, Refusal(ErrorCode.group_max_size_reached, why))
        rate = self._rules.rate_limit(entity.group_id)
        if rate:
            rebalances = group.rebalances_since(now - rate.span.total_seconds())
            if rebalances >= rate.rebalances:
                so_often = f"{_several(rebalances, 'time')} in {format_duration(rate.span.total_seconds())}"
                why = f"the group has rebalanced {so_often}, {_allowed(rate.rebalances)}"
                refusal = Refusal(ErrorCode.coordinator_load_in_progress, why, _WAIT)
                return _Refused(Reason.REBALANCE_RATE, refusal)
        return None


def _interests(rules: GuardRules) -> frozenset[int]:
    interests = set(rules.apis_with_rules())
    if rules.hides_unknown_apis:
        interests |= _unknown_apis()
    if rules.is_read_only:
        interests |= {api.key for api in GUARDED.values() if rules.changes(api)}
        # APIs that usually only read: see guarded_apis.py.
        interests |= {ApiKey.METADATA, ApiKey.FETCH, ApiKey.FIND_COORDINATOR}
    if rules.checks_subscriptions or rules.sizes or rules.rates:
        interests.add(ApiKey.JOIN_GROUP)
    if rules.sizes or rules.rates:
        interests.add(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    return frozenset(interests)


def _limits(rules: GuardRules) -> dict[int, range]:
    """Hides unknown APIs if rules may cover them, and in read-only mode the Metadata versions that create topics."""
    limits = dict.fromkeys(_unknown_apis(), range(0)) if rules.hides_unknown_apis else {}
    if rules.is_read_only:
        limits[ApiKey.METADATA] = range(_FIRST_HARMLESS_METADATA, known_versions(ApiKey.METADATA).stop)
    return limits


def _unknown_apis() -> set[int]:
    return {key for key in _EVERY_KEY if key not in GUARDED}


def _refusal(client: ClientInfo, api: GuardedApi, request: Request, entity: Any, refusal: Refusal) -> Answer:
    if api.key == ApiKey.PRODUCE and entity.acks == 0:
        client.hang_up(f"{api.name} without acknowledgement: {refusal.message}")
        return Answer([])
    return Answer(refusal_pieces(request.api_key, request.api_version, request.correlation_id, entity, refusal))


def _without_refused_groups(
    refused: dict[str | None, Reason], api: GuardedApi, header: RequestHeader, entity: Any
) -> Replace:
    """Forwards the request without the refused groups, whose results are merged into the response."""
    assert api.group_field is not None
    asked = getattr(entity, api.group_field)
    forwarded = tuple(each for each in asked if group_of(api, entity, each) not in refused)
    removed = tuple(each for each in asked if group_of(api, entity, each) in refused)
    refusal = Refusal(error_of(api, entity), _message(next(iter(refused.values()))))
    refused_part = replace(entity, **{api.group_field: removed})
    refusals = refused_response(header.api_key, header.api_version, refused_part, refusal)
    frame = encode_request(header, replace(entity, **{api.group_field: forwarded}))[4:]
    return Replace(frame, partial(_merge_refusals, header.api_key, header.api_version, refusals))


def _merge_refusals(api_key: int, api_version: int, refusals: Any, frame: bytes) -> bytes:
    """Merges the refusals into the broker's response about the other groups."""
    correlation_id, response = decode_response(frame, api_key, api_version)
    name = result_list(api_key, api_version)
    merged = replace(response, **{name: (*getattr(response, name), *getattr(refusals, name))})
    served = codec(api_key, api_version)
    parts = [write_response_header(correlation_id, served.response_header_version)]
    served.write_response(merged, parts)
    return b"".join(parts)


def _without_creation(header: RequestHeader, entity: Any) -> Decision:
    """Forwards Metadata with allow_auto_topic_creation off."""

    if not entity.allow_auto_topic_creation:
        return PASS
    return Replace(encode_request(header, replace(entity, allow_auto_topic_creation=False))[4:])


def _joins_by_heartbeat(api: GuardedApi, entity: Any) -> bool:
    return api.key == _CONSUMER_GROUP_HEARTBEAT and entity.member_epoch == 0


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _allowed(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'} allowed"


def _message(reason: Reason) -> str:
    match reason:
        case Reason.READ_ONLY:
            return "refused by the proxy: it is read-only"
        case Reason.NOT_ALLOWED:
            return "refused by the proxy: not among what it allows"
        case _:
            return "refused by the proxy: denied"
