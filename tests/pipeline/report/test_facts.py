"""From tables to the facts of a report. Each group in the tables is about one thing."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from kcoord.pipeline.report.charts.rebalance_chart import CAUSES
from kcoord.pipeline.report.facts import ReportRequest, collect_facts
from kcoord.pipeline.report.model import (
    Bounded,
    GroupFacts,
    Limits,
    Member,
    OwnedSpan,
    Point,
    Rebalance,
    RebalanceMark,
    RejectedReason,
    ReportFacts,
    Scanned,
)
from kcoord.pipeline.report.page import render
from kcoord.pipeline.transforms.rebalances import causes
from tests.pipeline.report.small_tables import at, frames
from tests.support.pipeline.histories import interpreted

ASKED: Final = ReportRequest(source_name="here", made_at=datetime(2026, 11, 17, tzinfo=UTC))
LIMITS: Final = Limits(
    groups=15, findings=2, rebalances=2, names=2, members=3, partitions=2, spans=2, pieces=60, lines=2
)
MINUTE: Final = 60

Rows = list[dict[str, Any]]


def rebalance(group: str, seconds: float, *causes: str, **columns: Any) -> dict[str, Any]:
    times = {"started_at": at(seconds - 2), "ended_at": at(seconds), "duration_ms": 2000}
    return {"group": group, **times, "causes": [*causes], **columns}


def member(name: str) -> dict[str, Any]:
    facts = {"member_id": name, "instance_id": None, "client_id": f"client-{name}", "client_host": "/h"}
    numbers = {"session_timeout_ms": 1, "rebalance_timeout_ms": 1}
    nothing = ("subscription", "assignment", "subscription_bytes", "assignment_bytes")
    return {**facts, **numbers, **dict.fromkeys(nothing)}


def comes(number: int) -> dict[str, Any]:
    """Returns the record of a client that joins under another member id."""
    return {**member("z"), "member_id": f"z{number}"}


def owned(partition: int, name: str, start: float, end: float | None) -> dict[str, Any]:
    until = None if end is None else at(end)
    return {"group": "owners", "partition": partition, "member_id": name, "owned_from": at(start), "owned_until": until}


def lag(group: str, minutes: float, partition: int, records: int | None, ms: int | None = None) -> dict[str, Any]:
    """Returns a row of `lag` for a topic whose log was not read to its end."""
    where = {"group": group, "topic": "unread", "partition": partition}
    return {**where, "at": at(minutes * MINUTE), "committed": 1, "lag": records, "lag_ms": ms}


CLASSIC_STATE: Final = {"state": "Empty", "protocol_type": "consumer", "protocol": "range"}
TABLES: Final[dict[str, Rows]] = {
    "commits": [
        # These span an hour, so that a piece of the time is a minute.
        {"group": "commits", "appended_at": at(0)},
        {"group": "commits", "appended_at": at(0), "tombstone": True},
        *({"group": "commits", "appended_at": at(MINUTE + number)} for number in range(3)),
        {"group": "commits", "appended_at": at(58 * MINUTE + 0.25)},
        {"group": "zero"},
    ],
    "generations": [
        {"group": "was", **CLASSIC_STATE},
        {"group": "is", "state": "Stable"},
        {"group": "is", **CLASSIC_STATE},
        *(
            {
                "group": "members",
                "appended_at": at(10 * number),
                "generation": number,
                "members": [member(name) for name in names],
            }
            for number, names in enumerate(["a", "ab", "bc", "bd"])
        ),
        *(
            {"group": "flapping", "appended_at": at(10 * number), "generation": number, "members": members}
            for number, members in enumerate([[comes(1)], [], [comes(2)], [], [comes(3)], []])
        ),
    ],
    "group_events": [
        {"group": "was", "source_offset": 9},
        {"group": "new", "record_name": "ShareGroupMetadata", "record_type": 11},
        {"group": "left"},
        {"group": "left", "tombstone": True},
        {"group": "deleted"},
        {"group": "deleted", "tombstone": True},
        {"group": "deleted", "record_name": "ConsumerGroupMetadata", "record_type": 3, "tombstone": True},
    ],
    "rebalances": [
        rebalance("marks", 61, "joined", "left"),
        rebalance("marks", 70, "left"),
        rebalance("marks", 200, "left", started_at=None, duration_ms=None),
        {"group": "marks", "causes": ["left"]},
        rebalance("members", 10, "joined", generation=1),
        rebalance(
            "members", 30, "joined", generation=3, joined=["a", "b", "c"], left=[], members=4, moved_partitions=2
        ),
        rebalance("members", 20, "left", generation=2, from_generation=1, pause_ms=50),
        rebalance("members", 5, "static returned", generation=1, from_generation=1),
        *(rebalance("restless", 3 * number, "left") for number in range(1, 1000)),
    ],
    "ownership": [
        owned(0, "a", 0, None),
        owned(1, "a", 0, 10),
        owned(1, "b", 10, None),
        owned(2, "a", 0, 10),
        owned(2, "b", 10, 11),
        owned(2, "c", 11, None),
    ],
    "lag": [
        lag("sum", 0, 0, 100),
        lag("sum", 0.1, 0, 90),
        lag("sum", 1, 1, 7),
        lag("sum", 2, 0, 0),
        lag("sum", 3, 1, None),
        lag("sum", 4, 1, 3),
        lag("gap", 0, 0, 5, 1500),
        lag("gap", 1, 0, None),
        lag("gap", 2, 0, 6),
        lag("lines", 0, 0, 5, 100),
        lag("lines", 0, 1, 50, 900),
        lag("lines", 0.1, 1, 70, 300),
        lag("lines", 1, 2, 60),
        lag("lines", 0, 3, None),
        {**lag("still", 0, 0, 60), "topic": "orders", "committed": 40, "log_end": 100, "next_at": at(-5)},
        {**lag("still", 10, 0, 0), "topic": "orders", "committed": 100, "log_end": 100},
    ],
    "log_ends": [{"base_offset": 0, "end_offset": 100, "last_at": at(0)}],
    "scanned": [{"records": 5, "commits": 4, "rejected": 1}, {"records": 7, "control": 7}],
    "rejected": [
        {"reason": "rare", "records": 1},
        {"reason": "torn", "what": "batch", "records": 9, "appended_at": at(5)},
        {"reason": "odd", "records": 1},
        {"reason": "odd", "records": 1, "appended_at": at(7)},
    ],
}
ONLY_COMMITS: Final = [{"group": name} for name in ("marks", "owners", "sum", "gap", "lines", "restless", "still")]


def values(points: tuple[Point, ...]) -> list[float | None]:
    """Returns the values without consecutive duplicates."""
    return [value for value, _ in groupby(point.value for point in points)]


@pytest.fixture(scope="module", autouse=True)
def _interpreted(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture(scope="module")
def facts(spark: SparkSession) -> ReportFacts:
    """Collects the facts on a machine that is not in UTC, as most are not."""
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    try:
        tables = {**TABLES, "commits": [*TABLES["commits"], *ONLY_COMMITS]}
        return collect_facts(frames(spark, **tables), ASKED, LIMITS)
    finally:
        os.environ.pop("TZ")
        if zone is not None:
            os.environ["TZ"] = zone
        time.tzset()


@pytest.fixture(scope="module")
def pages(facts: ReportFacts) -> Mapping[str, GroupFacts]:
    return {page.group: page for page in facts.groups.rows}


def test_every_cause_that_there_is_has_a_lane_of_its_own() -> None:
    assert set(CAUSES) == set(causes.ALL)


def test_empty_tables_make_a_report(spark: SparkSession) -> None:
    facts = collect_facts(frames(spark), ASKED)
    assert (facts.first_at, facts.last_at, facts.groups, facts.scanned) == (None, None, Bounded(), Scanned())
    assert "No rebalance is in what was read." in render(facts)


def test_the_time_is_from_the_first_record_to_the_last(facts: ReportFacts) -> None:
    assert (facts.first_at, facts.last_at, facts.piece_seconds) == (at(0), at(58 * MINUTE + 0.25), MINUTE)


def test_the_most_restless_groups_come_first_and_then_those_with_the_largest_lag(facts: ReportFacts) -> None:
    assert [each.group for each in facts.groups.rows] == [
        *("restless", "marks", "members"),
        *("sum", "lines", "still", "gap"),
        *("commits", "deleted", "flapping", "is", "left", "new", "owners", "was"),
    ]
    assert facts.groups.omitted == 1
    assert facts.rebalance_count == 999 + 4 + 3
    assert [each.lost_ms for each in facts.groups.rows[:4]] == [999 * 2000, 4000, 8000, 0]
    assert [each.pause_ms for each in facts.groups.rows[:4]] == [None, None, 50, None]


def test_a_static_member_that_came_back_is_told_and_is_no_rebalance(pages: Mapping[str, GroupFacts]) -> None:
    assert (pages["members"].rebalance_count, pages["members"].rebalances.total) == (3, 4)


def test_deleting_an_offset_is_no_commit(facts: ReportFacts, pages: Mapping[str, GroupFacts]) -> None:
    assert pages["commits"].commit_count == 5
    assert facts.commit_count == 5 + 1 + len(ONLY_COMMITS)


def test_commits_are_told_by_the_second(pages: Mapping[str, GroupFacts]) -> None:
    assert pages["commits"].commits == (
        Point(at=at(0), value=1 / 60),
        Point(at=at(MINUTE), value=3 / 60),
        Point(at=at(58 * MINUTE), value=1 / 60),
    )


def test_what_a_group_is_is_told_by_its_newest_record(pages: Mapping[str, GroupFacts]) -> None:
    kinds = {name: (page.kind, page.state, page.protocol) for name, page in pages.items()}
    assert kinds["commits"] == (None, None, None)
    assert kinds["was"] == ("consumer", None, None)
    assert kinds["is"] == ("classic", "Empty", "range")
    assert kinds["new"] == ("share", "Empty", None)
    assert kinds["left"] == ("consumer", "Empty", None)
    assert kinds["deleted"] == ("consumer", "Dead", None)


def test_rebalances_of_one_cause_and_piece_are_one_mark(pages: Mapping[str, GroupFacts]) -> None:
    assert pages["marks"].marks == (
        RebalanceMark(cause="joined", first=at(59), last=at(61), rebalances=1, lost_ms=2000),
        RebalanceMark(cause="left", first=at(59), last=at(70), rebalances=2, lost_ms=4000),
        RebalanceMark(cause="left", first=at(200), last=at(200), rebalances=1, lost_ms=0),
    )


def test_a_thousand_rebalances_are_no_more_marks_than_pieces_of_the_time(pages: Mapping[str, GroupFacts]) -> None:
    marks = pages["restless"].marks
    assert len(marks) <= LIMITS.pieces
    assert sum(mark.rebalances for mark in marks) == 999


def test_the_latest_rebalances_are_told_with_a_few_names(pages: Mapping[str, GroupFacts]) -> None:
    rebalances = pages["members"].rebalances
    assert [each.generation for each in rebalances.rows] == [3, 2]
    assert rebalances.rows[0] == Rebalance(
        generation=3,
        started_at=at(28),
        ended_at=at(30),
        duration_ms=2000,
        causes=("joined",),
        joined=Bounded(rows=("a", "b"), total=3),
        left=Bounded(),
        members=4,
        moved_partitions=2,
        pause_ms=None,
    )


def test_members_are_those_who_were_seen_last_in_the_order_in_which_they_came(pages: Mapping[str, GroupFacts]) -> None:
    members = pages["members"].members
    assert members.total == 4
    assert [(each.member_id, each.first_at, each.last_at) for each in members.rows] == [
        ("b", at(10), None),
        ("c", at(20), at(30)),
        ("d", at(30), None),
    ]
    assert members.rows[0] == Member(
        member_id="b", instance_id=None, client_id="client-b", client_host="/h", first_at=at(10), last_at=None
    )


def test_owners_are_told_of_the_partitions_that_changed_hands_most(pages: Mapping[str, GroupFacts]) -> None:
    ownership = pages["owners"].ownership
    assert ownership.total == 3
    assert [(each.partition, each.spans.total) for each in ownership.rows] == [(1, 2), (2, 3)]
    assert ownership.rows[1].spans.rows == (
        OwnedSpan(member_id="a", instance_id=None, owned_from=at(0), owned_until=at(10)),
        OwnedSpan(member_id="c", instance_id=None, owned_from=at(11), owned_until=None),
    )


def test_the_lag_of_a_group_is_that_of_all_partitions_as_each_was_last_seen(pages: Mapping[str, GroupFacts]) -> None:
    assert values(pages["sum"].lag) == [90, 97, 7, 0, 3]
    assert pages["sum"].lag[0].at == at(0)
    assert len(pages["sum"].lag) <= LIMITS.pieces


def test_where_no_log_end_is_known_there_is_a_gap(pages: Mapping[str, GroupFacts]) -> None:
    assert values(pages["gap"].lag) == [5, None, 6]
    assert values(pages["gap"].lag_seconds) == [1.5, None]


def test_the_partition_that_is_furthest_behind_is_the_lag_in_time(pages: Mapping[str, GroupFacts]) -> None:
    assert pages["lines"].lag_seconds[0] == Point(at=at(0), value=0.9)


def test_the_partitions_with_the_largest_lag_have_lines_of_their_own(pages: Mapping[str, GroupFacts]) -> None:
    lines = pages["lines"].partition_lag
    assert lines.total == 4
    assert [(each.partition, values(each.points)) for each in lines.rows] == [(1, [70]), (2, [60])]
    piece = 10.001
    assert [each.points[0].at for each in lines.rows] == [at(0), at(5 * piece)]
    assert [len(each.points) for each in lines.rows] == [60, 55]


def test_restless_groups_are_found(facts: ReportFacts) -> None:
    first, second = facts.unstable.rows
    assert (first.group, first.rebalances, first.causes) == ("restless", 999, {"left": 999})
    assert (second.group, second.rebalances, second.causes) == ("marks", 4, {"joined": 1, "left": 4})
    assert facts.unstable.total == 3


def test_members_that_come_back_are_found(facts: ReportFacts) -> None:
    [found] = facts.flapping.rows
    assert (found.group, found.member, found.returned, found.last_at) == ("flapping", "client-z /h", 2, at(50))


def test_partitions_that_never_catch_up_are_found(facts: ReportFacts) -> None:
    brief, found = facts.never_caught_up.rows
    assert (brief.group, brief.partition) == ("lines", 1), "committed for six seconds, and what was read goes on"
    assert (found.group, found.partition, found.lowest_lag, found.last_lag, found.since) == ("gap", 0, 5, 6, at(0))


def test_partitions_that_stand_still_are_found(facts: ReportFacts) -> None:
    [found] = facts.stuck.rows
    assert (found.group, found.committed, found.lag) == ("still", 40, 60)
    assert (found.since, found.until, found.stood_ms) == (at(0), at(600), 600_000)


def test_a_group_that_wrote_nothing_in_the_time_that_is_asked_for_has_a_page_if_it_is_behind(
    spark: SparkSession,
) -> None:
    tables: dict[str, Rows] = {
        "lag": [{"group": "dead", "at": at(0), "committed": 40, "log_end": 40, "lag": 0, "next_at": at(60)}],
        "log_ends": [
            {"base_offset": 0, "end_offset": 40, "last_at": at(0)},
            {"base_offset": 40, "end_offset": 50, "last_at": at(60)},
            {"base_offset": 50, "end_offset": 90, "last_at": at(120 * MINUTE)},
        ],
    }
    facts = collect_facts(frames(spark, **tables), replace(ASKED, since=at(60 * MINUTE)), LIMITS)
    [page] = facts.groups.rows
    assert (page.group, page.commit_count, values(page.lag)) == ("dead", 0, [10, 50])
    assert (facts.first_at, facts.last_at) == (at(60 * MINUTE), at(120 * MINUTE))
    assert [(each.group, each.lag, each.since) for each in facts.stuck.rows] == [("dead", 50, at(60))]


def test_what_was_read_is_added_up(facts: ReportFacts) -> None:
    assert facts.scanned == Scanned(records=12, commits=4, rejected=1, control=7)


def test_the_most_frequent_reasons_come_first(facts: ReportFacts) -> None:
    assert facts.rejected == Bounded(
        rows=(
            RejectedReason(reason="torn", what="batch", rows=1, records=9, last_at=at(5)),
            RejectedReason(reason="odd", what="record", rows=2, records=2, last_at=at(7)),
        ),
        total=3,
    )
