"""Findings about lag and commits."""

from dataclasses import replace

import pytest

from kcoord.admin.doctor.finding import Code, Severity
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.model import Committed, Group, GroupType
from tests.admin.doctor.examined import findings
from tests.support.admin.snapshots import group, member, seen, seen_partition, snapshot, tp

WORKING = group(member("a", "t-0"), member("b", "t-1"))
EMPTY = group(state="Empty")


def _snapshots(of: Group, *moments: tuple[float, int | None, int], other: int = 9) -> list[Snapshot]:
    """Returns a snapshot for each moment: seconds, then the committed offset and the end of t-0. t-1 is committed to
    its end."""
    return [
        snapshot(seen(of, {"t-0": (committed, 0, end), "t-1": (other, 0, other)}), after=after)
        for after, committed, end in moments
    ]


def test_lag_that_grows_while_members_work_is_told_with_its_rate() -> None:
    growing = findings(*_snapshots(WORKING, (0, 100, 200), (30, 400, 700), (60, 700, 1400)))[Code.LAG_GROWING]
    assert growing.severity is Severity.WARNING
    assert growing.title == "the group falls behind by 10/s"
    assert growing.evidence == (
        "lag 100 → 700 in 1m, 2 partitions together",
        "written 20/s, consumed 10/s",
        "t-0: +600",
    )
    assert growing.facts["growth_per_second"] == 10.0


def test_what_one_commit_interval_explains_is_not_growth() -> None:
    """Between two commits lag grows by all that is written: five seconds of growth in ten prove nothing."""
    assert Code.LAG_GROWING not in findings(*_snapshots(WORKING, (0, 100, 100), (10, 150, 200)))
    assert Code.LAG_GROWING in findings(*_snapshots(WORKING, (0, 100, 100), (10, 149, 200)))


def test_lag_that_shrinks_or_stays_is_well() -> None:
    assert not findings(*_snapshots(WORKING, (0, 0, 1000), (60, 500, 1200)))
    assert not findings(*_snapshots(WORKING, (0, 500, 1000), (60, 800, 1300)))


@pytest.mark.parametrize("seconds", [0, 5])
def test_a_short_look_says_nothing_of_growth(seconds: float) -> None:
    assert not findings(*_snapshots(WORKING, (0, 100, 200), (seconds, 101, 900)))


def test_a_partition_without_commits_that_is_written_to_stands_still() -> None:
    found = findings(*_snapshots(WORKING, (0, 100, 120), (10, 100, 130), (20, 100, 150)))
    still = found[Code.COMMITS_STALLED]
    assert still.severity is Severity.WARNING
    assert still.evidence == (
        "t-0: committed 100 all the time, 30 records written meanwhile, lag 50; a 10.0.0.1 (a-id)",
    )
    assert Code.LAG_GROWING not in found  # the same growth is not reported twice


def test_standing_still_for_a_minute_is_an_error() -> None:
    found = findings(*_snapshots(WORKING, (0, 100, 120), (60, 100, 150)))
    assert found[Code.COMMITS_STALLED].severity is Severity.ERROR


def test_what_was_written_only_just_now_may_still_be_committed() -> None:
    assert Code.COMMITS_STALLED not in findings(*_snapshots(WORKING, (0, 100, 100), (20, 100, 101)))


def test_a_marker_of_a_transaction_that_nobody_commits_past_is_no_standstill() -> None:
    assert not findings(*_snapshots(WORKING, (0, 100, 101), (60, 100, 101)))


def test_a_new_owner_has_not_stood_still() -> None:
    other = group(member("x", "t-0"), member("b", "t-1"))
    snapshots = [*_snapshots(WORKING, (0, 100, 120)), *_snapshots(other, (60, 100, 150))]
    assert Code.COMMITS_STALLED not in findings(*snapshots)


def test_an_owned_partition_with_records_and_no_commit_is_told() -> None:
    found = findings(*_snapshots(WORKING, (0, None, 50), (30, None, 50)))[Code.NOTHING_COMMITTED]
    assert found.severity is Severity.WARNING
    assert found.evidence == ("not committed: t 0", "owned by a 10.0.0.1 (a-id)", "seen so for 30s")


