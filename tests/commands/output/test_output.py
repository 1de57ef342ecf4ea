"""Tests of output formats: tables, JSON, YAML, CSV, and the positions of their options."""

import csv
import io
import json
import os
import pty
from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.opening import open_cluster
from tests.commands.terminal import in_terminal, piped

if TYPE_CHECKING:
    from kcoord.testing.embedded import EmbeddedCluster

output: Any = import_module("kcoord.commands.output.output")  # by name: mypy sees the folder, commands/
measure: Any = import_module("kcoord.commands.output.printable").width
Cell, Column, Table = output.Cell, output.Column, output.Table
output_options: Callable[[Callable[..., Any]], Callable[..., Any]] = output.output_options

DOCUMENT = {
    "groups": [{"group": "日本\x1b\x7f\U000e0041", "lag": 7, "speed": 1.5, "members": ()}],
    "at": "2024-05-01T10:00:00.005Z",
    "settings": MappingProxyType({"a": None, "b": True}),
}
TABLES = [
    Table(
        title="groups",
        columns=[Column("GROUP"), Column("CURRENT-OFFSET"), Column("HELD BY", wide=True), Column("LAG TIME")],
        rows=[
            ('a, "b"\n\x1b', 7, None, Cell("2 min", style="red", raw=120.5)),
            ("日本", None, True, Cell("none", style="green")),
        ],
    ),
    Table(title="more", columns=[Column("X")], rows=[(1,)]),
]


@click.group()
@output_options
def noun() -> None:
    """A noun."""


@noun.command()
@output_options
@click.pass_context
def verb(ctx: click.Context) -> None:
    output.show(ctx, "things-found", lambda: DOCUMENT, TABLES)
    output.echo_err("two\nlines")


def run(*arguments: str, **settings: Any) -> Result:
    done = CliRunner(**settings).invoke(noun, arguments)
    assert done.exit_code == 0, done.output
    return done


def test_tables_stand_one_below_the_other_and_talk_is_one_line_beside() -> None:
    done = run("verb")
    assert done.stdout.splitlines() == [
        "groups",
        "GROUP         CURRENT-OFFSET  LAG TIME",
        r'a, "b"\n\x1b               7  2 min',
        "日本                       -  none",
        "",
        "more",
        "X",
        "1",
    ]
    assert done.stderr == "two\\nlines\n"


def test_wide_shows_all_columns_and_headers_can_be_left_out() -> None:
    assert run("verb", "-o", "wide", "--no-headers").stdout.splitlines() == [
        r'a, "b"\n\x1b  7  -    2 min',
        "日本          -  yes  none",
        "1",
    ]


@pytest.mark.parametrize("arguments", [("verb", "-o", "json"), ("-o", "json", "verb"), ("-o", "csv", "verb", "-ojson")])
def test_options_may_stand_before_or_after_the_verb_and_the_last_one_counts(arguments: tuple[str, ...]) -> None:
    assert json.loads(run(*arguments).stdout)["kcoord"] == "things-found/v1"


def test_json_is_one_document_that_names_its_kind_and_is_safe_on_a_terminal() -> None:
    text = run("verb", "-o", "json").stdout
    assert json.loads(text) == {
        "kcoord": "things-found/v1",
        "groups": [{"group": "日本\x1b\x7f\U000e0041", "lag": 7, "speed": 1.5, "members": []}],
        "at": "2024-05-01T10:00:00.005Z",
        "settings": {"a": None, "b": True},
    }
    assert text.startswith('{\n  "kcoord": "things-found/v1",\n  "groups": [\n    {\n')
    assert r'"日本\u001b\u007f\udb40\udc41"' in text
    assert all(line.isprintable() for line in text.split("\n"))


def test_json_is_ascii_where_the_terminal_knows_no_more() -> None:
    text = run("verb", "-o", "json", charset="latin-1").stdout
    assert text.isascii()
    assert json.loads(text)["groups"][0]["group"].startswith("日本")


