"""Renders the first page: what was read, and the findings."""

from collections.abc import Iterator, Sequence
from typing import Final

from kcoord.admin.formatting import format_count
from kcoord.markup import Child, Markup, concatenate, el
from kcoord.pipeline.report.charts.line_chart import Line, line_chart
from kcoord.pipeline.report.charts.rebalance_chart import groups_chart
from kcoord.pipeline.report.charts.scales import TimeScale, number_scale
from kcoord.pipeline.report.conclusions import overview_conclusion
from kcoord.pipeline.report.formatting import format_name, format_number, format_time
from kcoord.pipeline.report.html_tables import Column, figures, table
from kcoord.pipeline.report.model import GroupFacts, ReportFacts
from kcoord.pipeline.report.overview_tables import (
    FLAPPING,
    GROUPS,
    NEVER_CAUGHT_UP,
    REJECTED,
    STUCK,
    UNSTABLE,
    Anchors,
    group_link,
    quiet,
)

_MAX_GROUPS: Final = 20
_MAX_LINES: Final = 5


def overview(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    """Renders the first page of the report as HTML: what was read, and the findings about all groups."""
    parts = [
        ("When groups rebalanced", _rebalance_chart(facts, scale, anchors)),
        ("How far groups were behind", _lag(facts, scale, anchors)),
        ("The most restless groups", UNSTABLE.render(facts, anchors)),
        ("Members that come and go", FLAPPING.render(facts, anchors)),
        ("Partitions that never catch up", NEVER_CAUGHT_UP.render(facts, anchors)),
        ("Partitions that stand still", STUCK.render(facts, anchors)),
        ("What could not be decoded", REJECTED.render(facts, anchors)),
        ("What was read", _scanned(facts)),
        ("All groups of this report", GROUPS.render(facts, anchors)),
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


def _rebalance_chart(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    rebalanced = [each for each in facts.groups.rows if each.marks]
    if not rebalanced:
        return quiet("No rebalance is in what was read.")
    return groups_chart([(anchors[each.group], each) for each in rebalanced[:_MAX_GROUPS]], scale)


def _lag(facts: ReportFacts, scale: TimeScale, anchors: Anchors) -> Markup:
    peaks = {each.group: peak for each in facts.groups.rows if (peak := _peak(each)) is not None}
    if not peaks:
        return quiet("Not known: no log end of their partitions is in what was read.")
    furthest = sorted((each for each in facts.groups.rows if each.group in peaks), key=lambda each: -peaks[each.group])
    lines = [Line(label=group_link(each.group, anchors), points=each.lag) for each in furthest[:_MAX_LINES]]
    numbers = number_scale(max(peaks.values()))
    caption = "Lag in records, all partitions of a group together. A gap: the log end is not known."
    if len(furthest) > len(lines):
        caption += f" Shown: {len(lines)} of {format_count(len(furthest), 'group')}, those with the largest lag."
    return line_chart(lines, scale, numbers, description=caption, caption=caption)


def _peak(facts: GroupFacts) -> float | None:
    return max((point.value for point in facts.lag if point.value is not None), default=None)


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