def test_in_one_look_a_missing_commit_is_a_notice() -> None:
    assert findings(*_snapshots(WORKING, (0, None, 50)))[Code.NOTHING_COMMITTED].severity is Severity.NOTICE


def test_an_empty_partition_or_one_committed_at_last_is_well() -> None:
    assert not findings(*_snapshots(WORKING, (0, None, 0)))
    assert Code.NOTHING_COMMITTED not in findings(*_snapshots(WORKING, (0, None, 50), (30, 50, 50)))


def test_an_empty_group_with_lag_is_a_notice_and_a_warning_when_it_grows() -> None:
    assert findings(*_snapshots(EMPTY, (0, 100, 150)))[Code.NO_MEMBERS].severity is Severity.NOTICE
    growing = findings(*_snapshots(EMPTY, (0, 100, 150), (10, 100, 250)))[Code.NO_MEMBERS]
    assert growing.severity is Severity.WARNING
    assert growing.title == "nobody consumes: 150 records waiting, more each second"
    assert growing.evidence[:2] == ("lag 50 → 150 in 10s, 2 partitions together", "written 10/s, consumed 0/s")


def test_an_empty_group_without_lag_is_well() -> None:
    assert not findings(*_snapshots(EMPTY, (0, 150, 150)))


def test_consumers_that_take_partitions_by_themselves_commit_to_a_group_without_members() -> None:
    assert not findings(*_snapshots(EMPTY, (0, 100, 150), (10, 120, 250)))


def test_offsets_of_a_topic_that_is_not_read_any_more_are_a_notice() -> None:
    old = {"t-0": (9, 0, 9), "old-0": (5, 0, 25), "old-1": (5, 0, 5)}
    abandoned = findings(snapshot(seen(group(member("a", "t-0")), old)))[Code.ABANDONED_TOPIC]
    assert abandoned.severity is Severity.NOTICE
    assert abandoned.evidence == ("committed, not subscribed: old 0-1", "lag there: 20")


def test_lag_of_a_topic_that_is_not_read_any_more_is_no_growth() -> None:
    snapshots = [
        snapshot(seen(group(member("a", "t-0")), {"t-0": (9, 0, 9), "old-0": (5, 0, end)}), after=after)
        for after, end in ((0, 25), (60, 2500))
    ]
    assert Code.LAG_GROWING not in findings(*snapshots)


def test_a_share_group_falls_behind_too() -> None:
    sharing = group(member("a", "t-0"), kind=GroupType.SHARE)
    snapshots = [snapshot(seen(sharing, {"t-0": (10, 0, end)}), after=after) for after, end in ((0, 20), (60, 2000))]
    assert findings(*snapshots).keys() == {Code.LAG_GROWING}


def test_a_lag_that_is_told_needs_no_log() -> None:
    def snapshot_at(lag: int, after: float) -> Snapshot:
        sharing = seen(group(member("a", "t-0"), kind=GroupType.SHARE), {"t-0": None})
        partition = seen_partition(tp("t-0"), Committed(10, reported_lag=lag), None, sharing.group.members[0])
        return snapshot(replace(sharing, partitions=(partition,)), after=after)

    growing = findings(snapshot_at(5, 0), snapshot_at(65, 60))[Code.LAG_GROWING]
    assert growing.evidence[0] == "lag 5 → 65 in 1m, 1 partition together"


def test_an_offset_beyond_the_end_that_comes_nearer_to_it_is_no_growth() -> None:
    assert Code.LAG_GROWING not in findings(*_snapshots(WORKING, (0, 900, 100), (60, 901, 800)))


def test_a_slow_owner_that_reads_one_partition_after_another_is_not_said_not_to_commit() -> None:
    """A consumer works off what it has fetched of one partition before it commits the next; the figures are the
    group's."""
    names = [f"t-{number}" for number in range(6)]
    slow = group(member("a", *names))
    snapshots = [
        snapshot(
            seen(slow, {name: (2 * after if name == "t-0" else 0, 0, 1000 + 5 * after) for name in names}), after=after
        )
        for after in (0, 30, 60)
    ]
    found = findings(*snapshots)
    assert Code.COMMITS_STALLED not in found
    growing = found[Code.LAG_GROWING]
    assert growing.title == "the group falls behind by 28/s"
    assert growing.evidence[:2] == (
        "lag 6,000 → 7,680 in 1m, 6 partitions together",
        "written 30/s, consumed 2.0/s",
    )
    assert "no commit meanwhile, their owner reads others first: t 1-5" in growing.evidence


