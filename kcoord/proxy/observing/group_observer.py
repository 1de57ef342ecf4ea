"""Observes groups in forwarded requests and responses: an interceptor that changes nothing.

It remembers a bounded number of groups, those seen most recently. It reads JoinGroup, SyncGroup, Heartbeat, LeaveGroup
and ConsumerGroupHeartbeat; observed_group.py and observed_consumer_group.py derive a group's state from them.

    a join is sent          An unknown group is added. The pending join counts towards the group, whatever its kind.
    it succeeds             The group becomes one of the kind that this API is for, even if it was taken for the other.
    it is refused           What is known of the group stays; no group is added.
    the client disconnects  Its unanswered joins no longer count.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.groups.classic.state import State
from kcoord.protocol.codec import decode_request, decode_response
from kcoord.protocol.consumer_protocol import read_subscription
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.interceptors import PASS, ClientInfo, Decision, Request
from kcoord.proxy.observing.observed_consumer_group import Heartbeat, ObservedConsumerGroup
from kcoord.proxy.observing.observed_group import (
    Cause,
    JoinRequest,
    JoinResponse,
    ObservedGroup,
    ObservedMember,
    Rebalanced,
)
from kcoord.server.log_text import escape_name, quoted

log = logging.getLogger("kcoord.groups")

_JOIN_GROUP: Final = ApiKey.JOIN_GROUP
_HEARTBEAT: Final = ApiKey.HEARTBEAT
_LEAVE_GROUP: Final = ApiKey.LEAVE_GROUP
_SYNC_GROUP: Final = ApiKey.SYNC_GROUP
_CONSUMER_GROUP_HEARTBEAT: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT

_MAX_GROUPS: Final = 10_000
_UNKNOWN_MEMBER_ERRORS: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id)

AnyObservedGroup = ObservedGroup | ObservedConsumerGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A snapshot of one observed group, for operators: its state, members and number of rebalances."""

    group_id: str
    kind: str  # classic or consumer
    state: str
    generation: int  # of a consumer group, its epoch
    protocol_type: str
    protocol: str
    members: tuple[ObservedMember, ...]
    rebalances: int  # how many are remembered


@dataclass(frozen=True, slots=True, eq=False)
class _Ticket:
    """Identifies a join without an answer. No two are equal, since a client may send the same frame twice."""

    group_id: str
    api_key: int
    correlation_id: int


class _RepeatedHeartbeat(NamedTuple):
    """A client's last successful heartbeat and its response, each without the correlation id."""

    request: bytes
    answer: bytes
    group: ObservedGroup
    member_id: str
    generation: int


