"""Tests of `kcoord groups` on an embedded cluster."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kcoord.admin.model import Committed, TopicPartition
from kcoord.protocol.records.record import Record
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.fake_cluster import LiveFixture, orders

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/

LONG_AGO = 1_700_000_000_000
ESCAPES = "red\x1b[31m\n\u202e"
ESCAPED = r"red\x1b[31m\n\u202e"
WIDE = "注文処理グループ"


@pytest.fixture(scope="module")
def live(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[LiveFixture]:
    """The groups of the tests: `shop` has a member and lag, `asleep` has lag and no members, `done` has neither; two
    names are odd."""
    with (
        kcoord_cluster_factory(topics={"orders": 3, "payments": 1, "timeless": 1, "trimmed": 2}) as cluster,
        LiveFixture(cluster.bootstrap) as live,
    ):
        for number in range(3):
            live.produce(tp(number), [Record(timestamp=LONG_AGO + 1000 * each, value=b"v") for each in range(10)])
        commit = live.cluster.commit
        commit("asleep", {tp(0): Committed(1), tp(1): Committed(10), tp(0, "payments"): Committed(0)})
        commit("done", {tp(0, "payments"): Committed(0)})
        commit("shop", {tp(0): Committed(8, 0, "note")})
        commit(ESCAPES, {tp(2): Committed(10, metadata=ESCAPES)})
        commit(WIDE, {tp(2): Committed(4)})
        live.join("shop", assignment=orders(0, 1), instance_id="worker-1")
        yield live


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


def groups(live: LiveFixture, *arguments: str, columns: int | None = None) -> Result:
    environment = {"COLUMNS": str(columns) if columns else "", "KCOORD_BOOTSTRAP_SERVER": live.bootstrap}
    return CliRunner().invoke(cli, ["groups", *arguments], prog_name="kcoord", env=environment)


def document(live: LiveFixture, *arguments: str) -> Any:
    done = groups(live, *arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows(live: LiveFixture, *arguments: str) -> list[dict[str, str]]:
    done = groups(live, *arguments, "-o", "csv")
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(StringIO(done.stdout)))


# list


def test_groups_are_listed_with_members_topics_and_lag(live: LiveFixture) -> None:
    done = groups(live, "list")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()[:4]] == [
        ["GROUP", "STATE", "TYPE", "PROTOCOL", "MEMBERS", "TOPICS", "LAG"],
        ["asleep", "Empty", "classic", "-", "0", "2", "9"],
        ["done", "Empty", "classic", "-", "0", "1", "0"],
        [ESCAPED.split()[0], "Empty", "classic", "-", "0", "1", "0"],
    ]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (["--state", "stable"], ["shop"]),
        (["--state", "Empty", "--regex", "^[ad]"], ["asleep", "done"]),
        (["--state", "Empty", "--state", "Stable", "--regex", "s"], ["asleep", "shop"]),
        (["--type", "classic", "--regex", "shop"], ["shop"]),
        (["--type", "share"], []),
        (["--topic", "payments"], ["asleep", "done"]),
        (["--topic", "payments", "--topic", "orders", "--regex", "^.{4}$"], ["done", "shop"]),
        (["--topic", "nowhere"], []),
    ],
)
def test_groups_are_listed_by_state_type_topic_and_pattern(
    live: LiveFixture, filters: list[str], names: list[str]
) -> None:
    assert [row["group"] for row in document(live, "list", *filters)["groups"]] == names
    assert groups(live, "list", "--names", *filters).stdout.split() == names


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("name", ["asleep", "done", "shop", WIDE]),
        ("lag", ["asleep", WIDE, "shop", "done"]),
        ("members", ["shop", "asleep", "done", WIDE]),
        ("state", ["asleep", "done", WIDE, "shop"]),
    ],
)
def test_groups_are_sorted_in_every_output(live: LiveFixture, sort: str, names: list[str]) -> None:
    output = [each["group"] for each in document(live, "list", "--sort", sort)["groups"]]
    assert [name for name in output if name != ESCAPES] == names
    lines = groups(live, "list", "--names", "--sort", sort).stdout.splitlines()
    assert [name for name in lines if name != ESCAPED] == names


def test_a_listed_group_is_a_document_with_its_figures(live: LiveFixture) -> None:
    listed = document(live, "list", "--regex", "^shop$")
    assert (listed["kcoord"], listed["refused"]) == ("groups-list/v1", [])
    assert listed["groups"] == [
        {
            "group": "shop",
            "state": "Stable",
            "type": "classic",
            "protocol_type": "consumer",
            "protocol": "range",
            "members": 1,
            "topics": ["orders"],
            "total_lag": 2,
            "coordinator": 1,
        }
    ]


# describe


def test_a_group_is_described_by_a_heading_its_partitions_and_its_members(live: LiveFixture) -> None:
    done = groups(live, "describe", "shop")
    assert (done.exit_code, done.stderr) == (0, "")
    heading, _, first, second, _, _, member = done.stdout.splitlines()
    assert heading.startswith(f"shop · Stable · classic range · 1 member · coordinator {live.bootstrap} (id 1) · lag 2")
    assert first.split()[:5] == ["orders", "0", "8", "10", "2"]
    assert second.split()[:6] == ["orders", "1", "-", "10", "-", "-"]
    assert "worker-1" in member
    assert member.endswith("orders 0-1")


def test_lag_in_time_is_the_age_of_the_next_record(live: LiveFixture) -> None:
    partition = document(live, "describe", "shop")["groups"][0]["partitions"][0]
    assert partition["next_record_at"] == "2023-11-14T22:13:28.000Z"
    assert partition["lag_seconds"] > 10**7
    quick = document(live, "describe", "shop", "--no-time")["groups"][0]["partitions"][0]
    assert (quick["lag"], quick["next_record_at"], quick["lag_seconds"]) == (2, None, None)


@pytest.mark.parametrize(
    ("flag", "shows_partitions", "shows_members"),
    [(None, True, True), ("--offsets", True, False), ("--members", False, True)],
)
def test_flags_choose_what_is_described(
    live: LiveFixture, flag: str | None, shows_partitions: bool, shows_members: bool
) -> None:
    output = groups(live, "describe", "shop", *([flag] if flag else [])).stdout
    assert ("LOG-END" in output) is shows_partitions
    assert ("ASSIGNMENT" in output) is shows_members
    assert output.startswith("shop · Stable")


@pytest.mark.parametrize("flag", ["--time", "--no-time"])
def test_where_a_group_is_behind_the_start_of_a_log_that_is_shown_and_elsewhere_not(
    live: LiveFixture, flag: str
) -> None:
    behind, ahead = tp(0, "trimmed"), tp(1, "trimmed")
    for each in (behind, ahead):
        live.produce(each, [Record(timestamp=LONG_AGO, value=b"v")] * 10)
    end = live.cluster.bounds([behind]).found[behind].end
    live.delete_records(behind, before=end - 4)
    live.cluster.commit("late", {behind: Committed(end - 6), ahead: Committed(3)})
    output = groups(live, "describe", "late", flag).stdout.splitlines()
    assert output[1].split()[:6] == ["TOPIC", "PARTITION", "OFFSET", "LOG-START", "LOG-END", "LAG"]
    assert output[2].split()[:5] == ["trimmed", "0", str(end - 6), str(end - 4), str(end)]
    assert output[3].split()[:4] == ["trimmed", "1", "3", "0"]
    assert "LOG-START" not in groups(live, "describe", "asleep", flag).stdout
    live.cluster.delete_groups(["late"])


def test_states_are_a_line_for_each_group(live: LiveFixture) -> None:
    header, shop = groups(live, "describe", "shop", "--state").stdout.splitlines()
    assert header.split()[:5] == ["GROUP", "STATE", "TYPE", "PROTOCOL", "MEMBERS"]
    assert shop.split()[:5] == ["shop", "Stable", "classic", "range", "1"]


def test_wide_output_and_csv_have_every_column(live: LiveFixture) -> None:
    wide = groups(live, "describe", "shop", "-o", "wide").stdout
    assert {"LOG-START", "MEMBER-ID", "LEADER-EPOCH", "METADATA", "SUBSCRIPTION"} <= set(wide.split())
    first, second = rows(live, "describe", "shop")
    assert (
        first.items() >= {"group": "shop", "offset": "8", "lag": "2", "metadata": "note", "leader_epoch": "0"}.items()
    )
    assert float(first["behind"]) > 10**7
    assert (second["offset"], second["lag"], second["behind"], second["instance_id"]) == ("", "", "", "worker-1")


def test_csv_has_members_or_one_line_for_each_group_where_that_is_asked_for(live: LiveFixture) -> None:
    (member,) = rows(live, "describe", "shop", "done", "--members")
    assert (member["group"], member["instance_id"], member["assignment"]) == ("shop", "worker-1", "orders 0-1")
    shop, done = rows(live, "describe", "shop", "done", "--state")
    assert (shop["group"], shop["state"], shop["members"], shop["lag"]) == ("shop", "Stable", "1", "2")
    assert (done["group"], done["state"], done["members"], done["lag"]) == ("done", "Empty", "0", "0")


def test_several_groups_are_described_in_the_order_they_are_named(live: LiveFixture) -> None:
    assert [each["group"] for each in document(live, "describe", "shop", "done")["groups"]] == ["shop", "done"]
    everything = document(live, "describe", "--all-groups")["groups"]
    assert [each["group"] for each in everything] == sorted(each["group"] for each in everything)
    assert len(everything) == 5


def test_json_and_yaml_say_the_same(live: LiveFixture) -> None:
    output = groups(live, "describe", "done", "-o", "yaml").stdout
    assert output.startswith("kcoord: groups-describe/v1\n")
    assert "group: done\n" in output


@pytest.mark.parametrize("verb", ["describe", "lag"])
def test_a_group_that_is_not_there_is_named_and_the_rest_shown(live: LiveFixture, verb: str) -> None:
    done = groups(live, verb, "nobody", "done", "-o", "json")
    assert done.exit_code == 1
    assert done.stderr == "kcoord: group nobody: GROUP_ID_NOT_FOUND (there is no such group)\n"
    output = json.loads(done.stdout)
    assert [each["group"] for each in output["groups" if verb == "describe" else "lag"]] == ["done"]
    assert output["refused"] == [
        {"what": "group nobody", "error": "GROUP_ID_NOT_FOUND", "message": "there is no such group"}
    ]


# lag


def test_lag_is_told_by_group_topic_or_partition_with_a_total(live: LiveFixture) -> None:
    by_group = groups(live, "lag", "asleep", "shop", "--by", "group", "--no-time").stdout
    assert [line.split() for line in by_group.splitlines()] == [
        ["GROUP", "PARTITIONS", "UNKNOWN", "LAG", "BEHIND"],
        ["asleep", "3", "0", "9", "-"],
        ["shop", "2", "1", "2", "-"],
        ["TOTAL", "5", "1", "11", "-"],
    ]
    by_topic = document(live, "lag", "asleep")
    assert [(each["topic"], each["partitions"], each["lag"]) for each in by_topic["lag"]] == [
        ("orders", 2, 9),
        ("payments", 1, 0),
    ]
    assert by_topic["total"]["lag"] == 9
    by_partition = rows(live, "lag", "asleep", "--by", "partition")
    assert [(row["topic"], row["partition"], row["lag"]) for row in by_partition] == [
        ("orders", "0", "9"),
        ("orders", "1", "0"),
        ("payments", "0", "0"),
    ]


@pytest.mark.parametrize(
    ("limits", "exit_code", "expected"),
    [
        (["--fail-above", "9"], 0, ""),
        (["--fail-above", "8", "--no-time"], 1, "kcoord: group asleep: lag 9\n"),
        (["--fail-behind", "100000d"], 0, ""),
        (["--fail-behind", "1h", "--no-time"], 1, "kcoord: group asleep: lag 9, "),
        (["--fail-above", "0", "--fail-behind", "100000d"], 1, "kcoord: group asleep: lag 9, "),
        (["--fail-behind", "0s", "--no-time"], 1, "kcoord: group asleep: lag 9, "),
    ],
)
def test_groups_that_are_too_far_behind_make_the_exit_code_1(
    live: LiveFixture, limits: list[str], exit_code: int, expected: str
) -> None:
    done = groups(live, "lag", "asleep", "done", *limits)
    assert done.exit_code == exit_code
    assert done.stderr.startswith(expected)
    assert bool(done.stderr) == bool(expected)
    assert "TOTAL" in done.stdout


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("ageless", "group ageless: lag 1; the age of the lag of 1 partition is not known\n"),
        ("half-known", "behind; the age of the lag of 1 partition is not known\n"),
    ],
)
def test_lag_whose_age_is_not_known_may_be_too_old(live: LiveFixture, group: str, expected: str) -> None:
    timeless = tp(0, "timeless")
    live.produce(timeless, [Record(timestamp=-1, value=b"v")])
    live.cluster.commit(group, {timeless: Committed(0), **({tp(0): Committed(9)} if group == "half-known" else {})})
    done = groups(live, "lag", group, "--fail-behind", "100000d")
    live.cluster.delete_groups([group])
    assert (done.exit_code, done.stderr[-len(expected) :]) == (1, expected)


# remove-member


def test_the_plan_of_removing_a_member_changes_nothing(live: LiveFixture) -> None:
    before = document(live, "describe", "shop", "--members")["groups"]
    done = groups(live, "remove-member", "shop", "--instance-id", "worker-1")
    assert done.exit_code == 0
    assert "worker-1" in done.stdout
    assert done.stderr == "Nothing was changed: add --execute to do it.\n"
    assert document(live, "describe", "shop", "--members")["groups"] == before
    assert document(live, "remove-member", "shop", "--all-members")["executed"] is False


def test_a_removed_member_is_gone(live: LiveFixture) -> None:
    member_id = live.join("leaving", assignment=orders(2))
    done = groups(live, "remove-member", "leaving", "--member-id", member_id, "--execute")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].split()[-1] == "removed"
    assert document(live, "describe", "leaving")["groups"][0]["members"] == []
    again = groups(live, "remove-member", "leaving", "--all-members", "--execute")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "group leaving has no members" in again.stderr
    live.cluster.delete_groups(["leaving"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nobody", "--all-members"], "kcoord: group nobody: GROUP_ID_NOT_FOUND"),
        (["shop", "--member-id", "x", "--instance-id", "y", "--execute"], "group shop has no member x, no instance y"),
    ],
)
def test_members_that_are_not_there_cannot_be_removed(live: LiveFixture, arguments: list[str], expected: str) -> None:
    done = groups(live, "remove-member", *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert expected in done.stderr


# Bad input


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["describe"], "name one or more groups, or say --regex PATTERN or --all-groups"),
        (["lag", "shop", "--all-groups"], "--all-groups is all of them: name none besides"),
        (["describe", "shop", "--members", "--state"], "--offsets, --members and --state exclude each other"),
        (["remove-member", "shop"], "say which: --member-id, --instance-id or --all-members"),
        (["list", "--state", "Sleeping"], "is not one of"),
        (["list", "--sort", "age"], "is not one of"),
        (["lag", "shop", "--fail-above", "-1"], "is not in the range"),
        (["lag", "shop", "--fail-behind", "soon"], "soon"),
        (["describe", "shop", "-o", "xml"], "is not one of"),
        (["list", "surplus"], "unexpected extra argument"),
        (["list", "--regex", "[a"], "'[a' is no regular expression: unterminated character set"),
        (["describe", ""], "a group's name is not empty"),
    ],
)
def test_a_usage_error_says_what_is_wrong_and_exits_2(live: LiveFixture, arguments: list[str], expected: str) -> None:
    done = groups(live, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["describe", "--regex", "^stage"], "kcoord: no group matches '^stage': there are 5, see `kcoord groups list`"),
        (["describe", "\udcff"], "kcoord: "),
        (["remove-member", "\x1b[31m", "--all-members"], r"kcoord: group \x1b[31m: GROUP_ID_NOT_FOUND"),
    ],
)
def test_what_fails_is_one_line_without_a_traceback(live: LiveFixture, arguments: list[str], expected: str) -> None:
    command = [sys.executable, "-m", "kcoord.commands", "groups", *arguments, "-b", live.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(expected)
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip("\n").isprintable()


# Names and screens


@pytest.mark.parametrize("output", ["table", "wide", "csv", "json", "yaml"])
def test_what_a_terminal_would_act_on_is_escaped_in_every_output(live: LiveFixture, output: str) -> None:
    for arguments in (["list"], ["describe", ESCAPES], ["lag", ESCAPES]):
        done = groups(live, *arguments, "-o", output)
        assert done.exit_code == 0
        assert all(char.isprintable() for line in done.stdout.splitlines() for char in line)
        assert r"red\x1b[31m\n\u202e" in done.stdout or r"red\u001b[31m\n\u202e" in done.stdout
    assert groups(live, "list", "--names", "--regex", "^red").stdout == f"{ESCAPED}\n"


def cells(text: str) -> int:
    """Returns how many cells of a terminal the text takes; a wide character takes two."""
    return sum(2 if char in WIDE else 1 for char in text)


@pytest.mark.parametrize("columns", [80, 200])
def test_screens_fit_and_numbers_align_beside_wide_names(live: LiveFixture, columns: int) -> None:
    lines = groups(live, "list", columns=columns).stdout.splitlines()
    assert {cells(line) for line in lines} == {cells(lines[0])}, "the last column is of numbers, on the right"
    assert cells(lines[0]) <= columns
    output = "wide" if columns > 100 else "table"
    described = groups(live, "describe", "--all-groups", "-o", output, columns=columns).stdout
    tables = [line for line in described.splitlines() if " · " not in line]
    assert max(map(cells, tables)) <= columns


@pytest.mark.parametrize("limit", [("--fail-above", "1000"), ("--fail-behind", "1000d")])
def test_a_group_that_reads_and_has_committed_nothing_is_not_let_pass(
    live: LiveFixture, limit: tuple[str, str]
) -> None:
    silent = f"silent{limit[0]}"  # a second member of the same group would wait for the first to join again
    live.join(silent, assignment=orders(0, 1))
    done = groups(live, "lag", silent, *limit)
    assert done.exit_code == 1
    assert done.stderr == f"kcoord: group {silent}: its lag is not known: nothing is committed for 2 partitions\n"
    assert groups(live, "lag", silent).exit_code == 0
