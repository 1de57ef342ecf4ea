"""Renders the first page: what was read, and the findings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kcoord.admin.formatting import format_count
from kcoord.pipeline.report.charts.line_chart import Line, lines_picture
from kcoord.pipeline.report.charts.rebalance_chart import groups_picture
from kcoord.pipeline.report.charts.scales import TimeScale, number_scale
from kcoord.pipeline.report.conclusions import overview_conclusion, short_time_remark
from kcoord.pipeline.report.elements import Child, Markup, el, together
from kcoord.pipeline.report.formatting import duration, moment, named, number, rate
from kcoord.pipeline.report.group_page import last_known
from kcoord.pipeline.report.html_tables import Column, figures, left_out, table
from kcoord.pipeline.report.model import (
    FlappingMember,
    GroupFacts,
    NeverCaughtUp,
    RejectedReason,
    ReportFacts,
    RestlessGroup,
    Some,
    StandingPartition,
)

_LANES: Final = 20
_LINES: Final = 5
_TIME_IN_THEM: Final = "Time in them: how long its rebalances took together, as far as the log shows it, at least."

Anchors = Mapping[str, str]
"""The anchor of a group's page, by the group's id."""


def overview(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    """Renders the overview."""
    parts = [
        ("When groups rebalanced", _picture(facts, scale, anchors)),
        ("How far groups were behind", _lag(facts, scale, anchors)),
        ("The most restless groups", _restless(facts.restless, anchors, short_time_remark(facts))),
        ("Members that come and go", _flapping(facts.flapping, anchors)),
        ("Partitions that never catch up", _never_caught_up(facts.never_caught_up, anchors)),
        ("Partitions that stand still", _standing(facts.standing, anchors)),
        ("What could not be decoded", _rejected(facts.rejected)),
        ("What was read", _scanned(facts)),
        ("All groups of this report", _groups(facts.groups, anchors)),
    ]
    return together(
        el("h1", "The history of groups"),
        el("p", "From ", named(facts.place), ". ", _period(facts), class_="quiet"),
        overview_conclusion(facts),
        figures(_figures(facts)),
        *(together(el("h2", title), part) for title, part in parts),
    )


def _period(facts: ReportFacts) -> str:
    asked = [f"{word} {moment(at)}" for word, at in (("since", facts.since), ("until", facts.until)) if at is not None]
    bounds = f" Asked for: {' '.join(asked)}." if asked else ""
    return f"All times are UTC.{bounds} Made at {moment(facts.made_at)}."


def _figures(facts: ReportFacts) -> Iterator[tuple[str, Child]]:
    yield "first record", moment(facts.first_at)
    yield "last record", moment(facts.last_at)
    yield "groups", number(facts.groups.total)
    yield "commits", number(facts.commit_count)
    yield "rebalances", number(facts.rebalance_count)
    yield "records rejected", number(facts.scanned.rejected)


def _nothing(text: str) -> Markup:
    return el("p", text, class_="quiet")


def _link(group: str, anchors: Anchors) -> Markup:
    """Links to the page of the group, if the report has one."""
    anchor = anchors.get(group)
    return el("a", named(group), href=f"#{anchor}") if anchor else named(group)


def _picture(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    restless = [each for each in facts.groups.rows if each.marks]
    if not restless:
        return _nothing("No rebalance is in what was read.")
    return groups_picture([(anchors[each.group], each) for each in restless[:_LANES]], scale)


def _lag(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    peaks = {each.group: peak for each in facts.groups.rows if (peak := _peak(each)) is not None}
    if not peaks:
        return _nothing("Not known: no log end of their partitions is in what was read.")
    furthest = sorted((each for each in facts.groups.rows if each.group in peaks), key=lambda each: -peaks[each.group])
    lines = [Line(label=_link(each.group, anchors), points=each.lag) for each in furthest[:_LINES]]
    numbers = number_scale(max(peaks.values()))
    caption = "Lag in records, all partitions of a group together. A gap: the log end is not known."
    if len(furthest) > len(lines):
        caption += f" Shown: {len(lines)} of {format_count(len(furthest), 'group')}, those with the largest lag."
    return lines_picture(lines, scale, numbers, told=caption, caption=caption)


def _peak(facts: GroupFacts) -> float | None:
    return max((point.value for point in facts.lag if point.value is not None), default=None)


def _restless(groups: Some[RestlessGroup], anchors: Anchors, remark: str | None) -> Markup:
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
            number(each.rebalances),
            rate(each.per_hour),
            duration(each.lost_ms),
            duration(each.longest_ms),
            duration(each.pause_ms),
            number(each.moved_partitions),
            named(_causes(each)),
        )
        for each in groups.rows
    ]
    told = left_out(groups, "group", which="those that rebalanced most")
    explained = (
        f"{_TIME_IN_THEM} Paused: from the last commit before each to the first one after it, added up, at most."
    )
    return table(columns, rows, caption=" ".join(part for part in (told, explained, remark) if part))


def _causes(group: RestlessGroup) -> str:
    """Lists the causes, the most frequent first."""
    by_count = sorted(group.causes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{cause} {number(count)}" for cause, count in by_count)


def _flapping(members: Some[FlappingMember], anchors: Anchors) -> Markup:
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
            named(each.member),
            number(each.returned),
            number(each.joined),
            number(each.left),
            duration(each.stayed_ms),
            moment(each.first_at),
            moment(each.last_at),
        )
        for each in members.rows
    ]
    return table(columns, rows, caption=left_out(members, "member", which="those that did so most often"))


def _never_caught_up(partitions: Some[NeverCaughtUp], anchors: Anchors) -> Markup:
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
            named(each.topic),
            str(each.partition),
            number(each.lowest_lag),
            number(each.last_lag),
            duration(each.last_lag_ms),
            rate(each.per_hour),
            moment(each.since),
        )
        for each in partitions.rows
    ]
    return table(columns, rows, caption=left_out(partitions, "partition", which="those with the largest lag"))


def _standing(partitions: Some[StandingPartition], anchors: Anchors) -> Markup:
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
            named(each.topic),
            str(each.partition),
            number(each.committed),
            number(each.lag),
            duration(each.stood_ms),
            moment(each.since),
            moment(each.until) if each.until else "still",
        )
        for each in partitions.rows
    ]
    return table(columns, rows, caption=left_out(partitions, "partition", which="those that stood longest"))


def _rejected(reasons: Some[RejectedReason]) -> Markup:
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
        (named(each.reason), named(each.what), number(each.rows), number(each.records), moment(each.last_at))
        for each in reasons.rows
    ]
    return table(columns, rows, caption=left_out(reasons, "reason", which="the most frequent ones"))


def _scanned(facts: ReportFacts) -> Markup:
    scanned = facts.scanned
    said: Sequence[tuple[str, int]] = [
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
    rows: list[Sequence[Child]] = [(what, number(count)) for what, count in said if count]
    rows.append((el("strong", "records in all"), el("strong", number(scanned.records))))
    caption = f"In {number(scanned.batches)} batches."
    return table([Column("records"), Column("how many", "number")], rows, caption=caption)


def _groups(groups: Some[GroupFacts], anchors: Anchors) -> Markup:
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
            named(each.kind or "only commits"),
            named(each.state),
            number(each.members.total),
            number(each.rebalance_count),
            duration(each.lost_ms),
            number(each.commit_count),
            number(last_known(each.lag)),
        )
        for each in groups.rows
    ]
    which = "the most restless ones, then those with the largest lag; --group shows others"
    told = left_out(groups, "group", which=which)
    return table(columns, rows, caption=f"{told} {_TIME_IN_THEM}" if told else _TIME_IN_THEM)