def test_a_partition_that_stands_still_while_its_owner_keeps_up_elsewhere_is_told_so() -> None:
    both = group(member("a", "t-0", "t-1"))
    snapshots = [
        snapshot(seen(both, {"t-0": (100, 0, 120 + after), "t-1": (50 + after, 0, 50 + after)}), after=after)
        for after in (0, 60)
    ]
    still = findings(*snapshots)[Code.COMMITS_STALLED]
    assert still.severity is Severity.ERROR
    assert still.advice.startswith("The owner commits its other partitions")
    assert "does not commit" not in still.advice


def test_the_rate_of_growth_is_of_the_whole_group_also_where_one_owner_stands_still() -> None:
    """Member a is stuck on t-0, which grows by 600; b falls behind by 60 on t-1."""
    snapshots = [
        snapshot(seen(WORKING, {"t-0": (0, 0, 100 + 10 * after), "t-1": (after, 0, 500 + 2 * after)}), after=after)
        for after in (0, 60)
    ]
    found = findings(*snapshots)
    assert [fact["topic"] for fact in found[Code.COMMITS_STALLED].facts["partitions"]] == ["t"]
    assert found[Code.LAG_GROWING].title == "the group falls behind by 11/s"


def test_a_partition_whose_lag_is_not_known_is_named_beside_the_figures() -> None:
    snapshots = [
        snapshot(seen(WORKING, {"t-0": (after, 0, 100 + 10 * after), "t-1": (None, 0, 50)}), after=after)
        for after in (0, 60)
    ]
    growing = findings(*snapshots)[Code.LAG_GROWING]
    assert growing.title == "a part of the group (1 of 2 partitions) falls behind by 9.0/s"
    assert growing.evidence[-1] == "not counted, their lag is not known: t 1"


def test_a_slow_owner_that_has_not_come_to_its_other_partitions_yet_is_not_said_to_commit_nothing() -> None:
    """A new group that reads from the beginning commits what it reads, at first of one partition only."""
    names = [f"t-{number}" for number in range(6)]
    slow = group(member("a", *names))
    snapshots = [
        snapshot(
            seen(slow, {name: (2 * after if name == "t-0" else None, 0, 1000 + 5 * after) for name in names}),
            after=after,
        )
        for after in (0, 30, 60)
    ]
    found = findings(*snapshots)
    assert Code.NOTHING_COMMITTED not in found
    growing = found[Code.LAG_GROWING]
    assert growing.title == "a part of the group (1 of 6 partitions) falls behind by 3.0/s"
    assert growing.evidence[-1] == "not counted, their owner reads others first and has never committed them: t 1-5"


def test_an_owner_that_keeps_up_elsewhere_is_said_to_commit_nothing() -> None:
    both = group(member("a", "t-0", "t-1"))
    snapshots = [
        snapshot(seen(both, {"t-0": (after, 0, after), "t-1": (None, 0, 50 + after)}), after=after) for after in (0, 60)
    ]
    assert findings(*snapshots)[Code.NOTHING_COMMITTED].severity is Severity.WARNING


def test_deleted_records_do_not_wait_and_are_not_consumed() -> None:
    """Retention has passed the committed offset: of 1,000 records up to the end 100 remain."""
    found = findings(snapshot(seen(EMPTY, {"t-0": (0, 900, 1000)})))
    assert found[Code.NO_MEMBERS].title == "nobody consumes: 100 records waiting"
    assert found[Code.NO_MEMBERS].facts["lag"] == 100
    deleted = [
        snapshot(seen(EMPTY, {"t-0": (0, start, end)}), after=after)
        for after, start, end in ((0, 0, 100), (60, 100, 700))
    ]
    growing = findings(*deleted)[Code.NO_MEMBERS]
    assert growing.evidence[:2] == ("lag 100 → 600 in 1m, 1 partition together", "written 10/s, consumed 0/s")
    all_deleted = snapshot(seen(EMPTY, {"t-0": (0, 1000, 1000)}))
    assert Code.NO_MEMBERS not in findings(all_deleted)
