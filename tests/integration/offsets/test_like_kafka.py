"""Each target of a reset gives the offsets that kafka-consumer-groups gives, and both can read the other's files.

Every run of Kafka's tool covers two groups, a classic one and one of KIP-848.
"""

import csv
import io
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kcoord.testing.cluster import Cluster
from kcoord.testing.tools import JavaTools, ToolRun
from tests.support.admin.quoted_names import QUOTED

from ...support.admin.offsets_scene import OffsetsScene, Partition
from ..support.warm_tool import WarmTools, warm_tools

ORDERS, BILLS, VOID = "offsets-orders", "offsets-bills", "offsets-void"
CLASSIC, MODERN = "offsets-classic", "offsets-modern-with-a-long-name"
GROUPS = (CLASSIC, MODERN)

MINUTE = 60_000
OLD = 1_700_000_000_000  # 2023-11-14T22:13:20Z

COMMITS = {(ORDERS, 0): (50, 0, "a note"), (ORDERS, 1): (50, -1, ""), (ORDERS, 2): (5, -1, ""), (BILLS, 0): (80, 0, "")}


@pytest.fixture(scope="module")
def scene(kafka_cluster: Cluster) -> Iterator[OffsetsScene]:
    """A broker with two topics. In `orders`, 0 is from 0 to 100, 1 from 10 to 100, 2 from 10 to 100 with a smaller
    committed offset, and 3 is empty. The records of `bills` are ten minutes apart, the last one five minutes old, so
    that durations before now select different ones."""
    scene = OffsetsScene(kafka_cluster.bootstrap)
    for topic, partitions in ((ORDERS, 4), (BILLS, 1), (VOID, 2)):
        scene.make_topic(topic, partitions)
    for partition in (0, 1, 2):
        scene.produce(ORDERS, partition, [OLD + number * MINUTE for number in range(100)])
    now = int(time.time() * 1000)
    scene.produce(BILLS, 0, [now - (number * 10 + 5) * MINUTE for number in reversed(range(100))])
    for partition in (1, 2):
        scene.delete_records(ORDERS, partition, 10)
    for name in (MODERN, MODERN + "-2"):
        with scene.member(name, VOID, "consumer"):
            pass
    yield scene
    for topic in (ORDERS, BILLS, VOID):
        scene.delete_topic(topic)


@pytest.fixture(autouse=True)
def commits(scene: OffsetsScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for group in GROUPS:
        scene.commit(group, COMMITS)


@pytest.fixture(scope="module")
def tool(java_tools: JavaTools) -> Iterator[WarmTools]:
    with warm_tools() as tools:
        yield tools


Offsets = dict[str, dict[Partition, int]]


def reset_by_kafka(scene: OffsetsScene, tool: WarmTools, *arguments: str, groups: Iterable[str] = GROUPS) -> ToolRun:
    named = [word for group in groups for word in ("--group", group)]
    return tool.run(
        "consumer-groups", "--bootstrap-server", scene.bootstrap, "--reset-offsets", "--export", *named, *arguments
    )


def by_kafka(scene: OffsetsScene, tool: WarmTools, *arguments: str, groups: tuple[str, ...] = GROUPS) -> Offsets:
    run = reset_by_kafka(scene, tool, *arguments, groups=groups)
    assert "Error" not in run.stdout, run.stdout
    assert run.exit_code == 0, run.stderr
    found: Offsets = {group: {} for group in groups}
    for row in csv.reader(io.StringIO(run.stdout)):
        if len(row) > 1:  # its warnings are in between
            *group, topic, partition, offset = row
            found[group[0] if group else groups[0]][topic, int(partition)] = int(offset)
    return found


def by_kcoord(scene: OffsetsScene, *arguments: str, groups: tuple[str, ...] = GROUPS) -> Offsets:
    run = scene.kcoord("reset", *groups, *arguments, "-o", "json")
    assert run.exit_code == 0, run.stderr
    document = json.loads(run.stdout)
    if "groups" in document:
        return {
            plan["group"]: {(each["topic"], each["partition"]): each["new"]["offset"] for each in plan["partitions"]}
            for plan in document["groups"]
        }
    found: Offsets = {group: {} for group in groups}
    for each in document["partitions"]:
        assert each["now"]["offset"] == each["new"]["offset"]
        found[each["group"]][each["topic"], each["partition"]] = each["now"]["offset"]
    return found


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["--topic", ORDERS, "--topic", f"{VOID}:1", "--to-earliest"], 0),
        (["--topic", ORDERS, "--topic", VOID, "--to-latest"], 100),
        (["--topic", ORDERS, "--to-current"], 50),
        (["--all-topics", "--to-current"], 50),
        (["--topic", ORDERS, "--to-offset", "7"], 7),
        (["--all-topics", "--to-offset", "5000"], 100),
        (["--topic", f"{ORDERS}:0,1", "--to-offset", "-5"], 0),
        (["--topic", f"{ORDERS}:0,1,2", "--shift-by", "-45"], 5),
        (["--all-topics", "--shift-by", "30"], 80),
        (["--all-topics", "--to-datetime", "2023-11-14T22:43:20.000"], 30),
        (["--topic", ORDERS, "--to-datetime", "2023-11-14T23:13:20.001+01:00"], 1),
        (["--topic", ORDERS, "--topic", VOID, "--to-datetime", "2033-11-14T22:43:20.000Z"], 100),
        (["--topic", BILLS, "--topic", f"{ORDERS}:0", "--by-duration", "PT1H"], 100),
        (["--topic", f"{BILLS}:0", "--topic", f"{ORDERS}:0", "--by-duration", "P0DT0H0M1S"], 100),
    ],
    ids=lambda each: " ".join(each).replace("offsets-", "") if isinstance(each, list) else "",
)
def test_a_target_gives_the_offsets_that_kafka_gives(
    scene: OffsetsScene, tool: WarmTools, arguments: list[str], first: int
) -> None:
    theirs = by_kafka(scene, tool, *arguments, "--dry-run")
    assert by_kcoord(scene, *arguments) == theirs
    assert theirs[CLASSIC] == theirs[MODERN]
    assert theirs[CLASSIC][ORDERS, 0] == first
    assert all(scene.committed(group) == COMMITS for group in GROUPS)


