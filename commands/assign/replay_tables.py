"""The tables of `kcoord assign replay`."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import format_count
from kcoord.assignors.replaying.absences import Absence, Avoided, Departure
from kcoord.assignors.replaying.comparing import SESSION_TIMEOUT, HistoryComparison, Question, Replayed, WhatIf
from kcoord.assignors.replaying.replay import Cost, Total

from ..output.output import Cell, Column, Table
from ..pipeline.findings import time_text

_FIGURES: Final = (
    Column("REBALANCES"),
    Column("MOVED"),
    Column("PAUSED"),
    Column("PARTITION-SECONDS", align="right"),
    Column("AT-LEAST", align="right"),
)
_TOTALS: Final = (
    Column("STRATEGY"),
    *_FIGURES,
    Column("STARTED", wide=True),
    Column("SPREAD", wide=True),
    Column("UNTIMED", wide=True),
    Column("FAILED", wide=True),
)
_EACH: Final = (Column("GENERATION"), Column("AT"), Column("MEMBERS"), Column("STRATEGY"), *_FIGURES, Column("FAILED"))
_AVOIDED: Final = (Column("GENERATION"), Column("AT"), Column("MEMBERS"))
_SHEET: Final = (Column("GROUP"), Column("WHAT IF"), *_TOTALS)


def history_tables(histories: Sequence[HistoryComparison], question: Question, *, is_detailed: bool) -> list[Table]:
    """Returns the tables for people: for each group what strategies cost, and what-ifs with the rebalances that would
    not have happened; `is_detailed` adds a row for each rebalance and strategy."""
    return [table for each in histories for table in _of_group(each, question, is_detailed=is_detailed)]


def sheet_tables(histories: Sequence[HistoryComparison], *, is_detailed: bool) -> list[Table]:
    """Returns the one table for CSV: a row for each group, what-if and strategy; `is_detailed` for each rebalance."""
    if is_detailed:
        rows = [(each.group, *row) for each in histories for row in _each_rows(each)]
        return [Table(columns=(Column("GROUP"), *_EACH), rows=rows)]
    rows = [
        (history.group, name, *_total_row(replayed.strategy, replayed.total))
        for history in histories
        for name, replays in _variants(history)
        for replayed in replays
    ]
    return [Table(columns=_SHEET, rows=rows)]


def what_if_text(what_if: WhatIf) -> str:
    """Formats what a what-if assumes."""
    if what_if.session_timeout_ms is None:
        return "if members had been static (group.instance.id), with their session timeouts"
    timeout = format_duration(what_if.session_timeout_ms / 1000)
    if what_if.name == SESSION_TIMEOUT:
        return f"if sessions had lasted {timeout}, and members that expired were alive and only late"
    return f"if members had been static (group.instance.id), with a session timeout of {timeout}"


def _of_group(history: HistoryComparison, question: Question, *, is_detailed: bool) -> Iterator[Table]:
    rows = [_total_row(f"recorded ({_protocols(history)})", history.recorded.total)]
    rows += [_total_row(each.strategy, each.total) for each in history.replayed]
    title = f"{history.group}: {_partitions(history, question)}{_untimed_remark(history)}"
    yield Table(columns=_TOTALS, rows=rows, title=title)
    if is_detailed:
        yield Table(columns=_EACH, rows=[*_each_rows(history)], title=f"{history.group}: each rebalance")
    for what_if in history.what_ifs:
        yield from _of_what_if(history, what_if)


def _of_what_if(history: HistoryComparison, what_if: WhatIf) -> Iterator[Table]:
    title = f"{history.group}: {what_if_text(what_if)}"
    if not what_if.avoided:
        yield Table(columns=(), rows=(), title=f"{title}: this would have avoided no rebalance{_remark(history)}")
        return
    rows = [_total_row(each.strategy, each.total) for each in what_if.replayed]
    unread = f"{what_if.unread_partition_ms / 1000:,.1f} partition-seconds"
    title += f"; unread while members were away, and not counted below: {unread}"
    yield Table(columns=_TOTALS, rows=rows, title=title)
    rebalances = sum(len(each.change.recorded) for each in what_if.avoided if each.change.kind.is_rebalance)
    yield Table(
        columns=_AVOIDED,
        rows=[_avoided_row(each) for each in what_if.avoided],
        title=f"{history.group}: {format_count(rebalances, 'recorded rebalance')} would not have happened",
    )


def _remark(history: HistoryComparison) -> str:
    """Returns what is known of members that went and came back anyway."""
    counts = {each: sum(absence.departure is each for absence in history.absences) for each in Departure}
    parts = [f"{count} {departure}" for departure, count in counts.items() if count]
    came_back = format_count(len(history.absences), "member")
    return f" ({came_back} came back: {', '.join(parts)})" if parts else " (no member came back)"


def _protocols(history: HistoryComparison) -> str:
    return ", ".join(history.protocols) or "unknown"


def _partitions(history: HistoryComparison, question: Question) -> str:
    counts = ", ".join(f"{topic} {count}" for topic, count in sorted(history.counts.items()))
    if not counts:
        return "no partition was assigned"
    source = "by --partitions, others by the assignments" if question.counts else "by the assignments"
    return f"partitions {source}: {counts}"


def _untimed_remark(history: HistoryComparison) -> str:
    untimed = history.recorded.total.untimed
    return f"; of {format_count(untimed, 'recorded rebalance')} no pause is known" if untimed else ""


def _variants(history: HistoryComparison) -> Iterator[tuple[str | None, Sequence[Replayed]]]:
    yield None, (history.recorded, *history.replayed)
    for what_if in history.what_ifs:
        yield what_if.name, what_if.replayed


def _total_row(name: str, total: Total) -> tuple[Any, ...]:
    return (
        name,
        *_figures(total),
        total.started,
        total.spread,
        total.untimed,
        total.failures,
    )


def _figures(of: Total | Cost) -> tuple[Any, ...]:
    return of.rebalances, of.moved, of.paused, _seconds(of.partition_ms), _seconds(of.least_partition_ms)


def _seconds(milliseconds: int | None) -> Cell | None:
    return None if milliseconds is None else Cell(f"{milliseconds / 1000:,.1f}", raw=milliseconds / 1000)


def _each_rows(history: HistoryComparison) -> Iterator[tuple[Any, ...]]:
    """Yields a row for each rebalance and strategy, by the order of the rebalances."""
    replays = [history.recorded, *history.replayed]
    costs = [(cost, rank, replayed.strategy) for rank, replayed in enumerate(replays) for cost in replayed.costs]
    for cost, _, strategy in sorted(costs, key=lambda each: (each[0].at_ms or 0, each[0].generation or 0, each[1])):
        yield cost.generation, time_text(cost.at_ms), cost.members, strategy, *_figures(cost), cost.failure


def _avoided_row(avoided: Avoided) -> tuple[Any, ...]:
    numbers = [each.number for each in avoided.change.recorded]
    return (
        "-".join(map(str, dict.fromkeys((numbers[0], numbers[-1])))),
        time_text(avoided.change.first.written_ms),
        ", ".join(dict.fromkeys(map(_name, avoided.absences))),
    )


def _name(absence: Absence) -> str:
    member = absence.member
    return member.instance_id or " ".join(filter(None, (member.client_id, member.client_host))) or member.member_id
