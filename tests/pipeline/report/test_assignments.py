"""What the page of a group says about its latest assignment and the strategies."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.report.charts.scales import TimeScale
from kcoord.pipeline.report.facts import ReportRequest, collect_facts
from kcoord.pipeline.report.frames import Frames
from kcoord.pipeline.report.group_page import group_page
from kcoord.pipeline.report.model import GroupFacts, Limits
from kcoord.pipeline.schemas import LAG, REBALANCES, REJECTED, SCANNED
from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.ownership import memberships, ownership
from tests.pipeline.report.sample_facts import END, PIECE, START, sample_facts
from tests.support.pipeline.histories import TOPIC_ID, Log, at, frame_of, interpreted, member, stranger
from tests.support.pipeline.pages import parse

REQUEST = ReportRequest(source_name="here", made_at=datetime(2026, 11, 17, tzinfo=UTC))


def history() -> Log:
    log = Log()
    uneven, foreign, modern, large = (log.group(name) for name in ("uneven", "foreign", "modern", "large"))
    uneven.generation(1, 1, [member("a", [0, 1, 2, 3])])
    uneven.generation(2, 2, [member("a", [0, 1, 2]), member("b", [3])])
    uneven.generation(3, 3, [])
    foreign.generation(1, 1, [stranger("w")], protocol_type="connect")
    large.generation(1, 1, [member("a", range(101))])
    modern.commit(0, 1, topic_id=TOPIC_ID)
    modern.joins(1, "m")
    modern.epoch(1, 1)
    modern.targets(1, "m", [0, 1])
    modern.planned(1, 1)
    modern.joins(2, "n")
    modern.epoch(2, 2)
    modern.targets(2, "m", [0])
    modern.targets(2, "n", [1])
    modern.planned(2, 2)
    return log


def frames_of(spark: SparkSession, log: Log) -> Frames:
    decoded = log.frames(spark)
    names = topic_names(decoded["commits"], decoded["group_events"])
    generations, events = decoded["generations"], decoded["group_events"]

    def empty(table: str) -> DataFrame:
        return frame_of(spark, table, [])

    return Frames(
        **decoded,
        ownership=ownership(generations, events, names),
        memberships=memberships(generations, events),
        rebalances=empty(REBALANCES),
        lag=empty(LAG),
        rejected=empty(REJECTED),
        scanned=empty(SCANNED),
    )


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> Iterator[dict[str, GroupFacts]]:
    with interpreted(spark):
        facts = collect_facts(frames_of(spark, history()), REQUEST, Limits(planned=100))
        yield {each.group: each for each in facts.groups.rows}


def test_of_a_group_that_is_empty_now_the_last_members_are_compared(groups: dict[str, GroupFacts]) -> None:
    assignment = groups["uneven"].assignment
    assert assignment is not None
    assert (assignment.generation, assignment.at, assignment.shares) == (2, at(2), (3, 1))
    found = {each.strategy: (each.shares, each.moved, each.paused, each.rebalances) for each in assignment.outcomes}
    assert found == {
        "range": ((2, 2), 1, 4, 1),
        "roundrobin": ((2, 2), 1, 4, 1),
        "sticky": ((2, 2), 1, 4, 1),
        "cooperative-sticky": ((2, 2), 1, 1, 2),
        "uniform": ((2, 2), 1, 1, 0),
        "server-range": ((2, 2), 1, 1, 0),
    }


def test_a_consumer_group_is_compared_by_the_latest_records_of_its_members(groups: dict[str, GroupFacts]) -> None:
    assignment = groups["modern"].assignment
    assert assignment is not None
    assert (assignment.generation, assignment.protocol, assignment.shares) == (2, "uniform", (1, 1))
    assert {each.strategy: each.moved for each in assignment.outcomes}["uniform"] == 0


def test_what_is_not_of_consumers_or_too_large_is_not_compared(groups: dict[str, GroupFacts]) -> None:
    assert groups["foreign"].assignment is None
    assert groups["large"].assignment is None


def test_of_a_cut_time_members_of_a_consumer_group_are_missing_so_it_is_not_compared(spark: SparkSession) -> None:
    cut = ReportRequest(source_name="here", made_at=REQUEST.made_at, since=START - timedelta(days=1))
    facts = collect_facts(frames_of(spark, history()), cut)
    assert {each.group: each.assignment is not None for each in facts.groups.rows} == {
        "uneven": True,
        "foreign": False,
        "modern": False,
        "large": True,
    }


def test_the_page_of_a_group_shows_what_each_strategy_would_give() -> None:
    scale = TimeScale(first=START, last=END)
    page = parse(str(group_page(sample_facts().groups.rows[1], scale, PIECE)))
    [table] = [each for each in page.find_all("table") if "partitions by member" in each.text]
    rows = [[cell.text for cell in row.find_all("td")] for row in table.find_all("tr")[1:]]
    assert rows == [
        ["now: range", "6, 2, 0", "–", "–", "–"],
        ["range", "3, 3, 2", "4", "8", "1"],
        ["sticky", "3, 3, 2", "4", "8", "1"],
        ["uniform", "would fail: no partition", "–", "–", "–"],
    ]
    many = parse(str(group_page(sample_facts().groups.rows[0], scale, PIECE)))
    assert "20 × 2" in many.text
    only_commits = parse(str(group_page(sample_facts().groups.rows[-1], scale, PIECE)))
    assert "Not known: no assignment to consumers is in what was read" in only_commits.text
