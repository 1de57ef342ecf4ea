"""What charts show, and that nothing is shown by color alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kcoord.markup import el
from kcoord.pipeline.report.charts.line_chart import Line, line_chart, step_chart
from kcoord.pipeline.report.charts.ownership_chart import numbers_of, ownership_chart
from kcoord.pipeline.report.charts.rebalance_chart import causes_chart
from kcoord.pipeline.report.charts.scales import number_scale, time_scale
from kcoord.pipeline.report.model import Bounded, Member, OwnedPartition, OwnedSpan, Point, RebalanceMark
from tests.support.pipeline.pages import Element, parse

START = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)
HOUR = time_scale(START, START + timedelta(hours=1))


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def points(*values: float | None) -> list[Point]:
    return [Point(at=at(15 * number), value=value) for number, value in enumerate(values)]


def path_of(*values: float | None) -> str:
    line = Line(label=el("b", "lag"), points=points(*values))
    picture = parse(line_chart([line], HOUR, number_scale(100), description="lag", caption="lag"))
    return picture.find("path").attributes["d"] or ""


def test_a_line_goes_from_point_to_point() -> None:
    assert path_of(0, 50, 100) == "M0 1000h0L250 500L500 0"


def test_a_gap_breaks_the_line() -> None:
    assert path_of(0, 50, None, 100, 0) == "M0 1000h0L250 500M750 0h0L1000 1000"


def test_a_point_between_gaps_is_a_dot() -> None:
    assert path_of(None, 50, None) == "M250 500h0"


def test_lines_differ_by_dash_and_are_named() -> None:
    lines = [Line(label=el("b", name), points=points(1, 2)) for name in ("all", "one", "two")]
    picture = parse(line_chart(lines, HOUR, number_scale(2), description="lag", caption="lag"))
    dashes = [each.classes[-1] for each in picture.find_all("path")]
    assert dashes == ["d0", "d1", "d2"]
    legend = picture.find("ul").find_all("li")
    assert [each.text for each in legend] == ["all", "one", "two"]
    assert [each.find("line").classes[-1] for each in legend] == dashes


def test_columns_are_as_wide_as_a_piece_of_the_time() -> None:
    quarter = timedelta(minutes=15)
    picture = parse(step_chart(points(100, 50), quarter, HOUR, number_scale(100), description="rate", caption="rate"))
    assert picture.find("path").attributes["d"] == "M0 1000V0H250V1000zM250 1000V500H500V1000z"


def mark(cause: str, start: float, end: float) -> RebalanceMark:
    return RebalanceMark(cause=cause, first=at(start), last=at(end), rebalances=2, lost_ms=90_000)


def test_each_cause_has_a_lane_with_its_name() -> None:
    picture = parse(causes_chart([mark("left", 30, 33), mark("joined", 0, 6), mark("odd", 1, 2)], HOUR))
    labels = [each.text for each in picture.find_all("div", "label")]
    assert labels == ["joined 2", "left 2", "odd 2", ""]


def test_a_mark_is_as_long_as_the_rebalances_took_and_says_so() -> None:
    shape = parse(causes_chart([mark("joined", 15, 21)], HOUR)).find("rect")
    assert (shape.attributes["x"], shape.attributes["width"]) == ("25%", "10%")
    assert shape.text == "joined: 2 rebalances, 2026-11-16 10:15:00.000 to 2026-11-16 10:21:00.000, 1m 30s in all"


def test_a_short_rebalance_is_still_to_be_seen() -> None:
    shape = parse(causes_chart([mark("joined", 15, 15)], HOUR)).find("rect")
    assert shape.attributes["width"] == "0.25%"


def member(name: str, instance: str | None = None) -> Member:
    return Member(member_id=name, instance_id=instance, client_id="c", client_host="h", first_at=START, last_at=None)


def span(name: str, start: float | None, end: float | None, instance: str | None = None) -> OwnedSpan:
    return OwnedSpan(
        member_id=name,
        instance_id=instance,
        owned_from=None if start is None else at(start),
        owned_until=None if end is None else at(end),
    )


def lanes(*spans: OwnedSpan, members: tuple[Member, ...]) -> Element:
    partition = OwnedPartition(topic="orders", partition=7, spans=Bounded(rows=spans, total=len(spans)))
    return parse(ownership_chart(Bounded(rows=(partition,), total=1), numbers_of(members), HOUR))


def test_a_partition_shows_its_owners_by_number_and_name() -> None:
    picture = lanes(span("a", 0, 30), span("b", 30, 60), members=(member("a"), member("b")))
    assert [(each.attributes["x"], each.attributes["width"]) for each in picture.find_all("rect")] == [
        ("0%", "50%"),
        ("50%", "50%"),
    ]
    assert [each.text for each in picture.find_all("text", "on")] == ["1", "2"]
    assert picture.find_all("rect")[1].text == "2: b, from 2026-11-16 10:30:00.000 to 2026-11-16 11:00:00.000"
    assert picture.find("div", "head").text == "orders"


def test_what_has_no_beginning_or_end_reaches_the_edge() -> None:
    shape = lanes(span("a", None, None), members=(member("a"),)).find("rect")
    assert (shape.attributes["x"], shape.attributes["width"]) == ("0%", "100%")
    assert shape.text == "1: a, from the beginning to the end"


def test_a_static_member_that_returns_keeps_its_number() -> None:
    members = (member("a", "static"), member("b"), member("c", "static"))
    picture = lanes(span("a", 0, 30, "static"), span("c", 30, 60, "static"), members=members)
    assert [each.text for each in picture.find_all("text", "on")] == ["1", "1"]
    assert numbers_of(members) == {"static": 1, "b": 2}


def test_an_owner_that_is_not_among_the_members_shown_is_a_question() -> None:
    shape = lanes(span("gone", 0, 60), members=()).find("rect")
    assert shape.text.startswith("?: gone")


def test_a_number_is_only_written_where_there_is_room() -> None:
    picture = lanes(span("a", 0, 1), members=(member("a"),))
    assert picture.find_all("text", "on") == []
    assert picture.find("rect").text.startswith("1: a")


def test_owners_of_a_million_years_are_drawn_within_the_hour() -> None:
    far = replace(
        span("a", 0, 0), owned_from=datetime(1, 1, 1, tzinfo=UTC), owned_until=datetime(9999, 1, 1, tzinfo=UTC)
    )
    shape = lanes(far, members=(member("a"),)).find("rect")
    assert (shape.attributes["x"], shape.attributes["width"]) == ("0%", "100%")
