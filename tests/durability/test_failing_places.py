"""Where a disk fails: in one partition, between two members of a group, at the start."""

import errno
from pathlib import Path
from typing import Final

import pytest

from kcoord.broker.describe_cluster import offsets_partition
from kcoord.errors import ErrorCode
from kcoord.testing.errors import TimedOutError
from tests.durability.support.by_hand import ManualClient
from tests.durability.support.faulty import Plan
from tests.durability.support.rounds import Life
from tests.durability.support.seeds import SEED, format_failure
from tests.durability.support.serving import Kind, Served

_ALL_CALLS: Final = ("write", "open", "make_folder", "rename", "sync", "delete")


def test_groups_of_other_partitions_are_served_while_one_cannot_be_written(tmp_path: Path) -> None:
    sick = offsets_partition("sick", 50)
    assert sick != offsets_partition("healthy", 50)
    plan = Plan(how="tear", first=1, count=1 << 40, only=f"__consumer_offsets-{sick}/0")
    with Served(tmp_path / "data", Kind(plan=plan)) as served, ManualClient(served) as manual:
        for number in range(20):
            assert manual.commit("sick", number) is not ErrorCode.none
            assert manual.commit("healthy", number) is ErrorCode.none
    with Served(tmp_path / "data", Kind()) as served, ManualClient(served) as manual:
        assert manual.committed("healthy") == [19]
        assert manual.committed("sick") == []
        assert manual.commit("sick", 1) is ErrorCode.none


def test_groups_that_could_not_be_written_and_then_not_be_read_are_served_once_the_disk_is_well(tmp_path: Path) -> None:
    """The second write fails, so the groups are loaded again; the first load fails too."""
    sick = f"__consumer_offsets-{offsets_partition('sick', 50)}/0"
    plan = Plan(how="refuse", calls=("write", "read"), first=2, count=2, only=sick, error=errno.EIO)
    with Served(tmp_path / "data", Kind(plan=plan)) as served, ManualClient(served) as manual:
        assert manual.commit("healthy", 1) is ErrorCode.none
        assert manual.commit("sick", 1) is ErrorCode.none
        assert manual.commit("sick", 2) is not ErrorCode.none
        assert manual.committed("sick") == [1]
        assert manual.commit("sick", 3) is ErrorCode.none
        assert manual.committed("healthy") == [1]
        assert served.log().count("its groups cannot be read now") == 1
    with Served(tmp_path / "data", Kind()) as served, ManualClient(served) as manual:
        assert manual.committed("sick") == [3]


def test_no_member_hears_of_an_assignment_that_could_not_be_written(tmp_path: Path) -> None:
    """Holds also if the first member's response is so large that it is sent at once."""
    with Served(tmp_path / "data", Kind()) as served, ManualClient(served) as manual:
        leader, *followers = members = manual.joined(3)
        for follower in followers:
            follower.send_sync({})
        assert manual.state() == "CompletingRebalance"
        served.let_files_grow_to(0)
        leader.send_sync({followers[0].member_id: b"x" * 20_000, followers[1].member_id: b"y", leader.member_id: b"z"})
        assert [member.assignment() for member in members] == [None, None, None]


def test_what_is_left_of_a_torn_write_is_not_taken_for_records_though_the_segment_is_closed(tmp_path: Path) -> None:
    plan = Plan(how="scar", first=2, only="produced-0/00000000000000000000.log")
    kind = Kind(plan=plan, settings={"log.segment.bytes": "20000"})
    with Served(tmp_path / "data", kind) as served, ManualClient(served) as manual:
        assert manual.produce(b"a" * 15_000) is ErrorCode.none
        assert manual.produce(b"b" * 2000) is ErrorCode.kafka_storage_error
        assert manual.produce(b"c" * 10_000) is ErrorCode.none
    with Served(tmp_path / "data", Kind()) as served, ManualClient(served) as manual:
        assert manual.produced() == [b"a" * 15_000, b"c" * 10_000]


def test_a_topic_that_could_not_be_made_can_be_made_later(tmp_path: Path) -> None:
    with Served(tmp_path / "data", _not_made()) as served, ManualClient(served) as manual:
        assert manual.create("made") is not ErrorCode.none
        assert manual.create("made") is ErrorCode.none


def test_a_topic_that_could_not_be_made_is_not_there_later(tmp_path: Path) -> None:
    with Served(tmp_path / "data", _not_made()) as served, ManualClient(served) as manual:
        assert manual.create("made") is not ErrorCode.none
        assert "made" not in manual.topics()
    with Served(tmp_path / "data", Kind()) as served, ManualClient(served) as manual:
        assert "made" not in manual.topics()


def test_a_topic_of_which_one_partition_could_be_made_and_not_be_taken_away_is_not_there_later(tmp_path: Path) -> None:
    """The second folder cannot be created. Then the first, which has the topic's id, cannot be renamed away."""
    plan = Plan(how="refuse", calls=("make_folder", "rename"), first=2, count=2, only="made-", error=errno.EIO)
    with Served(tmp_path / "data", Kind(plan=plan)) as served, ManualClient(served) as manual:
        assert manual.create("made", partitions=2) is not ErrorCode.none
        assert "not deleted folder=" in served.log()
        assert "made" not in manual.topics()
    with Served(tmp_path / "data", Kind()) as served, ManualClient(served) as manual:
        assert "made" not in manual.topics()
        assert manual.create("made", partitions=2) is ErrorCode.none


def _not_made() -> Kind:
    """The folder exists, but its id cannot be written, and it cannot be renamed away."""
    return Kind(plan=Plan(how="refuse", calls=("write", "rename"), first=1, count=2, only="made-0"))


@pytest.mark.parametrize("how", ["refuse", "tear", "die"])
def test_a_start_that_fails_leaves_the_folder_as_good_as_it_was(tmp_path: Path, how: str) -> None:
    life = Life(tmp_path / "data", SEED, Kind(settings={"log.segment.bytes": "20000"}))
    assert life.run(1) == []
    messages = []
    for first in range(1, 7):
        life.kind = Kind(plan=Plan(how=how, calls=_ALL_CALLS, first=first))
        try:
            with life.serve():
                pass
        except TimedOutError as failed:
            messages.append(str(failed))
    assert messages
    assert not any("Traceback" in each for each in messages)
    life.kind = Kind()
    with life.serve() as served:
        wrong = life.audit(served)
    assert not wrong, format_failure(wrong, "tests/durability/test_failing_places.py")
