"""Tables of offset plans and of their outcomes."""

from collections.abc import Collection, Sequence
from typing import Final

from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import format_count
from kcoord.admin.offsets.applying import Applied, Outcome, Status
from kcoord.admin.offsets.plans import Effect, GroupPlan, OffsetChange, Plan, Risk, Verb, Verdict
from kcoord.admin.offsets.risks import unaccepted_risks
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.times import utc_text

from ..output.output import Cell, Column, Table

_FIRST_COLUMNS = [
    Column("GROUP"),
    Column("TOPIC"),
    Column("PARTITION", align="right"),
    Column("OLD", align="right"),
    Column("NEW", align="right"),
]

_RECORD_TIMES: Final = ("SOURCE-TIME", "TARGET-TIME")


def plan_table(plan: Plan, withheld: Sequence[GroupPlan] = ()) -> Table:
    """Returns the table of a plan of offset changes, followed by the withheld groups, whose EFFECT is the reason of the
    refusal."""
    groups = [*plan.groups, *withheld]
    refused = {group.group for group in withheld}
    are_compared = any(any(_record_times(change)) for group in groups for change in group.changes)
    has_records = are_compared or plan.verb in (Verb.COPY, Verb.IMPORT)
    columns = [
        *_FIRST_COLUMNS,
        Column("DIFFERENCE", align="right", spare=True),  # follows from OLD and NEW
        *([Column(name, wide=not are_compared) for name in _RECORD_TIMES] if has_records else ()),
        Column("EFFECT"),
        Column("FLAGS"),
        Column("REASON", wide=True),
        Column("LOG-START", wide=True),
        Column("LOG-END", wide=True),
    ]
    rows = [
        (
            *_first_cells(group.group, change),
            _difference(change),
            *(_record_times(change) if has_records else ()),
            _refused_cell(change, plan) if group.group in refused else format_effect(change, exists=group.exists),
            _flags(change),
            _reasons(change),
            change.bounds and change.bounds.start,
            change.bounds and change.bounds.end,
        )
        for group in groups
        for change in group.changes
    ]
    return Table(columns=columns, rows=rows)


def _record_times(change: OffsetChange) -> tuple[Cell | None, Cell | None]:
    """Returns the times of the compared records in source and target."""
    if change.comparison is None:
        return None, None
    style = "bold red" if change.comparison.verdict is Verdict.DIFFERENT else ""
    return _time(change.comparison.source, style), _time(change.comparison.target, style)


def _time(mark: RecordMark | None, style: str) -> Cell | None:
    """Formats the time of a record with a blank, where narrow screens fold it; CSV has ISO 8601."""
    if mark is None or mark.timestamp is None:
        return None
    text = utc_text(mark.timestamp)
    return Cell(text.replace("T", " "), style=style, raw=text)


def _refused_cell(change: OffsetChange, plan: Plan) -> Cell:
    return Cell(why_withheld(change, plan.accepted), style="bold red")


def _first_cells(group: str, change: OffsetChange) -> tuple[str, str, int, int | None, int | None]:
    old = change.old.offset if change.old else None
    new = change.new.offset if change.new else None
    return group, change.tp.topic, change.tp.partition, old, new


def _difference(change: OffsetChange) -> Cell | None:
    return None if change.difference is None else Cell(f"{change.difference:+d}", raw=change.difference)


def format_effect(change: OffsetChange, *, exists: bool = True) -> str:
    """Formats the effect of a planned offset change, such as `replays 1,200 records spanning 3h 12m`.

    The span is from the time of the first of these records to that of the last.
    """
    if change.new is None:
        return "forgets the offset"
    if change.old is None:
        lag = f", lag {max(change.bounds.end - change.new.offset, 0):,}" if change.bounds else ""
        return f"{'first commit' if exists else 'creates the group'}{lag}"
    if change.effect is Effect.NOTHING:
        return "stays" if stays(change) else "moves over no records"
    span = ""
    if change.times is not None and change.records > 1:
        span = f" spanning {format_duration((change.times.last - change.times.first) / 1000)}"
    return f"{change.effect} {format_count(change.records, 'record')}{span}"


def stays(change: OffsetChange) -> bool:
    """Returns whether a planned change leaves the committed offset as it is. Other parts of the commit may change."""
    return change.old is not None and change.new is not None and change.old.offset == change.new.offset


def applied_table(applied: Applied) -> Table:
    """Returns the table of offset changes that were applied, with the outcome of each partition."""
    are_compared = any(any(_record_times(outcome.change)) for outcome in applied.outcomes)
    columns = [
        *_FIRST_COLUMNS,
        Column("NOW", align="right"),
        Column("RESULT"),
        Column("EFFECT"),
        Column("FLAGS"),
        Column("REASON", wide=not applied.failed),
        *([Column(name, wide=True) for name in _RECORD_TIMES] if are_compared else ()),
    ]
    rows = [
        (
            *_first_cells(outcome.group, outcome.change),
            (outcome.now and outcome.now.offset) if outcome.was_read else "?",
            _result(outcome),
            format_effect(outcome.change) if outcome.status is Status.DONE else "",
            _flags(outcome.change),
            outcome.reason or _reasons(outcome.change),
            *(_record_times(outcome.change) if are_compared else ()),
        )
        for outcome in applied.outcomes
    ]
    return Table(columns=columns, rows=rows)


def _result(outcome: Outcome) -> Cell:
    if outcome.status is not Status.DONE:
        return Cell(outcome.status.value, style="bold red")
    return Cell("unchanged") if stays(outcome.change) else Cell("done", style="green")


def _flags(change: OffsetChange) -> Cell:
    return Cell(", ".join(note.flag for note in change.notes), style="yellow")


def _reasons(change: OffsetChange) -> str:
    return "; ".join(note.reason for note in change.notes)


def why_withheld(change: OffsetChange, accepted: Collection[Risk]) -> str:
    """Explains in a table why the change of one partition is withheld: its risks that are not accepted, or those of
    other partitions of the group."""
    risks = unaccepted_risks(change, accepted)
    if not risks:
        return "not done, as other partitions of its group are refused"
    return f"refused: {', '.join(risks)}"