def test_yaml_is_the_same_document() -> None:
    assert yaml.safe_load(run("verb", "-o", "yaml").stdout) == json.loads(run("verb", "-o", "json").stdout)


def test_csv_has_every_column_of_the_first_table_and_values_as_they_are() -> None:
    text = run("verb", "-o", "csv").stdout_bytes.decode()
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["group", "current_offset", "held_by", "lag_time"],
        [r'a, "b"\n\x1b', "7", "", "120.5"],
        ["日本", "", "true", "none"],
    ]
    assert text.startswith('group,current_offset,held_by,lag_time\r\n"a, ""b""\\n\\x1b",7,,120.5\r\n')
    assert run("verb", "-o", "csv", "--no-headers").stdout_bytes.decode() == text.partition("\r\n")[2]


@pytest.mark.parametrize("shape", ["table", "csv"])
def test_no_table_is_nothing(shape: str) -> None:
    @click.command()
    @output_options
    @click.pass_context
    def empty(ctx: click.Context) -> None:
        output.show(ctx, "nothing-found", {}, [])

    done = CliRunner().invoke(empty, ["-o", shape])
    assert (done.exit_code, done.stdout) == (0, "")


def test_an_unknown_format_is_a_usage_error() -> None:
    done = CliRunner().invoke(noun, ["verb", "-o", "xml"])
    assert done.exit_code == 2
    assert "'xml' is not one of 'table', 'wide', 'json', 'yaml', 'csv'" in done.stderr


# A real command, on a terminal and in a pipe

NAMES = [
    "checkout-of-the-european-webshop.payments-and-invoices-v2-blue",
    "日本語の注文を受けるグループ",
    "evil\x1b[2J\u202e",
]


@pytest.fixture(scope="module")
def cluster(kcoord_cluster_factory: "Callable[..., EmbeddedCluster]") -> "EmbeddedCluster":
    cluster = kcoord_cluster_factory(topics={"orders": 3})
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        for name in NAMES:
            assert not live.commit(name, {TopicPartition("orders", 0): Committed(0)}).refused
    return cluster


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_of_any_width_is_filled_and_not_overrun(cluster: "EmbeddedCluster", columns: int) -> None:
    exit_code, shown = in_terminal("groups", "list", "--no-color", "-b", cluster.bootstrap, columns=columns)
    assert exit_code == 0
    assert all(measure(line) <= columns for line in shown)
    assert not any(line != line.rstrip() or not line.isprintable() for line in shown)
    is_folded = len(shown) > 1 + len(NAMES)
    assert is_folded == (columns == 80)


def test_in_a_pipe_nothing_is_folded_or_colored(cluster: "EmbeddedCluster") -> None:
    done = piped("groups", "list", "-b", cluster.bootstrap)
    assert len(done.stdout.splitlines()) == 1 + len(NAMES)
    assert any(line.startswith(NAMES[0] + " ") for line in done.stdout.splitlines())
    assert r"evil\x1b[2J\u202e" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_pipe_is_folded_if_columns_says_how_wide_it_is(cluster: "EmbeddedCluster") -> None:
    done = piped("groups", "list", "-b", cluster.bootstrap, environment={"COLUMNS": "60"})
    assert all(measure(line) <= 60 for line in done.stdout.splitlines())


def test_colors_are_for_terminals(cluster: "EmbeddedCluster") -> None:
    _, shown = in_terminal("groups", "list", "-b", cluster.bootstrap, columns=120)
    assert any("\x1b[" in line for line in shown)


def test_colors_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, screen = pty.openpty()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(keyboard, "rb"), os.fdopen(screen, "w") as terminal:
        assert not output.is_colored(output.Output()), "pytest's own stdout is no terminal"
        monkeypatch.setattr("sys.stdout", terminal)
        assert output.is_colored(output.Output())
        assert not output.is_colored(output.Output(color=False))
        monkeypatch.setenv("TERM", "dumb")
        assert not output.is_colored(output.Output())
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "1")
        assert not output.is_colored(output.Output())
