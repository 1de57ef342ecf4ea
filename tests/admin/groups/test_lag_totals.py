"""Lag totals by group, topic and partition."""

from kcoord.admin.groups.lag_totals import GroupBy, LagRow, lag_rows, total
from tests.support.admin.snapshots import NOW, group, seen, snapshot

SHOP = seen(
    group(name="shop"), {"orders-0": (1, 0, 10), "orders-1": (None, 0, 5), "paid-0": (4, 0, 4)}, next_record_at=NOW - 9
)
IDLE = seen(group(name="idle"))
BLIND = seen(group(name="blind"), {"orders-0": None})


def line(group_name: str, topic: str | None = None, partition: int | None = None, **figures: object) -> LagRow:
    fields = {"partitions": 1, "unknown": 0, "lag": None, "seconds": None, **figures}
    return LagRow(group=group_name, topic=topic, partition=partition, **fields)  # type: ignore[arg-type]


def test_each_group_is_one_line_also_one_without_partitions() -> None:
    assert lag_rows(snapshot(SHOP, IDLE, BLIND), GroupBy.GROUP) == [
        line("shop", partitions=3, unknown=1, lag=9, seconds=9.0),
        line("idle", partitions=0),
        line("blind", unknown=1),
    ]


def test_each_topic_of_each_group_is_one_line() -> None:
    assert lag_rows(snapshot(SHOP, IDLE), GroupBy.TOPIC) == [
        line("shop", "orders", partitions=2, unknown=1, lag=9, seconds=9.0),
        line("shop", "paid", lag=0, seconds=0.0),
    ]


def test_each_partition_of_each_group_is_one_line() -> None:
    assert lag_rows(snapshot(SHOP), GroupBy.PARTITION) == [
        line("shop", "orders", 0, lag=9, seconds=9.0),
        line("shop", "orders", 1, unknown=1),
        line("shop", "paid", 0, lag=0, seconds=0.0),
    ]


def test_the_total_is_the_same_at_every_grain() -> None:
    totals = [total(lag_rows(snapshot(SHOP, IDLE, BLIND), grain)) for grain in GroupBy]
    assert totals == [line("", partitions=4, unknown=2, lag=9, seconds=9.0)] * 3


def test_an_offset_beyond_the_end_of_its_log_does_not_hide_the_lag_of_others() -> None:
    astray = snapshot(seen(group(name="astray"), {"orders-0": (1, 0, 10), "orders-1": (99, 0, 10)}))
    (whole,) = lag_rows(astray, GroupBy.GROUP)
    assert whole.lag == astray.groups["astray"].total_lag == 9
    parts = lag_rows(astray, GroupBy.PARTITION)
    assert [part.lag for part in parts] == [9, -89], "as Kafka's tool prints it"
    assert total(parts).lag == 9


def test_the_total_of_nothing_is_not_known() -> None:
    assert total([]) == line("", partitions=0)
