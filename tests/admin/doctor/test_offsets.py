"""Findings about committed offsets."""

import pytest

from kcoord.admin.doctor.finding import Code, Severity
from kcoord.admin.model import GroupType
from tests.admin.doctor.examined import findings
from tests.support.admin.snapshots import NOW, group, member, seen, snapshot, topic

OWNED = group(member("a", "t-0"))
WEEK = 604_800_000
DELETES = {"cleanup.policy": "delete", "retention.ms": str(WEEK), "retention.bytes": "-1"}


def test_an_offset_before_the_log_starts_is_an_error_with_what_was_lost() -> None:
    found = findings(snapshot(seen(OWNED, {"t-0": (100, 250, 900)})))[Code.OFFSET_BEFORE_LOG_START]
    assert found.severity is Severity.ERROR
    assert found.title == "deleted before the group read them: up to 150 records"
    assert found.evidence == ("t-0: committed 100, but the log starts at 250: 150 lost",)


def test_an_offset_beyond_the_end_is_an_error() -> None:
    found = findings(snapshot(seen(OWNED, {"t-0": (1000, 0, 12)})))[Code.OFFSET_BEYOND_LOG_END]
    assert found.severity is Severity.ERROR
    assert found.evidence == ("t-0: committed 1,000, but the log ends at 12",)


@pytest.mark.parametrize("committed", [0, 5, 12])
def test_an_offset_within_the_log_is_well(committed: int) -> None:
    assert not findings(snapshot(seen(OWNED, {"t-0": (committed, 0, 12)})))


def test_a_group_of_shares_has_no_offsets_out_of_range() -> None:
    assert not findings(snapshot(seen(group(member("a", "t-0"), kind=GroupType.SHARE), {"t-0": (100, 250, 900)})))


def test_a_record_whose_time_is_nearly_over_is_told_before_it_is_deleted() -> None:
    sight = seen(OWNED, {"t-0": (10, 5, 900)}, next_record_at=NOW - WEEK / 1000 * 0.95)
    found = findings(snapshot(sight), topic_configs={"t": DELETES})[Code.OFFSET_NEAR_RETENTION]
    assert found.severity is Severity.WARNING
    assert found.evidence == (
        "t-0: the next record is 6d 15h old, of 7d that retention.ms gives: 8h 24m are left; lag 890",
    )


def test_a_record_that_is_older_than_it_may_be_has_no_time_left() -> None:
    sight = seen(OWNED, {"t-0": (10, 5, 900)}, next_record_at=NOW - WEEK / 1000 - 3600)
    found = findings(snapshot(sight), topic_configs={"t": DELETES})[Code.OFFSET_NEAR_RETENTION]
    assert "7d 1h old, of 7d that retention.ms gives: its time is over" in found.evidence[0]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"cleanup.policy": "compact", "retention.ms": str(WEEK)},
        {"cleanup.policy": "delete", "retention.ms": "-1"},
        {"cleanup.policy": "delete"},
    ],
)
def test_what_is_kept_for_ever_or_not_known_is_not_near_its_end(config: dict[str, str]) -> None:
    sight = seen(OWNED, {"t-0": (10, 5, 900)}, next_record_at=NOW - WEEK / 1000 * 0.95)
    assert not findings(snapshot(sight), topic_configs={"t": config})


def test_a_young_record_or_none_at_all_is_well() -> None:
    young = seen(OWNED, {"t-0": (10, 5, 900)}, next_record_at=NOW - 3600)
    assert not findings(snapshot(young), topic_configs={"t": DELETES})
    assert not findings(snapshot(seen(OWNED, {"t-0": (900, 5, 900)})), topic_configs={"t": DELETES})


def test_a_log_that_is_cut_by_size_is_told_by_how_many_records_are_left_before_the_next() -> None:
    config = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000000"}
    snapshots = [
        snapshot(seen(OWNED, {"t-0": (5050, start, start + 5000)}), after=after)
        for start, after in ((4000, 0), (5000, 20))
    ]
    found = findings(*snapshots, topic_configs={"t": config})[Code.OFFSET_NEAR_RETENTION]
    assert found.evidence == (
        "t-0: 50 records before the next one will be deleted, of 5,000 that retention.bytes keeps;"
        " at the pace of now it is reached in 1s; lag 4,950",
    )


def test_in_one_look_it_is_not_known_how_fast_the_start_comes_nearer() -> None:
    config = {"cleanup.policy": "delete", "retention.bytes": "1000000"}
    found = findings(snapshot(seen(OWNED, {"t-0": (5000, 5000, 6000)})), topic_configs={"t": config})
    assert found[Code.OFFSET_NEAR_RETENTION].evidence == (
        "t-0: 0 records before the next one will be deleted, of 1,000 that retention.bytes keeps; lag 1,000",
    )


@pytest.mark.parametrize("committed", [5100, 5150, 6000])
def test_an_offset_in_the_middle_of_what_is_kept_is_well(committed: int) -> None:
    config = {"cleanup.policy": "delete", "retention.bytes": "1000000"}
    assert not findings(snapshot(seen(OWNED, {"t-0": (committed, 5000, 6000)})), topic_configs={"t": config})


def test_a_record_without_a_time_is_left_in_peace() -> None:
    sight = seen(OWNED, {"t-0": (10, 5, 900)}, next_record_at=-0.001)
    assert not findings(snapshot(sight), topic_configs={"t": DELETES})


def test_a_log_that_never_lost_a_record_is_not_near_its_size() -> None:
    config = {"cleanup.policy": "delete", "retention.bytes": "1000000"}
    assert not findings(snapshot(seen(OWNED, {"t-0": (5, 0, 5000)})), topic_configs={"t": config})


def test_offsets_of_a_topic_that_does_not_exist_are_told() -> None:
    found = findings(
        snapshot(seen(group(state="Empty"), {"gone-0": None, "gone-1": None})), missing_topics=frozenset({"gone"})
    )[Code.OFFSET_OF_MISSING_PARTITION]
    assert found.evidence == ("committed: gone 0-1", "there is no topic gone")


def test_offsets_of_partitions_that_a_topic_has_no_more_are_told() -> None:
    sight = seen(group(state="Empty"), {"t-0": (5, 0, 5), "t-3": None})
    found = findings(snapshot(sight), topics=[topic("t", 2)])[Code.OFFSET_OF_MISSING_PARTITION]
    assert found.evidence == ("committed: t 3",)


def test_an_offset_whose_log_is_not_told_is_left_in_peace() -> None:
    assert not findings(snapshot(seen(OWNED, {"t-0": None})))
