"""Tests of `kcoord offsets export`, `import` and `diff`."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from kcoord.admin.model import Answers, ListedGroup
from kcoord.admin.offsets.files.documents import is_replaceable
from kcoord.admin.record_marks import checksum_of
from kcoord.admin.wire.cluster import WireCluster
from tests.commands.offsets.expectations import BEFORE, MINUTE, START, cells, undo_file
from tests.support.admin.fake_cluster import LiveFixture, assigned
from tests.support.admin.offsets_scene import OffsetsScene, kcoord


def test_an_export_has_all_that_is_known_and_comes_back(scene: OffsetsScene, group: str, folder: Path) -> None:
    run = scene.kcoord("export", group, "-f", "out.jsonl")
    assert (run.exit_code, run.stdout, run.stderr) == (0, "", "2 offsets of 1 group: out.jsonl\n")
    first, second = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(first.pop("topic_id")) == len(first.pop("cluster_id")) == 22
    assert first == {
        "kcoord": "offsets/v1",
        "group": group,
        "topic": "orders",
        "partition": 0,
        "offset": 50,
        "leader_epoch": 0,
        "metadata": "note\x00",
        "log_start": 0,
        "log_end": 100,
        "timestamp": START + 50 * MINUTE,
        "group_state": "Empty",
        "next_record": {
            "offset": 50,
            "timestamp": START + 50 * MINUTE,
            "append_time": False,
            "crc32c": checksum_of(None, b"x"),
        },
        "last_record": None,
    }
    assert (second["partition"], second["log_start"], second["timestamp"]) == (1, 10, START + 60 * MINUTE)

    renamed = ("import", "out.jsonl", "--rename", f"{group}={group}-copy")
    shown = scene.kcoord(*renamed)
    assert shown.exit_code == 0
    assert scene.committed(f"{group}-copy") == {}
    assert scene.kcoord(*renamed, "--execute").exit_code == 0
    assert scene.committed(f"{group}-copy") == BEFORE


def test_a_running_group_is_exported_too(scene: OffsetsScene, group: str) -> None:
    with scene.member(group, "orders"):
        run = scene.kcoord("export", group, "--format", "csv")
    assert (run.exit_code, run.stdout, run.stderr) == (0, "orders,0,50\norders,1,60\n", "")


def test_what_cannot_be_exported_is_named_and_the_rest_is_there(scene: OffsetsScene, group: str) -> None:
    run = scene.kcoord("export", group, "nobody", "--format", "csv")
    assert run.exit_code == 1
    assert run.stderr == "kcoord: group 'nobody' does not exist\n"
    assert len(run.stdout.splitlines()) == 2


def test_an_export_is_not_written_over_another_file(scene: OffsetsScene, group: str, folder: Path) -> None:
    (folder / "out").write_text("mine")
    assert scene.kcoord("export", group, "-f", "out").exit_code == 1
    assert (folder / "out").read_text() == "mine"
    assert scene.kcoord("export", group, "-f", "out", "--force").exit_code == 0
    assert (folder / "out").read_text().startswith('{"kcoord"')


@pytest.mark.parametrize("option", ["export -f", "reset --plan"])
@pytest.mark.parametrize("kind", ["fifo", "link to a device"])
def test_force_does_not_write_over_what_is_no_regular_file(
    scene: OffsetsScene, group: str, folder: Path, kind: str, option: str
) -> None:
    path = folder / "out"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")
    verb, name = option.split()
    more = ("--topic", "orders:0", "--to", "earliest") if verb == "reset" else ()

    run = scene.kcoord(verb, group, *more, name, "out", "--force")

    assert run.exit_code == 1
    assert "kcoord: out is no regular file" in run.stderr
    assert path.is_fifo() if kind == "fifo" else path.is_symlink()
    assert [each.name for each in folder.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["/dev/null", "/dev/stdout", "/proc/self/status", "."])
def test_names_of_the_system_are_not_replaced_wherever_they_lead(name: str, tmp_path: Path) -> None:
    assert not is_replaceable(Path(name))
    assert is_replaceable(tmp_path / "new")


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_an_export_to_stdout_by_its_name_is_written_there(scene: OffsetsScene, group: str, path: str) -> None:
    run = scene.kcoord("export", group, "--format", "csv", "-f", path, "--force")
    assert (run.exit_code, run.stdout, run.stderr) == (0, "orders,0,50\norders,1,60\n", "")


def test_a_file_is_not_replaced_by_an_export_that_lacks_a_group(scene: OffsetsScene, group: str, folder: Path) -> None:
    (folder / "out").write_text("whole")
    run = scene.kcoord("export", group, "nobody", "-f", "out", "--force")
    assert run.exit_code == 1
    assert "kcoord: group 'nobody' does not exist\n" in run.stderr
    assert "kcoord: out is left as it was" in run.stderr
    assert (folder / "out").read_text() == "whole"
    assert scene.kcoord("export", group, "nobody", "-f", "other").exit_code == 1
    assert len((folder / "other").read_text().splitlines()) == 2


def test_offsets_of_a_topic_that_was_made_anew_are_refused_unless_that_is_meant(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    scene.kcoord("export", group, "-f", "out.jsonl")
    path = folder / "out.jsonl"
    path.write_text(re.sub(r'"topic_id": "[^"]+"', '"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"', path.read_text()))
    scene.commit(group, {("orders", 0): 1, ("orders", 1): 11})
    run = scene.kcoord("import", "out.jsonl", "--execute")
    assert run.exit_code == 1
    assert "orders-0 was listed for the topic id AAAAAAAAAAAAAAAAAAAAAA" in run.stderr
    assert "--ignore-topic-ids" in run.stderr
    assert scene.offsets(group) == {("orders", 0): 1, ("orders", 1): 11}
    forced = scene.kcoord("import", "out.jsonl", "--execute", "--ignore-topic-ids")
    assert forced.exit_code == 0, forced.stderr
    assert "other-topic-id" in forced.stdout
    assert scene.committed(group) == {("orders", 0): (50, -1, "note\x00"), ("orders", 1): (60, -1, "")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "bad.csv: there are no offsets in it"),
        ("g,orders,0,5\ng,orders,zero,5\n", "bad.csv:2: 'zero' is no partition"),
        ("g,orders,0,5\ng,orders,0,6\n", "bad.csv:2: group 'g', 'orders-0' is in line 1 already"),
        ("orders,0,5\n", "bad.csv: CSV of three columns does not say which group it is of: say --group"),
        ("\x1b[31m,\x1b[31m,0,x\n", "bad.csv:1: 'x' is no offset"),
    ],
)
def test_a_malformed_file_is_one_line_with_its_number_and_nothing_is_done(
    scene: OffsetsScene, folder: Path, text: str, expected: str
) -> None:
    (folder / "bad.csv").write_text(text)
    run = scene.kcoord("import", "bad.csv", "--execute")
    assert run.exit_code == 1
    assert run.stdout == ""
    assert run.stderr.startswith(f"kcoord: {expected}")
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.rstrip("\n").isprintable()


def test_partitions_that_the_cluster_does_not_have_refuse_the_group(scene: OffsetsScene, folder: Path) -> None:
    (folder / "in.csv").write_text("orders,0,5\norders,9,5\nnowhere,0,5\n")
    run = scene.kcoord("import", "in.csv", "--group", "importing", "--execute")
    assert run.exit_code == 1
    assert "the cluster does not show nowhere 0; orders 9" in run.stderr
    assert scene.offsets("importing") == {}


def test_what_the_broker_refuses_of_a_change_is_told_by_partition(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    """The size of metadata is limited, by a setting that only the broker knows."""
    lines = [
        {"kcoord": "offsets/v1", "group": group, "topic": "orders", "partition": partition, "offset": 7}
        for partition in (0, 1, 2)
    ]
    lines[1] |= {"offset": 17, "metadata": "x" * 5000}
    (folder / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run = scene.kcoord("import", "in.jsonl", "--accept-clamped-offsets", "--execute")
    assert run.exit_code == 1
    assert [row[2:7] for row in cells(run)[1:]] == [
        ["0", "50", "7", "7", "done"],
        ["1", "60", "17", "60", "refused"],
        ["2", "-", "0", "0", "done"],
    ]
    assert "orders-1: the metadata is larger than the broker takes" in run.stderr
    assert "2 of 3 partitions were changed." in run.stderr
    assert scene.kcoord("undo", undo_file(folder), "--execute").exit_code == 0
    assert scene.committed(group) == BEFORE


def test_a_diff_compares_files_and_clusters(scene: OffsetsScene, group: str, folder: Path) -> None:
    scene.kcoord("export", group, "-f", "before.jsonl")
    same = scene.kcoord("diff", "before.jsonl", "cluster:")
    assert (same.exit_code, same.stdout, same.stderr) == (0, "", "0 differences; 2 offsets the same.\n")
    as_csv = scene.kcoord("diff", "before.jsonl", "cluster:", "-o", "csv")
    assert (as_csv.exit_code, as_csv.stdout.splitlines()) == (0, ["group,topic,partition,a,b,b_a,difference"])
    scene.commit(group, {("orders", 0): 55, ("orders", 2): 0})
    run = scene.kcoord("diff", "before.jsonl", f"broker:{scene.bootstrap}")
    assert run.exit_code == 1
    assert [row[1:] for row in cells(run)] == [
        ["TOPIC", "PARTITION", "A", "B", "B-A", "DIFFERENCE"],
        ["orders", "0", "50", "55", "+5", "offset"],
        ["orders", "2", "-", "0", "-", "only in B"],
    ]
    assert run.stderr == "2 differences; 1 offset the same.\n"
    both = scene.kcoord("diff", "cluster:", f"broker:{scene.bootstrap}")
    assert (both.exit_code, both.stdout) == (0, "")


def test_a_diff_of_contexts_and_csv(
    scene: OffsetsScene, group: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCOORD_CONFIG_DIR", str(folder))
    assert kcoord("context", "add", "here", "-b", scene.bootstrap).exit_code == 0
    (folder / "a.csv").write_text("orders,0,50\norders,1,59\n")
    run = kcoord("offsets", "diff", "a.csv", "context:here", "--group", group, "-o", "json")
    assert run.exit_code == 1
    document = json.loads(run.stdout)
    assert document["kcoord"] == "offsets-diff/v1"
    assert document["same"] == 1
    (difference,) = document["differences"]
    assert (difference["partition"], difference["kind"], difference["by"]) == (1, "offset", 1)
    exact = kcoord("offsets", "diff", "a.csv", "context:here", "--group", group, "--exact", "--no-headers")
    assert [row[-1] for row in cells(exact)] == ["metadata", "offset"]


@pytest.mark.parametrize("side", ["context:nowhere", "cluster:"])
def test_a_diff_with_a_cluster_that_nobody_has_named_is_an_error(
    scene: OffsetsScene, group: str, side: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("KCOORD_CONFIG_DIR", str(folder / "no-contexts"))
    scene.kcoord("export", group, "-f", "a.jsonl")
    run = kcoord("offsets", "diff", "a.jsonl", side)
    assert run.exit_code == (2 if side == "cluster:" else 1)
    assert run.stdout == ""


# Selection of groups


def test_all_groups_are_exported_with_success_although_some_have_no_offsets(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    with LiveFixture(scene.bootstrap) as live:
        live.join(f"{group}-idle", assignment=assigned("orders", 0))
        all_of_them = scene.kcoord("export", "--all-groups", "-f", "all.jsonl")
        some = scene.kcoord("export", "--regex", f"^{group}", "-f", "some.jsonl")
        named = scene.kcoord("export", group, f"{group}-idle", "-f", "named.jsonl")
    for run in (all_of_them, some, named):
        assert f"kcoord: group '{group}-idle' has committed nothing\n" in run.stderr
    assert (all_of_them.exit_code, some.exit_code, named.exit_code) == (0, 0, 1)
    for name in ("some.jsonl", "named.jsonl"):
        assert len((folder / name).read_text().splitlines()) == 2


def test_offsets_of_a_topic_that_was_deleted_are_all_written_which_is_a_success(
    scene: OffsetsScene, group: str
) -> None:
    scene.make_topic(f"{group}-gone")
    scene.commit(group, {(f"{group}-gone", 0): 7})
    scene.delete_topic(f"{group}-gone")
    run = scene.kcoord("export", "--regex", f"^{group}$")
    assert run.exit_code == 0, run.stderr
    assert len(run.stdout.splitlines()) in (2, 3)  # a broker may forget offsets with their topic


def test_groups_that_are_deleted_while_they_are_read_are_told_of_unless_they_were_named(
    scene: OffsetsScene, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_groups = WireCluster.list_groups

    def then_deleted(self: WireCluster, **filters: Any) -> Answers[str, ListedGroup]:
        listed = list_groups(self, **filters)
        self.delete_groups([f"{group}-passing"])
        return listed

    monkeypatch.setattr(WireCluster, "list_groups", then_deleted)
    for named, exit_code in (((), 0), ((f"{group}-passing",), 1)):
        scene.commit(f"{group}-passing", {("orders", 0): 1})
        run = scene.kcoord("export", *named, "--regex", f"^{group}")
        assert run.exit_code == exit_code
        assert run.stderr == f"kcoord: group '{group}-passing' does not exist\n"
        assert len(run.stdout.splitlines()) == 2
