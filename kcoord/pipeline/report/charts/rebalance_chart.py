"""Charts of when a group rebalanced, with a strip for each cause; and of many groups, with a strip for each group."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from kcoord.admin.formatting import format_count
from kcoord.markup import Markup, concatenate, el
from kcoord.pipeline.report.charts.chart_layout import color_class, figure, percent, row
from kcoord.pipeline.report.charts.scales import TimeScale
from kcoord.pipeline.report.formatting import format_duration, format_name, format_number, format_time, shorten_name
from kcoord.pipeline.report.model import GroupFacts, RebalanceMark

CAUSES: Final = (
    *("joined", "left", "replaced", "static returned", "subscription changed"),
    *("partitions changed", "handed over", "unknown"),
)
"""The causes in the order of their strips and colors."""
_OTHER: Final = len(CAUSES) - 1
_HEIGHT: Final = 18
_THINNEST: Final = 0.25  # percent: a rebalance of a second must be visible in a chart of a month


def causes_chart(marks: Sequence[RebalanceMark], scale: TimeScale) -> Markup:
    """Renders the chart of when a group rebalanced: a strip for each cause."""
    causes = sorted({mark.cause for mark in marks}, key=_cause_order)
    rows = (_cause_row(cause, [mark for mark in marks if mark.cause == cause], scale) for cause in causes)
    return figure(rows, scale, caption="Each lane is a cause; a rebalance with several is in several lanes.")


def groups_chart(groups: Iterable[tuple[str, GroupFacts]], scale: TimeScale) -> Markup:
    """Renders the chart of when groups rebalanced: a strip for each group, with a link to its page."""
    rows = (
        row(
            el("a", format_name(shorten_name(facts.group)), href=f"#{anchor}"),
            _mark_shapes(facts.marks, scale, 0),
            scale,
            height=_HEIGHT,
            description=f"{shorten_name(facts.group)}: {format_count(facts.rebalance_count, 'rebalance')}",
        )
        for anchor, facts in groups
    )
    return figure(rows, scale, caption="Each lane is a group, each mark a rebalance, as long as it took.")


def cause_color(cause: str) -> int:
    """Returns the number of the color in which charts draw rebalances of this cause."""
    return CAUSES.index(cause) if cause in CAUSES else _OTHER


def _cause_order(cause: str) -> tuple[int, str]:
    return cause_color(cause), cause


def _cause_row(cause: str, marks: Sequence[RebalanceMark], scale: TimeScale) -> Markup:
    count = sum(mark.rebalances for mark in marks)
    label = concatenate(
        shorten_name(cause), " ", el("span", format_number(count), class_=f"tag {color_class(cause_color(cause))}")
    )
    description = f"{shorten_name(cause)}: {format_count(count, 'rebalance')}"
    return row(label, _mark_shapes(marks, scale, cause_color(cause)), scale, height=_HEIGHT, description=description)


def _mark_shapes(marks: Iterable[RebalanceMark], scale: TimeScale, color: int) -> Iterator[Markup]:
    for mark in marks:
        start, end = scale.percent(mark.first), scale.percent(mark.last)
        yield el(
            "rect",
            el("title", _mark_title(mark)),
            class_=f"mark {color_class(color)}",
            x=percent(start),
            y=2,
            width=percent(max(end - start, _THINNEST)),
            height=_HEIGHT - 4,
        )


def _mark_title(mark: RebalanceMark) -> str:
    times = _format_times(mark.first, mark.last)
    rebalances = format_count(mark.rebalances, "rebalance")
    return f"{shorten_name(mark.cause)}: {rebalances}, {times}, {format_duration(mark.lost_ms)} in all"


def _format_times(first: datetime, last: datetime) -> str:
    return format_time(first) if first == last else f"{format_time(first)} to {format_time(last)}"
