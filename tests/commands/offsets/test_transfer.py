"""Tests of offsets transferred to another log by `copy` or by `export` and `import`: refused unless the records are
equal."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcoord.testing.embedded import EmbeddedCluster
from tests.commands.offsets.expectations import undo_file
from tests.support.admin.mirrored_scene import MINUTE, START, MirroredScene
from tests.support.admin.offsets_scene import OffsetsScene, Run, kcoord

Transfer = Callable[..., Run]


@pytest.fixture(scope="module")
def both(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[tuple[OffsetsScene, OffsetsScene]]:
    with kcoord_cluster_factory() as source, kcoord_cluster_factory() as target:
        yield OffsetsScene(source.bootstrap), OffsetsScene(target.bootstrap)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The name of the test's topic and group."""
    return re.sub(r"\W+", "-", request.node.name)[-100:]


@pytest.fixture
def mirrored(both: tuple[OffsetsScene, OffsetsScene], name: str) -> MirroredScene:
    return MirroredScene(*both, name)


@pytest.fixture(params=["copy", "carry"])
def transfer(request: pytest.FixtureRequest, mirrored: MirroredScene) -> Transfer:
    """The two ways to transfer offsets, `copy`, or `export` and `import`, which behave equally."""
    found: Transfer = getattr(mirrored, request.param)
    return found


def plan_of(run: Run) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run.stdout)
    return document


def only_refused(run: Run) -> dict[str, Any]:
    """Returns the only refused partition of the only refused group."""
    document = plan_of(run)
    assert document["groups"] == []
    ((partition,),) = [group["partitions"] for group in document["refused_groups"]]
    found: dict[str, Any] = partition
    return found


# Targets that lack the first records


def test_a_shifted_target_is_refused_and_both_times_are_shown(mirrored: MirroredScene, transfer: Transfer) -> None:
    """The target lacks the first 100 records: its log ends at the offset, and the 100 before it are unread."""
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(300))
    mirrored.write(mirrored.target, range(100, 300))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 200})

    for options in ((), ("--execute",)):
        run = transfer(group, *options, "-o", "json")
        assert run.exit_code == 1
        refused = only_refused(run)
        assert refused["risks"] == ["different-records"]
        assert refused["comparison"]["source_record"]["timestamp"] == START + 200 * MINUTE
        assert refused["comparison"]["target_record"]["timestamp"] == START + 299 * MINUTE
        assert f"{mirrored.topic} 0: the target has no record from 200 on and the source has 100 to read" in run.stderr
        assert "records would be skipped. If that is meant, say --accept-different-records\n" in run.stderr
        assert run.stderr.endswith("Nothing was changed.\n")
        assert mirrored.target.offsets(group) == {}


def test_a_target_shifted_by_some_records_is_refused_wherever_the_offset_lies(
    mirrored: MirroredScene, transfer: Transfer
) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(100))
    mirrored.write(mirrored.target, range(3, 100))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 50})

    run = transfer(group, "--execute")

    assert run.exit_code == 1
    assert "the next record is of 2023-11-14T23:03:20.000Z on the source" in run.stderr
    assert "of 2023-11-14T23:06:20.000Z on the target: records would be skipped" in run.stderr
    assert "refused: different-records" in run.stdout
    assert mirrored.target.offsets(group) == {}


def test_the_risk_is_taken_by_its_name_and_by_no_other(mirrored: MirroredScene, transfer: Transfer) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(20))
    mirrored.write(mirrored.target, range(5, 20))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 10})
    others = ("--accept-clamped-offsets", "--accept-source-members", "--accept-uncompared-records")

    assert transfer(group, *others, "--execute").exit_code == 1
    assert mirrored.target.offsets(group) == {}
    done = transfer(group, "--accept-different-records", "--execute")

    assert done.exit_code == 0, done.stderr
    assert "different-records" in done.stdout, "it is flagged all the same"
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 10}


# Targets that are the same


