"""Recordings of consumer groups (KIP-848), of the records that a coordinator writes."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kcoord.assignors.replaying.changes import ChangeKind, changes_of
from kcoord.assignors.replaying.recording import Generation
from kcoord.assignors.strategies import RebalanceStyle
from kcoord.pipeline.recordings.classic import NotReplayable
from kcoord.pipeline.recordings.modern import latest_modern_generation, modern_generations
from kcoord.pipeline.schemas import GROUP_EVENTS
from kcoord.pipeline.transforms.event_types import MEMBERS_AND_TARGETS
from tests.support.pipeline.histories import PATTERN, START, TOPIC, TOPIC_ID, History, Log

NAMES = {TOPIC_ID: TOPIC}
START_MS = round(START.timestamp() * 1000)


def log_and_group() -> tuple[Log, History]:
    log = Log()
    return log, log.group("g")


def rows_of(log: Log) -> Iterator[Mapping[str, Any]]:
    for row in log.rows[GROUP_EVENTS]:
        if row["record_type"] in MEMBERS_AND_TARGETS:
            yield row | {"appended_at": round(row["appended_at"].timestamp() * 1000)}


def generations(log: Log, durations: Mapping[Any, Any] | None = None) -> list[Generation]:
    return [each for _, each in modern_generations(rows_of(log), durations or {}, NAMES)]


def grown() -> tuple[Log, History]:
    """A group of one member that a second one joins."""
    log, group = log_and_group()
    group.joins(1, "m", rackId="a", serverAssignor="range")
    group.epoch(1, 1)
    group.targets(1, "m", [0, 1])
    group.planned(1, 1)
    group.owns(1, "m", 1, [0, 1])
    group.joins(5, "n", instanceId="static-n")
    group.epoch(5, 2)
    group.targets(5, "m", [0])
    group.targets(5, "n", [1])
    group.planned(5, 2)
    return log, group


def test_each_plan_of_the_coordinator_is_a_generation_with_its_members() -> None:
    log, _ = grown()
    first, second = generations(log, {(2, START_MS + 5000): {"duration_ms": 40, "pause_ms": 70}})
    assert (first.number, first.written_ms, first.took_ms) == (1, START_MS + 1000, None)
    assert (second.number, second.took_ms, second.pause_ms) == (2, 40, 70)
    assert (second.protocol, second.rebalance_style) == ("server-range", RebalanceStyle.INCREMENTAL)
    assert second.owners == {(TOPIC, 0): "m", (TOPIC, 1): "static-n"}
    m, n = second.members
    assert (m.client_id, m.client_host, m.rack, m.instance_id) == ("m's", "/10.0.0.1", "a", None)
    assert (n.topics, n.instance_id, n.session_timeout_ms) == ((TOPIC,), "static-n", None)


def test_a_group_whose_log_begins_with_its_first_epoch_is_new() -> None:
    for first_epoch, kind in ((1, ChangeKind.CHANGED), (2, ChangeKind.CHANGED), (3, ChangeKind.BEGINNING)):
        log, group = log_and_group()
        group.joins(1, "m")
        group.epoch(1, first_epoch)
        group.planned(2, first_epoch + 1)
        assert [each.kind for each in changes_of(generations(log))] == [kind]


def test_without_an_assignor_of_its_members_the_default_one_plans() -> None:
    log, group = log_and_group()
    group.joins(1, "m")
    group.planned(1, 1)
    assert [each.protocol for each in generations(log)] == ["uniform"]


@pytest.mark.parametrize(
    ("requested", "planned_by"),
    [
        (["uniform", "range", "uniform"], "uniform"),
        (["range", "range", "uniform"], "server-range"),
        (["range", None, None], "server-range"),  # who requests none has no vote
        (["range", "uniform"], "uniform"),  # equally many
        (["range", "com.example.Other", "com.example.Other"], "com.example.Other"),
    ],
)
def test_the_assignor_that_most_members_request_plans(requested: list[str | None], planned_by: str) -> None:
    log, group = log_and_group()
    for number, assignor in enumerate(requested):
        group.joins(1, f"m{number}", serverAssignor=assignor)
    group.planned(1, 1)
    assert [each.protocol for each in generations(log)] == [planned_by]


def test_a_group_that_everybody_left_is_empty_and_then_deleted() -> None:
    log, group = grown()
    for name in ("m", "n"):
        group.targets(9, name, None)
        group.leaves(9, name)
    group.epoch(9, 3)
    group.event(20, 3, None, None)
    *_, empty, deleted = generations(log)
    assert (empty.number, empty.members, empty.is_deletion) == (3, (), False)
    assert (deleted.number, deleted.members, deleted.is_deletion) == (None, (), True)
    kinds = [each.kind for each in changes_of(generations(log))]
    assert kinds == [ChangeKind.CHANGED, ChangeKind.CHANGED, ChangeKind.EMPTIED]


def test_a_pattern_means_the_topics_that_it_was_resolved_to() -> None:
    log, group = log_and_group()
    group.joins(1, "m", topics=(), subscribedTopicRegex="ord.*")
    group.event(1, PATTERN, None, {"topics": [TOPIC]})
    log.rows[GROUP_EVENTS][-1]["key"] = '{"groupId":"g","regularExpression":"ord.*"}'
    group.planned(1, 1)
    [generation] = generations(log)
    assert [each.topics for each in generation.members] == [(TOPIC,)]


def test_a_topic_that_has_no_name_is_said() -> None:
    log, group = log_and_group()
    group.joins(1, "m")
    group.targets(1, "m", [0], topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(NotReplayable, match="the name of its topic AAAAAAAAAAAAAAAAAAAAAQ is in no record"):
        generations(log)


def test_the_latest_records_alone_tell_what_a_group_is_now() -> None:
    log, group = grown()
    latest = {(row["record_type"], row["key"]): row for row in rows_of(log)}
    now = latest_modern_generation(latest.values(), NAMES)
    assert now == generations(log)[-1]
    group.leaves(9, "m")
    group.leaves(9, "n")
    group.epoch(9, 3)
    latest = {(row["record_type"], row["key"]): row for row in rows_of(log)}
    assert latest_modern_generation(latest.values(), NAMES) is None
