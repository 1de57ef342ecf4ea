"""Groups as librdkafka reports them: merged from two of its calls, since each has what the other lacks.

    list_consumer_groups, describe_consumer_groups   type, instance ids, target assignments; consumer groups only
    list_groups, the older one                       groups of every kind, their coordinators, the members' raw bytes

Share and streams groups are listed only by the older one, which cannot describe them.
"""

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaException

from kcoord.admin.librdkafka.errors import protocol_error
from kcoord.admin.librdkafka.link import Link
from kcoord.admin.model import Answers, Group, GroupType, ListedGroup, Member, Node, Refusal, Resource, TopicPartition
from kcoord.admin.retry import Attempt, retry_until_resolved
from kcoord.errors import ErrorCode
from kcoord.protocol.consumer_protocol import parse_subscription

NOT_DESCRIBED: Final = "librdkafka does not tell of groups of this type"
CONSUMER: Final = "consumer"
_DEAD: Final = "Dead"
_MAX_SINGLE_LISTINGS: Final = (
    5  # up to so many groups get an older call each; for more, one call describes all groups of the cluster
)
_UNKNOWN_NODE: Final = Node(id=-1, host="", port=-1)

_STATES: Final = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: _DEAD,
    ConsumerGroupState.EMPTY: "Empty",
}
_TYPES: Final = {ConsumerGroupType.CLASSIC: GroupType.CLASSIC, ConsumerGroupType.CONSUMER: GroupType.CONSUMER}


def list_groups(link: Link, *, states: Collection[str], types: Collection[str]) -> Answers[str, ListedGroup]:
    """Lists the groups of all brokers, or those in one of these states and of one of these types."""
    listing = link.wait(link.admin.list_consumer_groups(request_timeout=link.timeout))
    consumers = {each.group_id: each for each in listing.valid}
    found = [_listed(each, consumers.get(each.id)) for each in _older_listing(link)]
    wanted_states, wanted_types = ({word.lower() for word in words} for words in (states, types))
    return Answers(
        found={
            group.name: group
            for group in found
            if (not wanted_states or group.state.lower() in wanted_states)
            and (not wanted_types or group.type.value in wanted_types)
        },
        refused=tuple(_unlisted(error) for error in listing.errors),
    )


def _listed(older: Any, newer: Any) -> ListedGroup:
    if newer is not None:
        kind, state = _TYPES.get(newer.type, GroupType.UNKNOWN), _state(newer.state)
        protocol_type = "" if newer.is_simple_consumer_group else CONSUMER
    elif _is_described(older):
        kind, state, protocol_type = GroupType.CLASSIC, older.state, older.protocol_type
    else:
        kind, state, protocol_type = GroupType.UNKNOWN, "", ""
    return ListedGroup(name=older.id, protocol_type=protocol_type, state=state, type=kind, coordinator=older.broker.id)


def _unlisted(error: KafkaException) -> Refusal:
    code, words = protocol_error(error.args[0])
    return Refusal(kind=Resource.BROKER, name="", error=code, message=words or "it lists no groups")


def describe_groups(link: Link, names: Collection[str]) -> Answers[str, Group]:
    """Describes groups, with their members."""

    def ask(pending: list[str], attempt: Attempt[str, Group]) -> None:
        futures = link.admin.describe_consumer_groups(pending, request_timeout=link.timeout)
        link.wait_for(list(futures.values()))
        older = _older(link, pending)
        for name, future in futures.items():
            try:
                _record_group(name, future.result(), older.get(name), attempt)
            except KafkaException as error:
                if _is_described(older.get(name)):
                    attempt.found[name] = _foreign_group(older[name])
                else:
                    attempt.refuse(name, Resource.GROUP, name, *protocol_error(error.args[0]))

    return retry_until_resolved(names, ask, timeout=link.timeout)


def _record_group(name: str, described: Any, older: Any, attempt: Attempt[str, Group]) -> None:
    if described.state is not ConsumerGroupState.DEAD or described.members:
        attempt.found[name] = _group(described, older)
    elif older is not None:
        attempt.refuse(name, Resource.GROUP, name, ErrorCode.unsupported_version, NOT_DESCRIBED)
    else:
        attempt.refuse(name, Resource.GROUP, name, ErrorCode.group_id_not_found)


def _older(link: Link, names: list[str]) -> Mapping[str, Any]:
    wanted = set(names)
    listings = (
        [_older_listing(link, name) for name in names] if len(names) <= _MAX_SINGLE_LISTINGS else [_older_listing(link)]
    )
    return {each.id: each for listing in listings for each in listing if each.id in wanted}


def _is_described(older: Any) -> bool:
    """Whether the older call describes the group. It reports non-classic groups as Dead, and forbidden ones with an
    error."""
    return older is not None and older.error is None and older.state != _DEAD


def _older_listing(link: Link, name: str | None = None) -> list[Any]:
    """Lists one group, or all of them. The call is deprecated, and no other lists groups that are not of consumers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return list(link.call(link.admin.list_groups, *([] if name is None else [name])))


def _group(described: Any, older: Any) -> Group:
    kind = _TYPES.get(described.type, GroupType.UNKNOWN)
    has_older = _is_described(older)
    protocol_type = older.protocol_type if has_older else "" if described.is_simple_consumer_group else CONSUMER
    bytes_of = {member.id: member for member in older.members} if has_older else {}
    return Group(
        name=described.group_id,
        type=kind,
        state=_state(described.state),
        protocol_type=protocol_type,
        protocol=described.partition_assignor,
        coordinator=node(described.coordinator),
        members=tuple(
            _member(each, bytes_of.get(each.member_id), is_consumer=protocol_type == CONSUMER)
            for each in described.members
        ),
    )


def _foreign_group(older: Any) -> Group:
    """Builds a group that is not of consumers, such as Kafka Connect's: describe_consumer_groups refuses it."""
    return Group(
        name=older.id,
        type=GroupType.CLASSIC,
        state=older.state,
        protocol_type=older.protocol_type,
        protocol=older.protocol,
        coordinator=Node(id=older.broker.id, host=older.broker.host, port=older.broker.port),
        members=tuple(
            Member(
                member_id=each.id, instance_id=None, client_id=each.client_id, host=each.client_host, assignment=None
            )
            for each in older.members
        ),
    )


def _member(described: Any, older: Any, *, is_consumer: bool) -> Member:
    target = described.target_assignment
    subscription = parse_subscription(older.metadata) if is_consumer and older is not None else None
    return Member(
        member_id=described.member_id,
        instance_id=described.group_instance_id,
        client_id=described.client_id,
        host=described.host,
        assignment=partitions(described.assignment.topic_partitions) if is_consumer else None,
        subscription=None if subscription is None else tuple(sorted(subscription.topics)),
        rack=None if subscription is None else subscription.rack or None,
        target=None if target is None else partitions(target.topic_partitions),
    )


def partitions(theirs: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Converts confluent_kafka's partitions to ours, sorted."""
    return tuple(sorted(TopicPartition(each.topic, each.partition) for each in theirs))


def node(theirs: Any) -> Node:
    """Converts confluent_kafka's Node to ours. For None, which stands for an unknown coordinator, it returns a
    placeholder."""
    if theirs is None:
        return _UNKNOWN_NODE
    return Node(id=theirs.id, host=theirs.host, port=theirs.port, rack=theirs.rack)


def _state(theirs: ConsumerGroupState) -> str:
    """Names a state. librdkafka does not report the states that came with KIP-848, Assigning and Reconciling."""
    return _STATES.get(theirs, "Unknown")
