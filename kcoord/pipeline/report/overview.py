"""Renders the first page: what was read, and the findings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kcoord.admin.formatting import format_count
from kcoord.pipeline.report.charts.line_chart import Line, line_chart
from kcoord.pipeline.report.charts.rebalance_chart import groups_chart
from kcoord.pipeline.report.charts.scales import TimeScale, number_scale
from kcoord.pipeline.report.conclusions import overview_conclusion, short_time_remark
from kcoord.pipeline.report.elements import Child, Markup, concatenate, el
from kcoord.pipeline.report.formatting import format_duration, format_name, format_number, format_rate, format_time
from kcoord.pipeline.report.group_page import last_known
from kcoord.pipeline.report.html_tables import Column, figures, table, truncation_note
from kcoord.pipeline.report.model import (
    Bounded,
    FlappingMember,
    GroupFacts,
    NeverCaughtUp,
    RejectedReason,
    ReportFacts,
    StuckPartition,
    UnstableGroup,
)

_MAX_GROUPS: Final = 20
_MAX_LINES: Final = 5
_TIME_IN_REBALANCES: Final = (
    "Time in them: how long its rebalances took together, as far as the log shows it, at least."
)

Anchors = Mapping[str, str]
"""The anchor of a group's page, by the group's id."""


def overview(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    """Renders the first page of the report as HTML: what was read, and the findings about all groups."""
    parts = [
        ("When groups rebalanced", _rebalance_chart(facts, scale, anchors)),
        ("How far groups were behind", _lag(facts, scale, anchors)),
        ("The most restless groups", _unstable(facts.unstable, anchors, short_time_remark(facts))),
        ("Members that come and go", _flapping(facts.flapping, anchors)),
        ("Partitions that never catch up", _never_caught_up(facts.never_caught_up, anchors)),
        ("Partitions that stand still", _stuck(facts.stuck, anchors)),
        ("What could not be decoded", _rejected(facts.rejected)),
        ("What was read", _scanned(facts)),
        ("All groups of this report", _groups(facts.groups, anchors)),
    ]
    return concatenate(
        el("h1", "The history of groups"),
        el("p", "From ", format_name(facts.source_name), ". ", _period(facts), class_="quiet"),
        overview_conclusion(facts),
        figures(_figures(facts)),
        *(concatenate(el("h2", title), part) for title, part in parts),
    )


def _period(facts: ReportFacts) -> str:
    asked = [
        f"{word} {format_time(at)}" for word, at in (("since", facts.since), ("until", facts.until)) if at is not None
    ]
    bounds = f" Asked for: {' '.join(asked)}." if asked else ""
    return f"All times are UTC.{bounds} Made at {format_time(facts.made_at)}."


def _figures(facts: ReportFacts) -> Iterator[tuple[str, Child]]:
    yield "first record", format_time(facts.first_at)
    yield "last record", format_time(facts.last_at)
    yield "groups", format_number(facts.groups.total)
    yield "commits", format_number(facts.commit_count)
    yield "rebalances", format_number(facts.rebalance_count)
    yield "records rejected", format_number(facts.scanned.rejected)


def _nothing(text: str) -> Markup:
    return el("p", text, class_="quiet")


def _link(group: str, anchors: Anchors) -> Markup:
    """Links to the page of the group, if the report has one."""
    anchor = anchors.get(group)
    return el("a", format_name(group), href=f"#{anchor}") if anchor else format_name(group)


def _rebalance_chart(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    rebalanced = [each for each in facts.groups.rows if each.marks]
    if not rebalanced:
        return _nothing("No rebalance is in what was read.")
    return groups_chart([(anchors[each.group], each) for each in rebalanced[:_MAX_GROUPS]], scale)


def _lag(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    peaks = {each.group: peak for each in facts.groups.rows if (peak := _peak(each)) is not None}
    if not peaks:
        return _nothing("Not known: no log end of their partitions is in what was read.")
    furthest = sorted((each for each in facts.groups.rows if each.group in peaks), key=lambda each: -peaks[each.group])
    lines = [Line(label=_link(each.group, anchors), points=each.lag) for each in furthest[:_MAX_LINES]]
    numbers = number_scale(max(peaks.values()))
    caption = "Lag in records, all partitions of a group together. A gap: the log end is not known."
    if len(furthest) > len(lines):
        caption += f" Shown: {len(lines)} of {format_count(len(furthest), 'group')}, those with the largest lag."
    return line_chart(lines, scale, numbers, description=caption, caption=caption)


def _peak(facts: GroupFacts) -> float | None:
    return max((point.value for point in facts.lag if point.value is not None), default=None)


def _unstable(groups: Bounded[UnstableGroup], anchors: Anchors, remark: str | None) -> Markup:
    if not groups.rows:
        return _nothing("None: no group rebalanced.")
    columns = [
        Column("group", "name"),
        Column("rebalances", "number"),
        Column("per hour", "number"),
        Column("time in them", "number"),
        Column("longest", "number"),
        Column("paused", "number"),
        Column("partitions moved", "number"),
        Column("causes", "name"),
    ]
    rows = [
        (
            _link(each.group, anchors),
            format_number(each.rebalances),
            format_rate(each.per_hour),
            format_duration(each.lost_ms),
            format_duration(each.longest_ms),
            format_duration(each.pause_ms),
            format_number(each.moved_partitions),
            format_name(_causes(each)),
        )
        for each in groups.rows
    ]
    note = truncation_note(groups, "group", which="those that rebalanced most")
    explained = (
        f"{_TIME_IN_REBALANCES} Paused: from the last commit before each to the first one after it, added up, at most."
    )
    return table(columns, rows, caption=" ".join(part for part in (note, explained, remark) if part))


def _causes(group: UnstableGroup) -> str:
    """Lists the causes, the most frequent first."""
    by_count = sorted(group.causes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{cause} {format_number(count)}" for cause, count in by_count)


def _flapping(members: Bounded[FlappingMember], anchors: Anchors) -> Markup:
    if not members.rows:
        return _nothing("None.")
    columns = [
        Column("group", "name"),
        Column("member", "name"),
        Column("came back", "number"),
        Column("joined", "number"),
        Column("left", "number"),
        Column("stayed", "number"),
        Column("first", "time"),
        Column("last", "time"),
    ]
    rows = [
        (
            _link(each.group, anchors),
            format_name(each.member),
            format_number(each.returned),
            format_number(each.joined),
            format_number(each.left),
            format_duration(each.stayed_ms),
            format_time(each.first_at),
            format_time(each.last_at),
        )
        for each in members.rows
    ]
    return table(columns, rows, caption=truncation_note(members, "member", which="those that did so most often"))


def _never_caught_up(partitions: Bounded[NeverCaughtUp], anchors: Anchors) -> Markup:
    if not partitions.rows:
        return _nothing("None, as far as log ends were read.")
    columns = [
        Column("group", "name"),
        Column("topic", "name"),
        Column("partition", "number"),
        Column("lowest lag", "number"),
        Column("lag at the end", "number"),
        Column("behind", "number"),
        Column("grows per hour", "number"),
        Column("since", "time"),
    ]
    rows = [
        (
            _link(each.group, anchors),
            format_name(each.topic),
            str(each.partition),
            format_number(each.lowest_lag),
            format_number(each.last_lag),
            format_duration(each.last_lag_ms),
            format_rate(each.per_hour),
            format_time(each.since),
        )
        for each in partitions.rows
    ]
    return table(columns, rows, caption=truncation_note(partitions, "partition", which="those with the largest lag"))


def _stuck(partitions: Bounded[StuckPartition], anchors: Anchors) -> Markup:
    if not partitions.rows:
        return _nothing("None, as far as log ends were read.")
    columns = [
        Column("group", "name"),
        Column("topic", "name"),
        Column("partition", "number"),
        Column("committed", "number"),
        Column("lag", "number"),
        Column("stood", "number"),
        Column("since", "time"),
        Column("until", "time"),
    ]
    rows = [
        (
            _link(each.group, anchors),
            format_name(each.topic),
            str(each.partition),
            format_number(each.committed),
            format_number(each.lag),
            format_duration(each.stood_ms),
            format_time(each.since),
            format_time(each.until) if each.until else "still",
        )
        for each in partitions.rows
    ]
    return table(columns, rows, caption=truncation_note(partitions, "partition", which="those that stood longest"))


def _rejected(reasons: Bounded[RejectedReason]) -> Markup:
    if not reasons.rows:
        return _nothing("Nothing: every record was decoded.")
    columns = [
        Column("reason", "name"),
        Column("of what"),
        Column("how often", "number"),
        Column("records", "number"),
        Column("last", "time"),
    ]
    rows = [
        (
            format_name(each.reason),
            format_name(each.what),
            format_number(each.rows),
            format_number(each.records),
            format_time(each.last_at),
        )
        for each in reasons.rows
    ]
    return table(columns, rows, caption=truncation_note(reasons, "reason", which="the most frequent ones"))


def _scanned(facts: ReportFacts) -> Markup:
    scanned = facts.scanned
    counts: Sequence[tuple[str, int]] = [
        ("commits and deletions of offsets", scanned.commits),
        ("generations of classic groups", scanned.generations),
        ("records of other groups", scanned.group_events),
        ("rejected", scanned.rejected),
        ("markers of transactions", scanned.control),
        ("of aborted transactions", scanned.aborted),
        ("of transactions without an end", scanned.open),
        ("of other topics", scanned.plain),
        ("of groups or times that were not asked for", scanned.left_out),
    ]
    rows: list[Sequence[Child]] = [(what, format_number(count)) for what, count in counts if count]
    rows.append((el("strong", "records in all"), el("strong", format_number(scanned.records))))
    caption = f"In {format_number(scanned.batches)} batches."
    return table([Column("records"), Column("how many", "number")], rows, caption=caption)


def _groups(groups: Bounded[GroupFacts], anchors: Anchors) -> Markup:
    if not groups.rows:
        return _nothing("None.")
    columns = [
        Column("group", "name"),
        Column("kind"),
        Column("state at the end"),
        Column("members seen", "number"),
        Column("rebalances", "number"),
        Column("time in them", "number"),
        Column("commits", "number"),
        Column("lag at the end", "number"),
    ]
    rows = [
        (
            _link(each.group, anchors),
            format_name(each.kind or "only commits"),
            format_name(each.state),
            format_number(each.members.total),
            format_number(each.rebalance_count),
            format_duration(each.lost_ms),
            format_number(each.commit_count),
            format_number(last_known(each.lag)),
        )
        for each in groups.rows
    ]
    which = "the most restless ones, then those with the largest lag; --group shows others"
    note = truncation_note(groups, "group", which=which)
    return table(columns, rows, caption=f"{note} {_TIME_IN_REBALANCES}" if note else _TIME_IN_REBALANCES)