@pytest.mark.parametrize("offset", [0, 30, 99, 100])
def test_a_good_mirror_needs_no_flag(mirrored: MirroredScene, transfer: Transfer, offset: int) -> None:
    """At the end of the log, the last records before it are compared. Headers that the mirror adds do not count."""
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(100))
    mirrored.write(mirrored.target, range(100), mirrored=True)
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): offset})

    plan = transfer(group, "-o", "json")
    done = transfer(group, "--execute")

    assert (plan.exit_code, done.exit_code) == (0, 0), done.stderr
    (of_group,) = plan_of(plan)["groups"]
    compared = of_group["partitions"][0]["comparison"]
    at = START + min(offset, 99) * MINUTE
    assert compared["verdict"] == "same"
    assert (compared["source_record"]["timestamp"], compared["target_record"]["timestamp"]) == (at, at)
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): offset}


def test_both_times_stand_in_the_table_and_in_csv(mirrored: MirroredScene, transfer: Transfer) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(10))
    mirrored.write(mirrored.target, range(10))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 3})

    header, row = transfer(group).stdout.splitlines()
    assert re.search(r" SOURCE-TIME +TARGET-TIME +", header)
    assert row.count("2023-11-14 22:16:20.000Z") == 2
    (as_csv,) = csv.DictReader(io.StringIO(transfer(group, "-o", "csv").stdout))
    assert as_csv["source_time"] == as_csv["target_time"] == "2023-11-14T22:16:20.000Z"


def test_a_group_at_the_end_goes_where_the_target_has_more_since(mirrored: MirroredScene, transfer: Transfer) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(40))
    mirrored.write(mirrored.target, range(60))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 40})

    assert transfer(group, "--execute").exit_code == 0
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 40}


def test_a_group_at_the_end_is_refused_where_the_record_before_is_another(
    mirrored: MirroredScene, transfer: Transfer
) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(40))
    mirrored.write(mirrored.target, range(10, 60))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 40})

    run = transfer(group, "--execute")

    assert run.exit_code == 1
    assert "the last record before it is of 2023-11-14T22:52:20.000Z on the source" in run.stderr
    assert mirrored.target.offsets(group) == {}


def test_a_mirror_that_is_not_through_yet_is_told_from_one_that_is_shifted(
    mirrored: MirroredScene, transfer: Transfer
) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(40))
    mirrored.write(mirrored.target, range(20))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 20})

    run = transfer(group)

    assert run.exit_code == 1
    assert "the target does not have it yet. If that is meant, say --accept-different-records" in run.stderr


def test_empty_partitions_have_nothing_to_compare_and_nothing_to_skip(
    mirrored: MirroredScene, transfer: Transfer
) -> None:
    mirrored.make_topics()
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 0})

    assert transfer(group, "--execute").exit_code == 0
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 0}


def test_a_source_whose_records_are_all_gone_cannot_be_compared(mirrored: MirroredScene, transfer: Transfer) -> None:
    """If both logs end there, nothing can be skipped, so that case is accepted."""
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(30))
    mirrored.write(mirrored.target, range(30))
    mirrored.source.delete_records(mirrored.topic, 0, 30)
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 30})

    assert transfer(group).exit_code == 0
    mirrored.write(mirrored.target, range(30, 40))
    run = transfer(group, "-o", "json")
    assert (run.exit_code, only_refused(run)["risks"]) == (1, ["uncompared-records"])
    assert transfer(group, "--accept-uncompared-records", "--execute").exit_code == 0


def test_where_the_target_stamps_records_itself_their_contents_decide(
    mirrored: MirroredScene, transfer: Transfer
) -> None:
    mirrored.make_topics(partitions=2, target_settings={"message.timestamp.type": "LogAppendTime"})
    for partition, first in ((0, 0), (1, 5)):
        mirrored.write(mirrored.source, range(30), partition=partition)
        mirrored.write(mirrored.target, range(first, 30), partition=partition)
    same, other = f"{mirrored.topic}-same", f"{mirrored.topic}-other"
    mirrored.source.commit(same, {(mirrored.topic, 0): 12})
    mirrored.source.commit(other, {(mirrored.topic, 1): 12})

    done = transfer(same, "--execute")
    refused = transfer(other, "--execute")

    assert (done.exit_code, refused.exit_code) == (0, 1), done.stderr
    assert "partly-compared" in done.stdout
    assert "the next record has another key or value on the target" in refused.stderr


# Members and clamped offsets