def test_by_duration_finds_the_record_of_an_hour_ago(scene: OffsetsScene) -> None:
    for arguments in (["--by-duration", "PT1H"], ["--by-duration", "1h"], ["--to", "@-1h"]):
        assert by_kcoord(scene, "--topic", BILLS, *arguments)[CLASSIC] == {(BILLS, 0): 94}


def test_through_librdkafka_all_is_the_same(scene: OffsetsScene) -> None:
    """librdkafka is used only if our own client cannot connect, or for a setting that only librdkafka has."""
    words = ("--topic", ORDERS, "--to-datetime", "2023-11-14T22:43:20.000")
    link = ("-X", "socket.keepalive.enable=true")
    assert by_kcoord(scene, *words, *link) == by_kcoord(scene, *words)
    assert by_kcoord(scene, *words, *link, "--execute") == by_kcoord(scene, *words)
    assert scene.offsets(CLASSIC) == {(ORDERS, 0): 30, (ORDERS, 1): 30, (ORDERS, 2): 30, (ORDERS, 3): 0, (BILLS, 0): 80}
    refused = scene.kcoord("delete", CLASSIC, "--topic", f"{ORDERS}:3", "--execute", *link)
    assert refused.exit_code == 1
    assert "confluent-kafka cannot delete offsets" in refused.stderr
    assert "the metadata of offsets is not seen: exports and undo files are without it" in refused.stderr
    (undo,) = Path().glob("kcoord-undo-*")
    assert scene.kcoord("undo", undo.name, "--execute").exit_code == 0
    for group in GROUPS:
        assert scene.committed(group) == {**COMMITS, (ORDERS, 0): (50, 0, "")}


def test_what_is_committed_in_the_end_is_what_kafka_commits(scene: OffsetsScene, tool: WarmTools) -> None:
    arguments = ("--topic", ORDERS, "--to-offset", "20", "--execute")
    twins = (f"{CLASSIC}-2", f"{MODERN}-2")
    for group in twins:
        scene.commit(group, COMMITS)
    assert by_kafka(scene, tool, *arguments, groups=twins) == {
        f"{group}-2": offsets for group, offsets in by_kcoord(scene, *arguments).items()
    }
    for group, twin in zip(GROUPS, twins, strict=True):
        assert scene.committed(group) == scene.committed(twin) != COMMITS
    for path in Path().glob("kcoord-undo-*"):
        assert scene.kcoord("undo", path.name, "--execute").exit_code == 0
    assert all(scene.committed(group) == COMMITS for group in GROUPS)


