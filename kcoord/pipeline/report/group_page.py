"""Renders the page of one group: charts first, tables below."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from kcoord.admin.formatting import format_count, format_shares
from kcoord.markup import Child, Markup, concatenate, el
from kcoord.pipeline.report.charts.line_chart import Line, line_chart, step_chart
from kcoord.pipeline.report.charts.ownership_chart import Numbers, member_tag, numbers_of, ownership_chart
from kcoord.pipeline.report.charts.rebalance_chart import causes_chart
from kcoord.pipeline.report.charts.scales import TimeScale, number_scale, seconds_scale
from kcoord.pipeline.report.conclusions import group_conclusion
from kcoord.pipeline.report.formatting import (
    UNKNOWN,
    format_duration,
    format_name,
    format_number,
    format_time,
    format_time_to_second,
    shorten_name,
)
from kcoord.pipeline.report.html_tables import Column, figures, table, truncation_note
from kcoord.pipeline.report.model import (
    Bounded,
    GroupFacts,
    LatestAssignment,
    Member,
    Point,
    Rebalance,
    StrategyOutcome,
)

_MS: Final = timedelta(milliseconds=1)


def group_page(facts: GroupFacts, scale: TimeScale, piece: timedelta) -> Markup:
    """Renders the page of one group as HTML: its charts and tables, without the links to its neighbors. `piece` is the
    length of a piece of the time."""
    numbers = numbers_of(facts.members.rows)
    parts = [
        ("Rebalances over time", _causes(facts, scale)),
        ("Who owned which partition", _ownership(facts, numbers, scale)),
        ("What each strategy would give", _strategies(facts.assignment)),
        ("Lag in records", _lag(facts, scale)),
        ("Lag in time", _lag_seconds(facts, scale)),
        ("Commits per second", _commits(facts, scale, piece)),
        ("Members", _members(facts.members, numbers, scale.last)),
        ("Rebalances", _rebalances(facts, numbers)),
    ]
    return concatenate(
        el("h1", "Group ", format_name(facts.group)),
        group_conclusion(facts, scale),
        figures(_figures(facts)),
        *(concatenate(el("h2", title), part) for title, part in parts),
    )


def last_known(points: Sequence[Point]) -> float | None:
    """Returns the last value of a line that is not unknown, or None."""
    return next((point.value for point in reversed(points) if point.value is not None), None)


def _figures(facts: GroupFacts) -> Iterator[tuple[str, Child]]:
    yield "kind", format_name(facts.kind or "only commits")
    if facts.state:
        yield "state at the end", format_name(facts.state)
    if facts.protocol_type:
        yield "protocol type", format_name(facts.protocol_type)
    if facts.protocol:  # an empty group has none
        yield "protocol", format_name(facts.protocol)
    yield "rebalances", format_number(facts.rebalance_count)
    yield "time in rebalances", format_duration(facts.lost_ms)
    yield "members seen", format_number(facts.members.total)
    yield "partitions owned", format_number(facts.ownership.total)
    yield "commits", format_number(facts.commit_count)
    yield "lag at the end", format_number(last_known(facts.lag))


def _nothing(text: str) -> Markup:
    return el("p", text, class_="quiet")


def _causes(facts: GroupFacts, scale: TimeScale) -> Markup:
    if not facts.marks:
        return _nothing("No rebalance is in what was read.")
    return causes_chart(facts.marks, scale)


def _ownership(facts: GroupFacts, numbers: Numbers, scale: TimeScale) -> Markup:
    if not facts.ownership.rows:
        return _nothing("No assignment of partitions is in what was read, or none that can be decoded.")
    return ownership_chart(facts.ownership, numbers, scale)


def _strategies(assignment: LatestAssignment | None) -> Markup:
    if assignment is None:
        return _nothing("Not known: no assignment to consumers is in what was read, or too large a one.")
    columns = [
        Column("strategy", "name"),
        Column("partitions by member"),
        Column("moved", "number"),
        Column("paused", "number"),
        Column("rebalances", "number"),
    ]
    now = (
        format_name(f"now: {assignment.protocol or 'unknown'}"),
        format_shares(assignment.shares),
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
    )
    caption = concatenate(
        f"For the members and the assignment of generation {format_number(assignment.generation)}, ",
        f"{format_time(assignment.at)}. Paused: partitions that nobody would read for a while. ",
        "Rebalances: until the plan does not change any more; none where the coordinator plans (KIP-848).",
    )
    return table(columns, [now, *map(_outcome, assignment.outcomes)], caption=caption)


def _outcome(each: StrategyOutcome) -> Sequence[Child]:
    if each.failure is not None:
        return format_name(each.strategy), f"would fail: {each.failure}", UNKNOWN, UNKNOWN, UNKNOWN
    return (
        format_name(each.strategy),
        format_shares(each.shares),
        format_number(each.moved),
        format_number(each.paused),
        format_number(each.rebalances),
    )


def _lag(facts: GroupFacts, scale: TimeScale) -> Markup:
    known = [point for point in facts.lag if point.value is not None]
    if not known:
        return _nothing("Not known: no log end of the partitions is in what was read.")
    single = [line for line in facts.partition_lag.rows if facts.partition_lag.total > 1]
    lines = [Line(label=el("span", "all partitions together"), points=facts.lag)]
    lines += [
        Line(label=concatenate(format_name(line.topic), f" {line.partition}"), points=line.points) for line in single
    ]
    numbers = number_scale(max(point.value or 0 for line in lines for point in line.points))
    rest = f" Of {format_count(facts.partition_lag.total, 'partition')}, those with the largest lag." if single else ""
    caption = f"{_highest(known)} Against the logs as they grew. A gap: the log end is not known.{rest}"
    return line_chart(lines, scale, numbers, description=f"Lag in records. {_highest(known)}", caption=caption)


def _highest(known: Sequence[Point]) -> str:
    highest = max(known, key=lambda point: point.value or 0)
    at_the_end = format_number(known[-1].value)
    return f"Highest {format_number(highest.value)} about {format_time_to_second(highest.at)}; {at_the_end} at the end."


def _lag_seconds(facts: GroupFacts, scale: TimeScale) -> Markup:
    known = [point for point in facts.lag_seconds if point.value is not None]
    if not known:
        return _nothing("Not known: no timestamps of the partitions' records are in what was read.")
    highest = max(known, key=lambda point: point.value or 0)
    summary = (
        f"Highest {_seconds(highest)} about {format_time_to_second(highest.at)}; {_seconds(known[-1])} at the end."
    )
    line = Line(label=el("span", "the partition that is furthest behind"), points=facts.lag_seconds)
    caption = f"{summary} It is how old the first record was that was not read yet."
    scaled = seconds_scale(highest.value or 0)
    return line_chart([line], scale, scaled, description=f"Lag in time. {summary}", caption=caption)


def _seconds(point: Point) -> str:
    return format_duration((point.value or 0) * 1000)


def _commits(facts: GroupFacts, scale: TimeScale, piece: timedelta) -> Markup:
    if not facts.commits:
        return _nothing("No commit is in what was read.")
    highest = max(facts.commits, key=lambda point: point.value or 0)
    most = f"{highest.value or 0:,.3g}"
    caption = f"{format_count(facts.commit_count, 'commit')}, at most {most} per second, "
    caption += f"about {format_time_to_second(highest.at)}. "
    caption += f"A column is {format_duration(piece.total_seconds() * 1000)}."
    numbers = number_scale(highest.value or 0, is_whole=False)
    return step_chart(
        facts.commits, piece, scale, numbers, description=f"Commits per second. {caption}", caption=caption
    )


def _members(members: Bounded[Member], numbers: Numbers, end: datetime) -> Markup:
    if not members.rows:
        return _nothing("No member is in what was read: the group only commits.")
    columns = [
        Column("no."),
        Column("client id", "name"),
        Column("host", "text"),
        Column("instance id", "text"),
        Column("member id", "name"),
        Column("came", "time"),
        Column("went", "time"),
        Column("stayed", "number"),
    ]
    rows = [
        (
            member_tag(numbers[member.instance_id or member.member_id], member.member_id),
            format_name(member.client_id),
            format_name(member.client_host),
            format_name(member.instance_id),
            format_name(member.member_id),
            format_time(member.first_at),
            format_time(member.last_at) if member.last_at else "still there",
            _stay(member, end),
        )
        for member in members.rows
    ]
    return table(columns, rows, caption=truncation_note(members, "member", which="those that were seen last"))


def _stay(member: Member, end: datetime) -> str:
    return format_duration(None if member.first_at is None else (((member.last_at or end) - member.first_at) / _MS))


def _rebalances(facts: GroupFacts, numbers: Numbers) -> Markup:
    if not facts.rebalances.rows:
        return _nothing("None.")
    columns = [
        Column("generation", "number"),
        Column("cause", "name"),
        Column("ended at", "time"),
        Column("took", "number"),
        Column("pause", "number"),
        Column("moved", "number"),
        Column("members", "number"),
        Column("joined"),
        Column("left"),
    ]
    ids = {member.member_id: numbers[member.instance_id or member.member_id] for member in facts.members.rows}
    caption = (
        "Took: what the log shows of it, at least. Pause: from the last commit before it to the first one after it, "
        "at most. Moved: partitions that got another owner."
    )
    note = truncation_note(facts.rebalances, "rebalance", which="the latest ones")
    rows = (_rebalance(each, ids) for each in facts.rebalances.rows)
    return table(columns, rows, caption=f"{note} {caption}" if note else caption)


def _rebalance(each: Rebalance, ids: Numbers) -> Sequence[Child]:
    return (
        format_number(each.generation),
        format_name(", ".join(each.causes) or "not told"),
        format_time(each.ended_at),
        format_duration(each.duration_ms),
        format_duration(each.pause_ms),
        format_number(each.moved_partitions),
        format_number(each.members),
        _who(each.joined, ids),
        _who(each.left, ids),
    )


def _who(members: Bounded[str], ids: Numbers) -> Markup:
    tags = [
        concatenate(member_tag(ids[member], member) if member in ids else format_name(shorten_name(member)), " ")
        for member in members.rows
    ]
    return concatenate(*tags, f"and {members.omitted:,} more" if members.omitted else None)
