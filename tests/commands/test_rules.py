"""Tests of `kcoord rules`."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kcoord.security.rules import Kind
from kcoord.security.rules_file import possible_operations, word_of
from tests.support.certificates import authority, signed

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/

DOCUMENTED = Path(__file__).parents[2] / "docs" / "rules.md"
RULES = """\
super User:admin
allow User:alice read  group or*      # hers
deny  User:alice read  group orders   from 10.0.0.1
allow User:alice write topic orders
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.txt"
    path.write_text(RULES)
    return path


def check(rules: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["rules", "check", "--rules", str(rules), *arguments], prog_name="kcoord")


def test_a_sound_file_is_said_to_be_so(rules: Path) -> None:
    done = check(rules)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"{rules} is sound: rules 3, super users 1\n"


def test_a_broken_file_is_one_line(rules: Path) -> None:
    rules.write_text(f"{RULES}allow User:alice raed topic t\n")
    kcoord = [sys.executable, "-m", "kcoord.commands", "rules", "check", "--rules", str(rules)]
    done = subprocess.run(kcoord, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"kcoord: {rules}, line 5: 'raed' is no operation; there are all, read,")
    assert done.stderr.count("\n") == 1


def test_what_is_allowed_is_told_with_the_line_that_says_so(rules: Path) -> None:
    done = check(rules, "--principal", "User:alice", "--operation", "read", "--group", "orders")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].split(maxsplit=3) == ["read", "yes", "2", RULES.splitlines()[1]]


def test_what_is_denied_ends_with_1(rules: Path) -> None:
    asked = ("--principal", "User:alice", "--operation", "READ", "--group", "orders")
    done = check(rules, *asked, "--host", "10.0.0.1")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[1].split(maxsplit=3) == ["read", "no", "3", RULES.splitlines()[2]]
    unsaid = check(rules, "--principal", "User:bob", "--operation", "describe", "--topic", "orders", "-o", "json")
    assert unsaid.exit_code == 1
    assert json.loads(unsaid.stdout) == {
        "kcoord": "rules/v1",
        "principal": "User:bob",
        "host": "127.0.0.1",
        "resource": "topic",
        "name": "orders",
        "operations": [{"operation": "describe", "allowed": False, "line": None, "rule": "no rule allows it"}],
    }


def test_without_an_operation_all_are_told(rules: Path) -> None:
    done = check(rules, "--principal", "User:alice", "--topic", "orders", "-o", "json")
    assert done.exit_code == 0
    allowed = {each["operation"]: each["allowed"] for each in json.loads(done.stdout)["operations"]}
    assert [operation for operation, is_allowed in allowed.items() if is_allowed] == ["write", "describe"]
    assert len(allowed) == 8
    admin = check(rules, "--principal", "User:admin", "--cluster", "-o", "json")
    assert {each["line"] for each in json.loads(admin.stdout)["operations"]} == {1}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--operation", "read", "--group", "g"], "whose rights?"),
        (["--principal", "User:a"], "of what?"),
        (["--principal", "User:a", "--group", "g", "--topic", "t"], "of what?"),
        (["--principal", "alice", "--group", "g"], "'alice' is not User:NAME"),
        (["--principal", "User:a", "--group", "g", "--operation", "raed"], "'raed' is no operation"),
        (["--principal", "User:a", "--group", "g", "--operation", "write"], "write means nothing of a group"),
        (["--principal", "User:a", "--group", "g", "--host", "here"], "'here' is no address"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(rules: Path, arguments: list[str], what: str) -> None:
    done = check(rules, *arguments)
    assert done.exit_code == 2
    assert what in done.stderr


@pytest.mark.parametrize("kind", list(Kind))
def test_the_table_in_the_documentation_has_what_can_be_asked(kind: Kind) -> None:
    lines = [line for line in DOCUMENTED.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    heads = next(row for row in rows if row[0] == "resource" and len(row) > 2)
    cells = next(dict(zip(heads, row, strict=True)) for row in rows if row[0] == kind.name.lower())
    others = {part.partition(":")[0].strip() for part in cells.pop("others").split(";") if part}
    documented = {head for head, cell in cells.items() if cell and head != "resource"} | others
    assert documented == {word_of(operation) for operation in possible_operations(kind)}


@pytest.mark.parametrize(
    ("options", "is_warned"), [((), True), (("--tls-cert",), True), (("--tls-cert", "--tls-client-ca"), False)]
)
def test_a_server_with_rules_where_nobody_has_a_name_says_that_everybody_is_anonymous(
    rules: Path, tmp_path: Path, options: tuple[str, ...], is_warned: bool
) -> None:
    rules.write_text("nonsense")
    pem = signed(authority("own"), "server").write_pem(tmp_path / "server.pem")
    command = ["serve", "--listen", "127.0.0.1:0", "--rules", str(rules)]
    command += [word for option in options for word in (option, str(pem))]
    done = CliRunner().invoke(cli, command, prog_name="kcoord")
    assert ("everybody is User:ANONYMOUS to the rules" in done.stderr) is is_warned
    assert done.exit_code == 1
    assert "line 1: a rule begins with allow, deny or super, not with 'nonsense'" in str(done.exception)
