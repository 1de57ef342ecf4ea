"""A journal that is lost while groups are loaded from it: partially loaded groups are not served."""

from itertools import count
from typing import cast
from uuid import UUID

from kcoord.api import list_groups
from kcoord.broker.cluster import Cluster, Node, NodeId
from kcoord.errors import ErrorCode
from kcoord.groups.instant import Instant
from kcoord.groups.records import OffsetsStored
from kcoord.groups.replies import ListGroupsReply
from kcoord.groups.requests import ListGroups
from kcoord.offsets_log.encoding import key_values
from kcoord.proxy.local.kafka_log import KafkaLog
from kcoord.proxy.local.kafka_reader import Contents
from kcoord.proxy.local.kafka_writer import Loaded
from kcoord.proxy.local.upstream_topics import MirroredTopics
from kcoord.server.groups.group_runtime import Decide, GroupRuntime
from kcoord.settings import Settings
from kcoord.tickets import Ticket

MANY = 3000
PROVEN_AT = 990.0


def instant() -> Instant:
    return Instant(1000.0, 1_700_000_000_000)


def contents(offset: int) -> list[Contents]:
    """Returns so many records that loading them takes several steps."""
    fact = OffsetsStored("payments", "orders", range(MANY), [offset] * MANY, [-1] * MANY, [""] * MANY, 1)
    return [{key: value for key, value in key_values(fact) if value is not None}]


def made() -> tuple[GroupRuntime, KafkaLog]:
    log = KafkaLog(NodeId(1), 1, lambda _: None, reload=lambda _: None)
    cluster = Cluster(
        cluster_id="c",
        nodes=[Node(node_id=NodeId(1), host="h", port=1)],
        settings=Settings(),
        fresh_id=lambda: UUID(int=1),
    )
    ids = count(1)
    return GroupRuntime(cluster, lambda: str(next(ids)), lambda _: log, MirroredTopics()), log


def offsets_of(groups: GroupRuntime) -> set[int]:
    (coordinator,) = groups._coordinators.values()
    return {offset for offset, *_ in coordinator.groups["payments"].offsets["orders"].values()}


def test_groups_are_closed_until_the_journal_was_read_to_its_end() -> None:
    groups, log = made()
    assert (groups.is_available("payments"), groups.to_load) == (False, [])

    log.on_loaded(Loaded(1, contents(7), PROVEN_AT))
    groups.on_journal_ready()
    steps = groups.load(instant)
    next(steps)
    assert (groups.is_available("payments"), groups.is_loading) == (False, True)
    for _ in steps:
        pass

    assert (groups.is_available("payments"), offsets_of(groups)) == (True, {7})


def test_what_was_half_read_when_the_journal_was_lost_is_read_anew() -> None:
    groups, log = made()
    log.on_loaded(Loaded(1, contents(7), PROVEN_AT))
    groups.on_journal_ready()
    steps = groups.load(instant)
    next(steps)

    log.on_lost()
    groups.on_flush_lost("an outage", instant())
    for _ in steps:
        pass
    assert not groups.is_available("payments")
    assert not groups.has_group("payments")

    log.on_loaded(Loaded(2, contents(8), PROVEN_AT))
    groups.on_journal_ready()
    for _ in groups.load(instant):
        pass
    assert (groups.is_available("payments"), offsets_of(groups)) == (True, {8})


def test_what_was_half_read_when_the_journal_was_loaded_again_is_read_anew() -> None:
    groups, log = made()
    log.on_loaded(Loaded(1, contents(7), PROVEN_AT))
    groups.on_journal_ready()
    steps = groups.load(instant)
    next(steps)

    log.on_lost()
    groups.on_flush_lost("an outage", instant())
    log.on_loaded(Loaded(2, contents(8), PROVEN_AT))
    groups.on_journal_ready()
    for _ in steps:
        pass
    assert not groups.is_available("payments")

    log.on_loaded(Loaded(2, contents(8), PROVEN_AT))
    groups.on_journal_ready()
    for _ in groups.load(instant):
        pass
    assert offsets_of(groups) == {8}


def test_one_that_stands_down_while_it_reads_does_not_try_again() -> None:
    groups, log = made()
    log.on_loaded(Loaded(1, contents(7), PROVEN_AT))
    groups.on_journal_ready()
    steps = groups.load(instant)
    next(steps)

    log.on_lost()
    groups.resign(instant())
    for _ in steps:
        pass

    assert (groups.to_load, groups.is_loading, groups.is_available("payments")) == ([], False, False)


def test_one_that_has_stood_down_reads_nothing_and_knows_nothing() -> None:
    groups, log = made()
    log.on_loaded(Loaded(1, contents(7), PROVEN_AT))
    groups.on_journal_ready()
    for _ in groups.load(instant):
        pass

    log.on_lost()
    groups.resign(instant())

    assert (groups.to_load, groups.is_loading, groups.has_group("payments")) == ([], False, False)
    assert not groups.is_available("payments")


def test_what_is_said_of_a_group_until_it_is_read_is_said_no_longer() -> None:
    groups, log = made()
    log.on_loaded(Loaded(1, contents(7), PROVEN_AT))
    groups.on_journal_ready()
    steps = groups.load(instant)
    next(steps)
    assert groups.refusal_until_loaded("payments") is ErrorCode.coordinator_load_in_progress
    for _ in steps:
        pass

    assert groups.refusal_until_loaded("payments") is None


def test_nothing_is_to_be_waited_for_of_groups_that_are_another_s() -> None:
    groups, log = made()
    log.on_lost()

    groups.resign(instant())

    assert groups.refusal_until_loaded("payments") is None
    assert not groups.is_available("payments")


def test_one_that_has_stood_down_does_not_say_that_there_are_no_groups() -> None:
    groups, log = made()
    log.on_lost()
    asked, decide = ListGroups(), cast(Decide, list_groups.API.decide)
    before = groups.decide(NodeId(1), decide, asked, Ticket(1), instant())
    groups.resign(instant())
    after = groups.decide(NodeId(1), decide, asked, Ticket(2), instant())
    assert isinstance(before, ListGroupsReply)
    assert isinstance(after, ListGroupsReply)
    assert before.error_code is ErrorCode.coordinator_load_in_progress
    assert after.error_code is ErrorCode.coordinator_not_available
