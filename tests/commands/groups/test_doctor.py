"""Tests of `kcoord groups doctor` on an embedded cluster."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.opening import open_cluster
from kcoord.testing.embedded import EmbeddedCluster

from ..terminal import in_terminal, piped

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/
command: Any = import_module("kcoord.commands.groups.doctor")
text: Any = import_module("kcoord.commands.groups.doctor_text")
printable: Any = import_module("kcoord.commands.output.printable")

ASTRAY = "astray\x1b[2J\r\nFAKE"  # any text can be the name of a group
FINDING = Finding(
    severity=Severity.WARNING,
    code=Code.IDLE_MEMBERS,
    group="g",
    title="one of two members has nothing to do, and this title is long enough for two lines of a narrow terminal",
    evidence=("idle: " + "x" * 150, "名前が広い " * 20),
    advice="Stop it, or set partition.assignment.strategy to something else and restart all members one by one.",
)


@pytest.fixture(scope="module")
def bootstrap(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> str:
    cluster = kcoord_cluster_factory(topics={"orders": 2})
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        live.commit(ASTRAY, {TopicPartition("orders", 0): Committed(1000)})
        live.commit("fine", {TopicPartition("orders", 0): Committed(0)})
    return cluster.bootstrap


@pytest.fixture
def doctor(bootstrap: str) -> Callable[..., Result]:
    """Runs the doctor in this process, which is faster, for tests that do not depend on the kind of stdout."""
    return lambda *arguments: CliRunner().invoke(cli, ["groups", "doctor", *arguments, "-b", bootstrap])


def test_findings_are_told_by_group_with_evidence_and_advice(bootstrap: str) -> None:
    done = piped("groups", "doctor", "--all-groups", "-b", bootstrap)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        r"astray\x1b[2J\r\nFAKE",
        "  ERROR   beyond the end of the log: 1 committed offset [offset-beyond-log-end]",
        "      · orders-0: committed 1,000, but the log ends at 0",
        done.stdout.splitlines()[3],
        "",
        "2 groups, 1 look: 1 error",
    ]
    assert done.stdout.splitlines()[3].startswith("      → The topic was deleted and made again")
    assert "--for 60s" in done.stderr


def test_a_group_that_nothing_is_wrong_with_is_exit_0(doctor: Callable[..., Result]) -> None:
    done = doctor("fine")
    assert (done.exit_code, done.stdout) == (0, "1 group, 1 look: nothing to complain of\n")


@pytest.mark.parametrize(
    ("fail_on", "group", "exit_code"),
    [
        ("error", ASTRAY, 1),
        ("warning", ASTRAY, 1),
        ("never", ASTRAY, 0),
        ("notice", "fine", 0),
        ("error", "unknown", 1),
        ("never", "unknown", 0),
    ],
)
def test_the_exit_code_is_by_severity(doctor: Callable[..., Result], fail_on: str, group: str, exit_code: int) -> None:
    assert doctor(group, "--fail-on", fail_on).exit_code == exit_code


@pytest.mark.parametrize(
    ("severity", "fail_on", "fails"),
    [
        (Severity.WARNING, "error", True),
        (Severity.WARNING, "never", False),
        (Severity.NOTICE, "error", False),
        (Severity.NOTICE, "notice", True),
    ],
)
def test_only_what_could_not_be_examined_fails_whatever_fail_on_says(
    severity: Severity, fail_on: str, fails: bool
) -> None:
    """A notice with this code is about a group that was deleted meanwhile, or was refused only for a time."""
    finding = replace(FINDING, severity=severity, code=Code.NOT_EXAMINED)
    assert command._fails([finding], fail_on) is fails


def test_a_group_that_does_not_exist_is_named_and_the_others_are_examined(doctor: Callable[..., Result]) -> None:
    done = doctor("unknown", "fine")
    assert "could not be examined: group unknown: GROUP_ID_NOT_FOUND" in done.stdout
    assert "1 group, 1 look: 1 warning" in done.stdout


def test_json_has_everything_for_monitoring(doctor: Callable[..., Result]) -> None:
    done = doctor("--regex", "astray", "-o", "json", "--for", "500ms", "--every", "200ms")
    visit = json.loads(done.stdout)
    assert visit["kcoord"] == "groups-doctor/v1"
    assert visit["looks"] >= 2
    assert visit["seconds"] >= 0.4
    assert visit["groups"] == [ASTRAY]
    assert visit["counts"] == {"error": 1, "warning": 0, "notice": 0}
    (finding,) = visit["findings"]
    assert finding["severity"] == "error"
    assert finding["facts"]["partitions"] == [
        {"topic": "orders", "partition": 0, "committed": 1000, "start": 0, "end": 0}
    ]
    assert "\x1b" not in done.stdout


def test_csv_has_a_row_for_each_finding(doctor: Callable[..., Result]) -> None:
    done = doctor("--all-groups", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (row["severity"], row["code"]) == ("error", "offset-beyond-log-end")
    assert row["evidence"] == "orders-0: committed 1,000, but the log ends at 0"


def test_the_config_of_consumers_is_examined(doctor: Callable[..., Result], tmp_path: Path) -> None:
    config = tmp_path / "consumer.properties"
    config.write_text(
        "session.timeout.ms=10000\nheartbeat.interval.ms = 5000\nauto.offset.reset: earliest\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required password="hush";\n'
    )
    done = doctor("fine", "--consumer-config", str(config), "-o", "json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["group"], finding["code"]) == (None, "session-too-short")
    assert "hush" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["doctor"], "name one or more groups"),
        (["doctor", "g", "--for", "60"], "'60' is not a span of time: write 30s"),
        (["doctor", "g", "--every", "0s"], "at least 100ms"),
        (["doctor", "g", "--fail-on", "panic"], "'panic' is not one of"),
        (["doctor", "g", "--consumer-config", "missing.properties"], "does not exist"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_2(arguments: list[str], expected: str) -> None:
    done = piped("groups", *arguments, "-b", "127.0.0.1:1")
    assert done.returncode == 2
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_cluster_that_cannot_be_reached_is_one_line_and_exit_1() -> None:
    done = piped("groups", "doctor", "g", "-b", "127.0.0.1:1")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_findings_fit_the_terminal_and_no_word_is_lost(columns: int) -> None:
    lines = list(text.findings_lines([FINDING], columns=columns, is_colored=False))
    assert max(map(printable.width, lines)) <= columns
    expected = "".join("".join(lines).split())
    assert all("".join(part.split()) in expected for part in (FINDING.title, FINDING.advice, *FINDING.evidence))


def test_a_terminal_gets_colors_and_a_pipe_does_not(bootstrap: str) -> None:
    exit_code, lines = in_terminal("groups", "doctor", "--all-groups", "-b", bootstrap, columns=80)
    assert exit_code == 1
    assert any("\x1b[1;31m  ERROR" in line for line in lines)
    _, plain = in_terminal(
        "groups", "doctor", "--all-groups", "-b", bootstrap, columns=80, environment={"NO_COLOR": "1"}
    )
    assert not any("\x1b" in line for line in plain)
    assert max(map(printable.width, plain)) <= 80


def _notices(count: int) -> list[Finding]:
    notice = replace(FINDING, severity=Severity.NOTICE, code=Code.NO_MEMBERS, evidence=("it is empty",))
    return [replace(notice, group=f"g-{each:04}", title=f"nobody consumes: {each}") for each in range(count)]


def test_equal_findings_of_many_groups_are_folded_below_the_worse() -> None:
    warned = replace(FINDING, group="z", evidence=("of z",))
    lines = list(text.findings_lines([*_notices(2000), warned], columns=None, is_colored=False, folded_above=5))
    assert lines[0] == "z"
    folded = lines[lines.index("(2,000 groups)") :]
    assert folded == [
        "(2,000 groups)",
        "  NOTICE  nobody consumes [no-members]",
        *(f"      · g-{each:04}: {each}" for each in range(5)),
        "      · and 1,995 more: --unfolded shows each, -o json has all of them",
        f"      → {FINDING.advice}",
        "",
    ]


def test_folded_findings_whose_titles_share_no_heading_are_counted() -> None:
    several = [replace(each, title=f"{each.group} is alone: 7") for each in _notices(6)]
    lines = list(text.findings_lines(several, columns=None, is_colored=False, folded_above=5))
    assert lines[1] == "  NOTICE  6 findings of the same kind [no-members]"
    assert lines[2] == "      · g-0000: g-0000 is alone: 7"


def test_few_equal_findings_and_all_with_unfolded_are_told_one_by_one() -> None:
    few = list(text.findings_lines(_notices(5), columns=None, is_colored=False, folded_above=5))
    every = list(text.findings_lines(_notices(50), columns=None, is_colored=False, folded_above=None))
    assert [sum(line.startswith("g-") for line in lines) for lines in (few, every)] == [5, 50]


def test_many_groups_are_folded_for_people_and_complete_in_json(
    kcoord_cluster_factory: Callable[..., EmbeddedCluster],
) -> None:
    cluster = kcoord_cluster_factory(topics={"orders": 1})
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        for number in range(20):
            live.commit(f"astray-{number:02}", {TopicPartition("orders", 0): Committed(1000)})
    arguments = ["groups", "doctor", "--all-groups", "-b", cluster.bootstrap]
    done = CliRunner().invoke(cli, arguments)
    assert done.stdout.splitlines()[:2] == [
        "(20 groups)",
        "  ERROR   beyond the end of the log: 1 committed offset [offset-beyond-log-end]",
    ]
    assert len(done.stdout.splitlines()) < 14
    assert CliRunner().invoke(cli, [*arguments, "--unfolded"]).stdout.count("  ERROR ") == 20
    assert len(json.loads(CliRunner().invoke(cli, [*arguments, "-o", "json"]).stdout)["findings"]) == 20


def test_severity_hides_what_is_less_bad_and_not_from_the_exit_code(doctor: Callable[..., Result]) -> None:
    done = doctor("unknown", "fine", "--severity", "error")
    assert (done.exit_code, done.stdout) == (1, "1 group, 1 look: 1 warning; not shown by --severity: 1\n")
    finding = json.loads(doctor("unknown", "fine", "--severity", "error", "-o", "json").stdout)
    assert (finding["counts"]["warning"], finding["findings"]) == (1, [])


@pytest.mark.parametrize("limit", [("--fail-above", "1000"), ("--fail-behind", "1000d")])
def test_lag_of_a_group_beyond_the_end_of_its_log_fails(bootstrap: str, limit: tuple[str, str]) -> None:
    done = CliRunner().invoke(cli, ["groups", "lag", "--regex", "astray", *limit, "-b", bootstrap])
    assert done.exit_code == 1
    assert "committed beyond the end of the log: orders 0; see kcoord groups doctor" in done.stderr
    assert CliRunner().invoke(cli, ["groups", "lag", "--regex", "astray", "-b", bootstrap]).exit_code == 0