def test_a_source_group_with_members_is_refused(mirrored: MirroredScene, transfer: Transfer) -> None:
    mirrored.make_topics()
    for scene in (mirrored.source, mirrored.target):
        mirrored.write(scene, range(10))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 4})

    with mirrored.source.member(group, mirrored.topic):
        run = transfer(group, "--execute")
        assert run.exit_code == 1
        assert "it has members where its offsets come from, which go on from there: stop them first" in run.stderr
        assert "say --accept-source-members\n" in run.stderr
        assert mirrored.target.offsets(group) == {}
        assert transfer(group, "--accept-source-members", "--execute").exit_code == 0
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 4}


def test_an_offset_that_the_target_does_not_have_is_refused(mirrored: MirroredScene, transfer: Transfer) -> None:
    """The group is at the end of both logs, but the target lacks the first records, so that its end differs."""
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(50))
    mirrored.write(mirrored.target, range(20, 50))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 50})

    run = transfer(group, "-o", "json")

    refused = only_refused(run)
    assert (run.exit_code, refused["risks"], refused["new"]["offset"]) == (1, ["clamped-offsets"], 30)
    assert refused["comparison"]["verdict"] == "same", "the last record is the same on both sides"
    assert "50 is after the end of the log, 30. If that is meant, say --accept-clamped-offsets" in run.stderr
    assert transfer(group, "--accept-clamped-offsets", "--execute").exit_code == 0
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 30}


# Several groups and partitions


def test_a_group_is_refused_as_a_whole_and_the_others_are_done(
    mirrored: MirroredScene, transfer: Transfer, folder: Path
) -> None:
    mirrored.make_topics(partitions=2)
    for partition, first in ((0, 0), (1, 5)):
        mirrored.write(mirrored.source, range(30), partition=partition)
        mirrored.write(mirrored.target, range(first, 30), partition=partition)
    good, bad = f"{mirrored.topic}-good", f"{mirrored.topic}-shifted"
    mirrored.source.commit(good, {(mirrored.topic, 0): 12})
    mirrored.source.commit(bad, {(mirrored.topic, 0): 12, (mirrored.topic, 1): 12})

    run = transfer(f"{mirrored.topic}-(good|shifted)", "--execute")

    assert run.exit_code == 1
    assert mirrored.target.offsets(good) == {(mirrored.topic, 0): 12}
    assert mirrored.target.offsets(bad) == {}
    rows = [re.split(r"\s{2,}", line) for line in run.stdout.splitlines()[1:]]
    assert [(row[0], row[2], row[6]) for row in rows] == [
        (good, "0", "done"),
        (bad, "0", "refused"),
        (bad, "1", "refused"),
    ]
    assert "not done, as other partitions of its group are refused" in run.stdout
    assert "1 of 3 partitions was changed." in run.stderr
    undone = mirrored.target.kcoord("undo", undo_file(folder), "--execute")
    assert undone.exit_code == 0
    assert mirrored.target.offsets(good) == {}


# Plans


def test_a_saved_plan_keeps_what_was_accepted_and_has_nothing_of_what_was_refused(
    mirrored: MirroredScene, transfer: Transfer, folder: Path
) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(20))
    mirrored.write(mirrored.target, range(5, 20))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 10})

    refused = transfer(group, "--plan", "move.json")
    assert refused.exit_code == 1
    assert refused.stderr.endswith("Nothing was changed, and no plan was saved.\n")
    assert not (folder / "move.json").exists()

    saved = transfer(group, "--plan", "move.json", "--accept-different-records")
    assert saved.exit_code == 0, saved.stderr
    assert json.loads((folder / "move.json").read_text())["accepted"] == ["different-records"]
    shown = mirrored.target.kcoord("apply", "move.json")
    assert (shown.exit_code, shown.stdout.count("2023-11-14 22:")) == (0, 2), "both times are shown again"
    assert mirrored.target.kcoord("apply", "move.json", "--execute").exit_code == 0
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 10}


# Files


def test_a_backup_goes_back_into_its_own_cluster_without_a_flag(mirrored: MirroredScene) -> None:
    """The log and the group may have changed: it is the same log, and the group had members at the export."""
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(20))
    source, group = mirrored.source, mirrored.topic
    source.commit(group, {(mirrored.topic, 0): 8})
    with source.member(group, mirrored.topic):
        assert source.kcoord("export", group, "-f", "backup.jsonl").exit_code == 0
    source.commit(group, {(mirrored.topic, 0): 15})
    source.delete_records(mirrored.topic, 0, 10)

    run = source.kcoord("import", "backup.jsonl", "--execute")

    assert run.exit_code == 0, run.stderr
    assert "clamped-to-start" in run.stdout
    assert source.offsets(group) == {(mirrored.topic, 0): 10}


