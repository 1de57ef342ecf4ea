"""The sentence at the head of a page: what happened, why, and what it cost, computed from the facts of the page."""

from collections import Counter
from datetime import timedelta
from typing import Final

from kcoord.admin.formatting import format_count
from kcoord.markup import Markup, concatenate, el
from kcoord.pipeline.report.charts.scales import TimeScale
from kcoord.pipeline.report.formatting import format_duration, format_name, format_number
from kcoord.pipeline.report.model import GroupFacts, Point, ReportFacts

# A rebalance whose end alone was written has no length.
_LENGTH_UNKNOWN: Final = "; the log does not show how long they took."


def group_conclusion(facts: GroupFacts, scale: TimeScale) -> Markup:
    """Renders the paragraph at the head of a group's page: how often it rebalanced, mostly why, what that cost, and how
    far it was behind."""
    span = scale.last - scale.first
    return el("p", _rebalance_sentence(facts, span), " ", _lag_sentence(facts.lag), class_="conclusion")


def overview_conclusion(facts: ReportFacts) -> Markup:
    """Renders the paragraph at the head of the overview: how many groups rebalanced, which most, and how many
    partitions lag."""
    groups = format_count(facts.groups.total, "group")
    if not facts.unstable.rows:
        happened = concatenate(f"None of {groups} rebalanced.")
    else:
        most = facts.unstable.rows[0]
        happened = concatenate(
            f"{format_number(facts.unstable.total)} of {groups} rebalanced, ",
            f"{format_count(facts.rebalance_count, 'time')}; ",
            *("most often ", format_name(most.group), f": {format_count(most.rebalances, 'time')}"),
            *_most_common_cause(Counter(most.causes)),
            f", which took it at least {format_duration(most.lost_ms)}." if most.lost_ms else _LENGTH_UNKNOWN,
            _pause_sentence(most.pause_ms),
        )
    late, still = facts.never_caught_up.total, facts.stuck.total
    behind = f" Never caught up: {format_count(late, 'partition')}; stood still: {format_count(still, 'partition')}."
    return el("p", happened, behind, class_="conclusion")


def short_time_remark(facts: ReportFacts) -> str | None:
    """Returns a remark about rates per hour if less than an hour was read, else None."""
    if facts.hours is None or facts.hours > 1.0:
        return None
    return "Per hour: less than an hour of records was read, which counts as one."


def _rebalance_sentence(facts: GroupFacts, span: timedelta) -> Markup:
    if not facts.rebalance_count:
        return concatenate("It did not rebalance.")
    causes: Counter[str] = Counter()
    for mark in facts.marks:
        causes[mark.cause] += mark.rebalances
    share = facts.lost_ms / max(span / timedelta(milliseconds=1), 1)
    return concatenate(
        f"It rebalanced {format_count(facts.rebalance_count, 'time')}",
        *_most_common_cause(causes),
        f", which took at least {format_duration(facts.lost_ms)}, {share:.1%} of the time."
        if facts.lost_ms
        else _LENGTH_UNKNOWN,
        _pause_sentence(facts.pause_ms),
    )


def _pause_sentence(pause_ms: int | None) -> str:
    """Returns a sentence about what rebalances cost beyond the time that the log shows of them."""
    return f" Around them it committed nothing for {format_duration(pause_ms)} together, at most." if pause_ms else ""


def _most_common_cause(causes: Counter[str]) -> tuple[str | Markup, ...]:
    if not causes:
        return ()
    [(cause, count)] = causes.most_common(1)
    return (", mostly by the cause ", format_name(cause), f" ({format_number(count)})")


def _lag_sentence(lag: tuple[Point, ...]) -> str:
    known = [point.value for point in lag if point.value is not None]
    if not known:
        return "How far it was behind is not known."
    return (
        f"It was at most {format_count(round(max(known)), 'record')} behind, and {format_number(known[-1])} at the end."
    )
