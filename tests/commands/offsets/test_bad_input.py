"""Tests of `kcoord offsets` with usage errors, missing groups and topics, hostile names, and many partitions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.offsets.expectations import undo_file
from tests.support.admin.offsets_scene import OffsetsScene, kcoord


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["reset", "g", "--topic", "orders"], "say where to: --to WHERE"),
        (["reset", "g", "--topic", "orders", "--to", "5", "--to-latest"], "--to and --to-latest: give only one"),
        (["reset", "g", "--to", "5"], "say which partitions: --topic TOPIC[:PARTITIONS], or --all-topics"),
        (["reset", "g", "--to", "5", "--topic", "t", "--all-topics"], "say which partitions"),
        (["reset", "g", "--to", "soon", "--topic", "t"], "'soon' is none of earliest, latest, current"),
        (["reset", "g", "--to", "@soon", "--topic", "t"], "'soon' is not a time"),
        (["reset", "g", "--to", "@-soon", "--topic", "t"], "'soon' is not a span of time"),
        (["reset", "g", "--by-duration", "1x", "--topic", "t"], "'1x' is not a span of time"),
        (["reset", "g", "--to", "5", "--topic", "t:x"], "'x' is not a partition"),
        (["reset", "--to", "5", "--topic", "t"], "name one or more groups"),
        (["reset", "g", "--to", "5", "--topic", "t", "--undo", "a", "--undo-dir", "."], "give one of them"),
        (["reset", "--regex", "(", "--to", "5", "--all-topics"], "'(' is no regular expression"),
        (["reset", "g", "--to", "5", "--topic", "t", "--ignore-topic-ids"], "--ignore-topic-ids is for --from-file"),
        (["import", "missing.csv"], "does not exist"),
        (["import", "missing.csv", "--rename", "a"], "'a' is not OLD=NEW"),
        (["diff", "cluster:x", "cluster:"], "'cluster:x' names no cluster"),
        (["diff", "context:", "cluster:"], "'context:' names no cluster"),
        (["delete", "g"], "say which partitions"),
        (["copy", "--from", "here", "--to", "cluster:", "--group", "g"], "'here' names no cluster"),
        (["copy", "--from", "cluster:", "--to", "cluster:", "--group", "("], "'(' is no regular expression"),
        (["copy", "--from", "cluster:", "--to", "cluster:"], "Missing option '--group'"),
    ],
)
def test_a_usage_error_says_what_is_wrong_and_exits_2(arguments: list[str], expected: str) -> None:
    run = kcoord("offsets", *arguments, "-b", "127.0.0.1:1")
    assert run.exit_code == 2
    assert expected in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["reset", "g", "--to", "5", "--topic", "nowhere"], "this cluster has no topic 'nowhere'"),
        (["reset", "g", "--to", "5", "--topic", "orders:0,7-8"], "has no partition orders-7, no partition orders-8"),
        (["reset", "nobody", "--to", "5", "--all-topics"], "it has committed nothing: name topics with --topic"),
        (["reset", "--regex", "^no-such", "--to", "5", "--all-topics"], "no group matches '^no-such'"),
        (
            ["diff", "missing.jsonl", "cluster:"],
            "missing.jsonl: no such file; a cluster is written cluster:, context:NAME or broker:HOST:PORT",
        ),
        (["diff", "context:nowhere", "cluster:"], "there is no context 'nowhere'"),
    ],
)
def test_what_is_not_there_is_one_line_and_exit_1(
    scene: OffsetsScene, arguments: list[str], expected: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCOORD_CONFIG_DIR", str(folder))
    run = scene.kcoord(*arguments)
    assert run.exit_code == 1
    assert expected in run.stderr
    assert run.stdout == ""


def test_names_with_escape_sequences_are_never_acted_on(scene: OffsetsScene, folder: Path) -> None:
    name = "evil\x1b[2J\n../x"
    scene.commit(name, {("orders", 0): (50, -1, "\x1b]0;title\x07")})
    runs = [
        scene.kcoord("reset", name, "--all-topics", "--to", "5", "--plan", "plan.json"),
        scene.kcoord("apply", "plan.json", "--execute"),
        scene.kcoord("apply", "plan.json"),
        scene.kcoord("undo", undo_file(folder)),
        scene.kcoord("export", name),
        scene.kcoord("export", name, "--format", "csv"),
        scene.kcoord("diff", "cluster:", "cluster:", "--group", name),
        scene.kcoord("delete", name, "--topic", "\x1b[2J"),
        scene.kcoord("reset", name, "--topic", "\x1b[2J", "--to", "5"),
    ]
    expected = [line for run in runs for line in (run.stdout + run.stderr).splitlines()]
    assert all(line.isprintable() for line in expected)
    assert scene.offsets(name) == {("orders", 0): 5}
    assert undo_file(folder).startswith("kcoord-undo-evil__2J_.._x-")


def test_a_group_of_many_thousand_partitions_is_changed_whole(scene: OffsetsScene, folder: Path) -> None:
    scene.make_topic("huge", 6000)
    run = scene.kcoord("reset", "huge-group", "--topic", "huge", "--to-latest", "--execute", "-o", "json")
    assert run.exit_code == 0, run.stderr
    results: list[dict[str, Any]] = json.loads(run.stdout)["partitions"]
    assert len(results) == len(scene.offsets("huge-group")) == 6000
    assert {each["result"] for each in results} == {"done"}
    assert scene.kcoord("undo", undo_file(folder), "--execute", "-o", "json").exit_code == 0
    assert scene.offsets("huge-group") == {}


def test_every_verb_has_help_with_an_example_and_a_place_in_the_docs() -> None:
    page = (Path(__file__).parent.parent.parent.parent / "docs" / "offsets.md").read_text()
    for verb in ("apply", "copy", "delete", "diff", "export", "import", "reset", "undo"):
        run = kcoord("offsets", verb, "--help")
        assert run.exit_code == 0
        assert f"  kcoord offsets {verb} " in run.stdout
        assert f"kcoord offsets {verb}" in page