def test_a_shift_of_what_is_not_committed_is_refused_by_both(scene: OffsetsScene, tool: WarmTools) -> None:
    theirs = reset_by_kafka(scene, tool, "--topic", ORDERS, "--shift-by", "1", "--dry-run", groups=[CLASSIC])
    assert theirs.exit_code == 1
    assert f"Cannot shift offset for partition {ORDERS}-3" in theirs.stderr
    ours = scene.kcoord("reset", CLASSIC, "--topic", ORDERS, "--shift-by", "1")
    assert ours.exit_code == 1
    assert f"nothing is committed for {ORDERS} 3" in ours.stderr


def test_csv_of_one_group_goes_both_ways(scene: OffsetsScene, tool: WarmTools) -> None:
    assert scene.kcoord("export", MODERN, "--format", "csv", "-f", "ours.csv").exit_code == 0
    from_ours = by_kafka(scene, tool, "--from-file", str(Path("ours.csv").absolute()), "--dry-run", groups=(MODERN,))
    assert from_ours[MODERN] == {
        tp: max(offset, 10) if tp == (ORDERS, 2) else offset for tp, (offset, *_) in COMMITS.items()
    }
    theirs = reset_by_kafka(scene, tool, "--all-topics", "--shift-by", "1", "--dry-run", groups=[MODERN])
    Path("theirs.csv").write_text(theirs.stdout)
    run = scene.kcoord("import", "theirs.csv", "--group", MODERN, "--execute")
    assert run.exit_code == 0, run.stderr
    assert scene.offsets(MODERN) == {(ORDERS, 0): 51, (ORDERS, 1): 51, (ORDERS, 2): 10, (BILLS, 0): 81}


def test_csv_of_several_groups_goes_both_ways(scene: OffsetsScene, tool: WarmTools) -> None:
    assert scene.kcoord("export", *GROUPS, "--format", "csv", "-f", "ours.csv").exit_code == 0
    assert f'"{MODERN}",{ORDERS},0,50' in Path("ours.csv").read_text()
    theirs = by_kafka(scene, tool, "--from-file", str(Path("ours.csv").absolute()), "--dry-run")
    assert by_kcoord(scene, "--from-file", "ours.csv") == theirs
    written = reset_by_kafka(scene, tool, "--topic", f"{ORDERS}:0,3", "--to-offset", "33", "--dry-run")
    Path("theirs.csv").write_text(written.stdout)
    run = scene.kcoord("import", "theirs.csv", "--execute")
    assert run.exit_code == 0, run.stderr
    for group in GROUPS:
        assert scene.offsets(group) == {
            (ORDERS, 0): 33,
            (ORDERS, 1): 50,
            (ORDERS, 2): 5,
            (ORDERS, 3): 0,
            (BILLS, 0): 80,
        }
    scene.kcoord("delete", CLASSIC, "--topic", f"{ORDERS}:3", "--execute")
    scene.kcoord("delete", MODERN, "--topic", f"{ORDERS}:3", "--execute")


def test_csv_is_byte_for_byte_what_kafka_writes_whatever_the_names_are(scene: OffsetsScene, tool: WarmTools) -> None:
    for name in QUOTED:
        scene.commit(name, {(BILLS, 0): 7})
    theirs = reset_by_kafka(scene, tool, "--all-topics", "--to-current", "--dry-run", groups=QUOTED)
    ours = scene.kcoord("export", *QUOTED, "--format", "csv")
    assert ours.exit_code == 0, ours.stderr
    assert sorted(ours.stdout.splitlines()) == sorted(line for line in theirs.stdout.splitlines() if line)
    Path("ours.csv").write_text(ours.stdout)
    read = by_kafka(scene, tool, "--from-file", str(Path("ours.csv").absolute()), "--dry-run", groups=tuple(QUOTED))
    assert read == {name: {(BILLS, 0): 7} for name in QUOTED}


def test_deleted_offsets_are_those_that_kafka_deletes(scene: OffsetsScene, tool: WarmTools) -> None:
    words = ("--delete-offsets", "--group", CLASSIC, "--topic", f"{ORDERS}:0", "--topic", BILLS)
    run = tool.run("consumer-groups", "--bootstrap-server", scene.bootstrap, *words)
    assert run.stdout.count("Successful") == 2
    ours = scene.kcoord("delete", MODERN, "--topic", f"{ORDERS}:0", "--topic", BILLS, "--execute")
    assert ours.exit_code == 0, ours.stderr
    assert scene.committed(CLASSIC) == scene.committed(MODERN) == {tp: COMMITS[tp] for tp in ((ORDERS, 1), (ORDERS, 2))}
    (undo,) = Path().glob("kcoord-undo-*")
    assert scene.kcoord("undo", undo.name, "--execute").exit_code == 0
    assert scene.committed(MODERN) == COMMITS