class GroupObserver:
    """An Interceptor that derives the states, members and rebalances of groups from the requests and responses that
    pass through the proxy. It changes nothing."""

    interests: frozenset[int] = frozenset({_JOIN_GROUP})
    observed: frozenset[int] = frozenset(
        {_JOIN_GROUP, _HEARTBEAT, _LEAVE_GROUP, _SYNC_GROUP, _CONSUMER_GROUP_HEARTBEAT}
    )
    limits: dict[int, range] = {}  # noqa: RUF012 - none, and never any

    def __init__(self, clock: Callable[[], float], *, max_groups: int = _MAX_GROUPS) -> None:
        self.rebalances: Counter[Cause] = Counter()
        self.errors: Counter[tuple[int, str]] = Counter()
        """How many responses had an error, by API key and Kafka's name of the error."""
        self._clock = clock
        self._max_groups = max_groups
        self._groups: dict[str, AnyObservedGroup] = {}  # the most recently seen last
        self._pending_joins: dict[ClientInfo, deque[_Ticket]] = {}  # joins without an answer, in order
        self._last_heartbeats: dict[ClientInfo, _RepeatedHeartbeat] = {}

    # Queries

    def group(self, group_id: str) -> AnyObservedGroup | None:
        """Returns an observed group, or None if it was not observed or is forgotten."""
        return self._groups.get(group_id)

    def groups(self) -> Iterator[GroupView]:
        """Yields a snapshot of each remembered group."""
        now = self._clock()
        for group in self._groups.values():
            yield GroupView(
                group_id=group.group_id,
                kind="classic" if isinstance(group, ObservedGroup) else "consumer",
                state=group.state,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol=group.protocol,
                members=tuple(group.alive(now)),
                rebalances=len(group.rebalanced_at),
            )

    def groups_by_state(self) -> Counter[str]:
        """Counts the remembered groups by state."""
        return Counter(str(group.state) for group in self._groups.values())

    def member_count(self) -> int:
        """Returns how many members all remembered groups have."""
        now = self._clock()
        return sum(len(group.alive(now)) for group in self._groups.values())

    # Observations

    def request(self, client: ClientInfo, request: Request) -> Decision:
        """Notes a JoinGroup that is being forwarded, and passes it."""
        header, entity = decode_request(request.frame, request.api_key, request.api_version)
        join = _parse_join(entity, header.client_id or "", client.host)
        if not _only_requests_member_id(request.api_version, join.member):
            ticket = self._ticket(client, request, entity.group_id)
            group = self._find(entity.group_id) or self._classic_group(entity.group_id)
            if isinstance(group, ObservedGroup):
                group.on_join_sent(ticket, join)
            else:
                group.add_pending_join(ticket, join.member)
        return PASS

    def on_join_heartbeat(self, client: ClientInfo, request: Request, heartbeat: Any) -> None:
        """Records a joining ConsumerGroupHeartbeat (KIP-848) that is being forwarded. The guard that limits groups
        calls this: nothing else needs to know of such joins before they are answered."""
        ticket = self._ticket(client, request, heartbeat.group_id)
        group = self._find(heartbeat.group_id) or self._consumer_group(heartbeat.group_id)
        group.add_pending_join(ticket, ObservedMember(member_id=heartbeat.member_id, instance_id=heartbeat.instance_id))

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        """Updates the group from a response and its request."""
        if request.api_key == _HEARTBEAT and self._is_repeated_heartbeat(client, request.frame, frame):
            return
        try:
            header, asked = decode_request(request.frame, request.api_key, request.api_version)
            _, answer = decode_response(frame, request.api_key, request.api_version)
        except CorruptMessage as error:  # the client gets the malformed response unchanged
            log.debug("not understood api=%s peer=%s why=%r", request.api_key, client.peer, str(error))
            return
        if answer.error_code is not ErrorCode.none:
            self.errors[request.api_key, answer.error_code.name.upper()] += 1
        if request.api_key == _JOIN_GROUP:
            join = _parse_join(asked, header.client_id or "", client.host)
            is_join = not _only_requests_member_id(request.api_version, join.member)
            self._on_join_answered(self._take_ticket(client, request) if is_join else None, join, asked, answer)
        elif request.api_key == _CONSUMER_GROUP_HEARTBEAT:
            member = ObservedMember(
                member_id=asked.member_id,
                instance_id=asked.instance_id,
                client_id=header.client_id or "",
                host=client.host,
            )
            is_join = asked.member_epoch == 0
            self._on_heartbeat_answered(self._take_ticket(client, request) if is_join else None, member, asked, answer)
        elif request.api_key == _LEAVE_GROUP:
            self._on_leave_answered(asked, answer)
        elif request.api_key == _HEARTBEAT and answer.error_code is ErrorCode.none:
            group = self._classic_group(asked.group_id)
            group.on_member_confirmed(asked.member_id, asked.generation_id, self._clock())
            heartbeat = _RepeatedHeartbeat(request.frame[8:], frame[4:], group, asked.member_id, asked.generation_id)
            self._last_heartbeats[client] = heartbeat
        else:
            self._on_member_answered(asked, answer)

    def on_closed(self, client: ClientInfo) -> None:
        """Drops the pending joins of a client that has disconnected."""
        self._last_heartbeats.pop(client, None)
        for ticket in self._pending_joins.pop(client, ()):
            if group := self._groups.get(ticket.group_id):
                group.on_join_refused(ticket)

    def _on_join_answered(self, ticket: _Ticket | None, join: JoinRequest, asked: Any, answer: Any) -> None:
        if answer.error_code is not ErrorCode.none:
            known = self._on_join_refused(ticket, asked.group_id)
            if isinstance(known, ObservedGroup) and answer.error_code in _UNKNOWN_MEMBER_ERRORS:
                known.on_unknown_member(asked.member_id)
            return
        joined = JoinResponse(
            member_id=answer.member_id,
            generation=answer.generation_id,
            protocol=answer.protocol_name or "",
            members=[(each.member_id, getattr(each, "group_instance_id", None)) for each in answer.members],
        )
        self._log_rebalance(self._classic_group(asked.group_id).on_join_answered(ticket, join, joined, self._clock()))

    def _is_repeated_heartbeat(self, client: ClientInfo, asked: bytes, answer: bytes) -> bool:
        """Whether a heartbeat and its response repeat the client's last one, so that they need not be parsed: most do.
        If so, renews the member's session."""
        last = self._last_heartbeats.get(client)
        if last is None or last.answer != answer[4:] or last.request != asked[8:]:
            return False
        if self._groups.get(last.group.group_id) is not last.group:
            return False
        self._touch(self._groups.pop(last.group.group_id))
        last.group.on_member_confirmed(last.member_id, last.generation, self._clock())
        return True

    def _on_member_answered(self, asked: Any, answer: Any) -> None:
        """Handles a SyncGroup response, which completes a rebalance if it succeeds, or a failed Heartbeat response."""
        if answer.error_code is ErrorCode.none:
            group = self._classic_group(asked.group_id)
            self._log_rebalance(group.on_synced(asked.member_id, asked.generation_id, self._clock()))
            return
        known = self._groups.get(asked.group_id)
        if not isinstance(known, ObservedGroup):
            return
        if answer.error_code is ErrorCode.rebalance_in_progress:
            known.on_rebalance_announced(asked.member_id, self._clock())
        elif answer.error_code in _UNKNOWN_MEMBER_ERRORS:
            known.on_unknown_member(asked.member_id)

    def _on_leave_answered(self, asked: Any, answer: Any) -> None:
        if answer.error_code is not ErrorCode.none:
            return
        if not hasattr(asked, "members"):  # versions before 3 name one member
            self._classic_group(asked.group_id).on_left([asked.member_id], [])
            return
        refused = {_identity(each) for each in answer.members if each.error_code is not ErrorCode.none}
        gone = [each for each in asked.members if _identity(each) not in refused]
        if not gone:
            return
        reasons = [getattr(each, "reason", None) for each in gone]
        self._classic_group(asked.group_id).on_left(
            [each.member_id for each in gone],
            [each.group_instance_id for each in gone if each.group_instance_id is not None],
            next((reason for reason in reasons if reason), ""),
        )

    def _on_heartbeat_answered(self, ticket: _Ticket | None, member: ObservedMember, asked: Any, answer: Any) -> None:
        if answer.error_code is not ErrorCode.none:
            known = self._on_join_refused(ticket, asked.group_id)
            # A member that is fenced for its epoch stays a member, and joins again.
            if isinstance(known, ObservedConsumerGroup) and answer.error_code in _UNKNOWN_MEMBER_ERRORS:
                known.on_unknown_member(asked.member_id)
            return
        topics = None if asked.subscribed_topic_names is None else frozenset(asked.subscribed_topic_names)
        heartbeat = Heartbeat(member=member, epoch=asked.member_epoch, topics=topics)
        member_id = answer.member_id or asked.member_id
        group = self._consumer_group(asked.group_id)
        self._log_rebalance(
            group.on_heartbeat_answered(ticket, heartbeat, member_id, answer.member_epoch, self._clock())
        )

    def _on_join_refused(self, ticket: _Ticket | None, group_id: str) -> AnyObservedGroup | None:
        known = self._find(group_id)
        if known:
            known.on_join_refused(ticket)
        return known

    def _ticket(self, client: ClientInfo, request: Request, group_id: str) -> _Ticket:
        ticket = _Ticket(group_id, request.api_key, request.correlation_id)
        self._pending_joins.setdefault(client, deque()).append(ticket)
        return ticket

    def _take_ticket(self, client: ClientInfo, request: Request) -> _Ticket | None:
        """Removes and returns the ticket of the join that is being answered; None if there is none."""
        pending = self._pending_joins.get(client, ())
        named = (request.api_key, request.correlation_id)
        ticket = next((each for each in pending if (each.api_key, each.correlation_id) == named), None)
        if ticket is None:
            return None
        self._pending_joins[client].remove(ticket)
        if not self._pending_joins[client]:
            del self._pending_joins[client]
        return ticket

    def _log_rebalance(self, rebalanced: Rebalanced | None) -> None:
        if rebalanced is None:
            return
        self.rebalances[rebalanced.cause] += 1
        log.info(
            "rebalance group=%s generation=%s members=%s cause=%s%s%s",
            escape_name(rebalanced.group_id),
            rebalanced.generation,
            rebalanced.members,
            rebalanced.cause,
            f" protocol={escape_name(rebalanced.protocol)}" if rebalanced.protocol else "",
            f" why={quoted(rebalanced.reason)}" if rebalanced.reason else "",
        )

    def _find(self, group_id: str) -> AnyObservedGroup | None:
        """Returns the group of either kind, now the most recently seen; None if it is not known."""
        known = self._groups.pop(group_id, None)
        if known:
            self._touch(known)
        return known

    def _classic_group(self, group_id: str) -> ObservedGroup:
        """Returns the group as a classic one, converting or adding it."""
        known = self._groups.pop(group_id, None)
        if isinstance(known, ObservedConsumerGroup):
            known = ObservedGroup.converted_from(known, self._clock())
            known.state = State.STABLE if known.members else State.EMPTY
        group = known or ObservedGroup(group_id)
        self._touch(group)
        return group

    def _consumer_group(self, group_id: str) -> ObservedConsumerGroup:
        """Returns the group as a KIP-848 consumer group, converting or adding it."""
        known = self._groups.pop(group_id, None)
        if isinstance(known, ObservedGroup):
            known = ObservedConsumerGroup.converted_from(known, self._clock())
        group = known or ObservedConsumerGroup(group_id)
        self._touch(group)
        return group

    def _touch(self, group: AnyObservedGroup) -> None:
        self._groups[group.group_id] = group
        if len(self._groups) > self._max_groups:
            del self._groups[next(iter(self._groups))]


def _parse_join(entity: Any, client_id: str, host: str) -> JoinRequest:
    member = ObservedMember(
        member_id=entity.member_id,
        instance_id=getattr(entity, "group_instance_id", None),
        client_id=client_id,
        host=host,
        topics=_subscribed_topics(entity),
        session_timeout=entity.session_timeout.total_seconds(),
    )
    return JoinRequest(member=member, protocol_type=entity.protocol_type, reason=getattr(entity, "reason", None) or "")


def _subscribed_topics(entity: Any) -> frozenset[str]:
    """Returns the topics that a consumer subscribes to; none for other protocol types and malformed subscriptions."""
    if entity.protocol_type != "consumer" or not entity.protocols:
        return frozenset()
    try:
        return frozenset(read_subscription(entity.protocols[0].metadata))
    except CorruptMessage:
        return frozenset()


def _only_requests_member_id(version: int, member: ObservedMember) -> bool:
    """Whether a join only requests a member id: since version 4 a dynamic member without one is only given one
    (KIP-394)."""
    return version >= 4 and not member.member_id and member.instance_id is None


def _identity(leaving: Any) -> tuple[str, str | None]:
    return leaving.member_id, leaving.group_instance_id
