"""The tables of `kcoord assign compare`: one row for each strategy, and who gets what by each of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kcoord.admin.formatting import format_partitions, rate_text
from kcoord.admin.model import TopicPartition
from kcoord.assignors.comparison import Balance, Outcome, balance_of, changes_of, weight_of
from kcoord.assignors.plan import Partition, TopicPartitions, count_partitions, list_partitions
from kcoord.assignors.strategies import STRATEGIES

from ..output.tables import Cell, Column, Table, Value
from .comparison import Comparison, headline, local_partitions

NOW: Final = "now"
BAR_WIDTH: Final = 24
_PARTITIONS: Final = (
    Column("LEAST", align="right"),
    Column("MOST", align="right"),
    Column("DEVIATION", align="right", spare=True),
)
_CHANGES: Final = (
    Column("MOVED", align="right"),
    Column("NEW", align="right", spare=True),
    Column("PAUSED", align="right"),
    Column("REBALANCES", align="right"),
)
_UNREAD: Final = Column("UNREAD", align="right")
_LOCAL: Final = Column("LOCAL", align="right")


def _spread_columns(name: str) -> tuple[Column, ...]:
    return (
        Column(f"{name}-LEAST", align="right", wide=True),
        Column(f"{name}-MOST", align="right"),
        Column(f"{name}-DEVIATION", align="right", wide=True),
    )


def summary_table(comparison: Comparison) -> Table:
    """Returns the table with one row for each strategy, and one for the present assignment."""
    lags, rates = comparison.scenario.lags, comparison.scenario.rates
    columns = [Column("STRATEGY"), Column("PROTOCOL", spare=True), *_PARTITIONS]
    columns += _spread_columns("LAG") if lags is not None else ()
    columns += _spread_columns("RATE") if rates is not None else ()

    def spreads(assignment: Mapping[str, TopicPartitions]) -> list[Value]:
        cells = _partition_cells(balance_of(assignment))
        cells += _lag_cells(balance_of(assignment, lags)) if lags is not None else ()
        return [*cells, *(_rate_cells(balance_of(assignment, rates)) if rates is not None else ())]

    after, outcomes = comparison.scenario.after, comparison.outcomes
    local = {name: local_partitions(after, outcome.plan) for name, outcome in outcomes.items()}
    has_local = any(count is not None for count in local.values())
    has_unread = any(outcome.stopped for outcome in outcomes.values())
    changes = [*_CHANGES, *([_UNREAD] if has_unread else ()), *([_LOCAL] if has_local else ())]
    rows: list[list[Value]] = []
    if current := comparison.scenario.current:
        now = NOW if comparison.present is None else f"{NOW} ({comparison.present})"
        rows.append([now, None, *spreads(current), *[None] * len(changes)])
    for name, outcome in outcomes.items():
        row: list[Value] = [Cell(name, "bold" if name == comparison.present else ""), STRATEGIES[name].style.value]
        if outcome.failure is not None:
            rows.append([*row, Cell("fails", "red"), *[None] * (len(columns) - 3 + len(changes))])
            continue
        row += [*spreads(outcome.plan), *_change_cells(comparison, name, outcome)]
        row += [Cell(f"{len(outcome.stopped):,}", "red" if outcome.stopped else "")] if has_unread else []
        rows.append([*row, *([local[name]] if has_local else ())])
    return Table(columns=[*columns, *changes], rows=rows, title=comparison.title)


def plan_tables(comparison: Comparison) -> Iterator[Table]:
    """Yields a table for each strategy: which partitions each member gets, and which it gains and loses."""
    lags, rates = comparison.scenario.lags, comparison.scenario.rates
    has_before = any(any(outcome.before.values()) for outcome in comparison.outcomes.values())
    racks = {each.member_id: each.rack for each in comparison.scenario.after.members}
    has_racks = any(racks.values())
    columns = [Column("MEMBER"), *([Column("RACK")] if has_racks else ())]
    columns += [Column("COUNT", align="right"), Column("SHARE", spare=True)]
    columns += [Column("LAG", align="right")] if lags is not None else []
    columns += [Column("RATE", align="right")] if rates is not None else []
    columns += [Column("PARTITIONS"), *((Column("GAINS"), Column("LOSES")) if has_before else ())]
    most = max(
        (count_partitions(held) for outcome in comparison.outcomes.values() for held in outcome.plan.values()),
        default=0,
    )
    for name, outcome in comparison.outcomes.items():
        gained, lost = changes_of(outcome)
        rows: list[list[Value]] = []
        for member_id in sorted(outcome.plan.keys() | outcome.before.keys(), key=comparison.label):
            held = outcome.plan.get(member_id)
            count = count_partitions(held or {})
            row: list[Value] = [comparison.label(member_id), *([racks.get(member_id)] if has_racks else ())]
            row += [count if held is not None else Cell("gone", "dim", raw=""), _bar(count, most)]
            row += [_lag_text(weight_of(held or {}, lags))] if lags is not None else []
            row += [rate_text(weight_of(held or {}, rates))] if rates is not None else []
            row += [_partitions(list_partitions(held or {}))]
            if has_before:
                row += [Cell(_partitions(gained.get(member_id, ())), "green")]
                row += [Cell(_partitions(lost.get(member_id, ())), "red")]
            rows.append(row)
        yield Table(columns=columns, rows=rows, title=headline(name, outcome))


def plan_rows(comparison: Comparison) -> Table:
    """Returns all plans in one table for CSV: one row for each strategy, member and topic."""
    columns = ("STRATEGY", "MEMBER-ID", "TOPIC", "PARTITIONS", "COUNT")
    rows: list[list[Value]] = [
        [name, member_id, topic, _partitions((topic, number) for number in numbers).partition(" ")[2], len(numbers)]
        for name, outcome in comparison.outcomes.items()
        for member_id, held in outcome.plan.items()
        for topic, numbers in held.items()
    ]
    return Table(columns=[Column(name) for name in columns], rows=rows)


def _change_cells(comparison: Comparison, name: str, outcome: Outcome) -> list[Value]:
    if not any(outcome.before.values()):
        return [None, len(outcome.started), None, outcome.rebalances]
    if name == comparison.present and not comparison.scenario.is_changed:
        return [len(outcome.moved), len(outcome.started), None, None]  # nothing makes the group rebalance
    return [len(outcome.moved), len(outcome.started), len(outcome.paused), outcome.rebalances]


def _partition_cells(balance: Balance) -> list[Value]:
    return [f"{balance.least:g}", f"{balance.most:g}", f"{balance.deviation:.2f}"]


def _lag_cells(balance: Balance) -> list[Value]:
    return [_lag_text(each) for each in (balance.least, balance.most, balance.deviation)]


def _rate_cells(balance: Balance) -> list[Value]:
    return [rate_text(each) for each in (balance.least, balance.most, balance.deviation)]


def _lag_text(records: float) -> str:
    return f"{records:,.0f}"


def _bar(count: int, most: int) -> str:
    return "█" * round(BAR_WIDTH * count / most) if most else ""


def _partitions(partitions: Iterable[Partition]) -> str:
    return format_partitions(TopicPartition(*partition) for partition in partitions)