def test_an_export_without_records_is_refused_in_another_cluster(mirrored: MirroredScene) -> None:
    mirrored.make_topics()
    for scene in (mirrored.source, mirrored.target):
        mirrored.write(scene, range(20))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 8})
    mirrored.source.kcoord("export", group, "--no-time", "-f", "bare.jsonl")

    run = mirrored.target.kcoord("import", "bare.jsonl", "--ignore-topic-ids", "--execute")

    assert run.exit_code == 1
    assert "the record there is not known where the offset comes from" in run.stderr
    assert "say --accept-uncompared-records\n" in run.stderr
    accepted = ("--ignore-topic-ids", "--accept-uncompared-records", "--execute")
    assert mirrored.target.kcoord("import", "bare.jsonl", *accepted).exit_code == 0


def test_an_older_export_is_compared_by_its_times(mirrored: MirroredScene, folder: Path) -> None:
    mirrored.make_topics(partitions=2)
    for partition, first in ((0, 0), (1, 5)):
        mirrored.write(mirrored.source, range(30), partition=partition)
        mirrored.write(mirrored.target, range(first, 30), partition=partition)
    same, other = f"{mirrored.topic}-same", f"{mirrored.topic}-other"
    mirrored.source.commit(same, {(mirrored.topic, 0): 12})
    mirrored.source.commit(other, {(mirrored.topic, 1): 12})
    exported = mirrored.source.kcoord("export", same, other).stdout.splitlines()
    newer = ("cluster_id", "group_state", "next_record", "last_record")
    older = [{key: value for key, value in json.loads(line).items() if key not in newer} for line in exported]
    (folder / "older.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in older))

    run = mirrored.target.kcoord("import", "older.jsonl", "--ignore-topic-ids", "--execute")

    assert run.exit_code == 1
    assert "partly-compared" in run.stdout
    assert mirrored.target.offsets(same) == {(mirrored.topic, 0): 12}
    assert mirrored.target.offsets(other) == {}


def test_csv_is_taken_with_a_warning_that_nothing_was_compared(mirrored: MirroredScene) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(20))
    mirrored.write(mirrored.target, range(10))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 8})
    mirrored.source.kcoord("export", group, "--format", "csv", "-f", "out.csv")

    run = mirrored.target.kcoord("import", "out.csv", "--group", group, "--execute")

    assert run.exit_code == 0, run.stderr
    assert run.stderr.startswith("kcoord: the records at these offsets were not compared")
    assert "records-not-compared" in run.stdout
    mirrored.source.commit(group, {(mirrored.topic, 0): 15})
    mirrored.source.kcoord("export", group, "--format", "csv", "-f", "out.csv", "--force")
    clamped = mirrored.target.kcoord("import", "out.csv", "--group", group, "--execute")
    assert clamped.exit_code == 1
    assert "say --accept-clamped-offsets\n" in clamped.stderr
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 8}


def test_a_reset_from_a_file_of_another_cluster_is_refused_alike(mirrored: MirroredScene) -> None:
    mirrored.make_topics()
    mirrored.write(mirrored.source, range(20))
    mirrored.write(mirrored.target, range(5, 20))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 8})
    mirrored.target.commit(group, {(mirrored.topic, 0): 1})
    mirrored.source.kcoord("export", group, "-f", "out.jsonl")
    reset = ("reset", group, "--from-file", "out.jsonl", "--ignore-topic-ids", "--execute")

    run = mirrored.target.kcoord(*reset)

    assert run.exit_code == 1
    assert "say --accept-different-records" in run.stderr
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 1}
    assert mirrored.target.kcoord(*reset, "--accept-different-records").exit_code == 0


def test_risks_of_a_reset_are_for_files(mirrored: MirroredScene) -> None:
    run = kcoord("offsets", "reset", "g", "--to", "5", "--topic", "t", "--accept-clamped-offsets", "-b", "localhost:1")
    assert run.exit_code == 2
    assert "--accept-clamped-offsets is for --from-file" in run.stderr
