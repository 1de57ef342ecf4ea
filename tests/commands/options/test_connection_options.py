"""Tests of connection options before and after nouns and verbs, with commands made for the test and with real ones."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

options: Any = import_module("kcoord.commands.options.connection_options")
connection_options: Callable[[Callable[..., None]], Callable[..., None]] = options.connection_options


@click.group()
@connection_options
def root() -> None:
    """The outermost group, in place of `kcoord`."""


@root.group()
@connection_options
def noun() -> None:
    """A noun, in place of `kcoord groups`."""


@noun.command()
@connection_options
@click.pass_context
def verb(ctx: click.Context) -> None:
    found = options.connection(ctx)
    asked = options.command_line_options(ctx)
    click.echo(json.dumps([list(found.bootstrap), asked.pairs, found.request_timeout, found.client_id]))


@pytest.fixture(autouse=True)
def _no_contexts_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KCOORD_BOOTSTRAP_SERVER", "KCOORD_COMMAND_CONFIG", "KCOORD_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KCOORD_CONFIG_DIR", str(tmp_path))


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(root, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-b", "h:1", "noun", "verb"],
        ["noun", "-b", "h:1", "verb"],
        ["noun", "verb", "-b", "h:1"],
        ["noun", "verb", "--bootstrap-server=h:1"],
    ],
)
def test_an_option_may_stand_before_or_after_the_verb(arguments: list[str]) -> None:
    assert run(*arguments)[0] == ["h:1"]


def test_the_option_nearest_to_the_end_wins() -> None:
    assert run("-b", "a:1", "noun", "-b", "b:1", "verb", "-b", "c:1")[0] == ["c:1"]
    assert run("-b", "a:1", "noun", "-b", "b:1", "verb")[0] == ["b:1"]
    assert run("-b", "a:1", "--request-timeout", "5", "noun", "verb", "--request-timeout", "0.5")[2] == 0.5


def test_settings_add_up_and_the_last_of_a_key_wins() -> None:
    found = run(
        "-b", "h:1", "-X", "client.id=a", "noun", "-X", "client.id=b", "verb", "-X", "x=", "-X", "client.id=c=d"
    )
    assert found[1] == [["client.id", "a"], ["client.id", "b"], ["x", ""], ["client.id", "c=d"]]
    assert found[3] == "c=d"


def test_one_run_leaves_nothing_to_the_next() -> None:
    assert run("-b", "h:1", "-X", "client.id=a", "noun", "verb")[1] == [["client.id", "a"]]
    assert run("-b", "h:1", "noun", "verb")[1] == []


def test_nothing_said_is_a_usage_error_with_the_three_ways() -> None:
    done = CliRunner().invoke(root, ["noun", "verb"])
    assert done.exit_code == 2
    assert "which cluster? Say -b HOST:PORT, --command-config FILE with bootstrap.servers in it" in done.output


@pytest.mark.parametrize("pair", ["sasl.password:hush", "sasl.password", "=hush"])
def test_a_setting_without_an_equals_sign_is_a_usage_error_that_hides_what_may_be_secret(pair: str) -> None:
    done = CliRunner().invoke(root, ["noun", "verb", "-b", "h:1", "-X", pair])
    assert done.exit_code == 2
    assert "must be followed by =VALUE" in done.output
    assert "hush" not in done.output


def test_warnings_go_to_stderr() -> None:
    done = CliRunner().invoke(root, ["noun", "verb", "-b", "h:1", "-X", "sasl.username=a"])
    assert "sasl.username has no effect" in done.stderr
    assert "no effect" not in done.stdout


def test_debug_names_the_keys_of_a_file_that_mean_nothing_here(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=h:1\nacks=all\n")
    for debug, expected in ((True, f"kcoord: of no meaning here: acks ({path}:2)\n"), (False, "")):
        with root.make_context("kcoord", ["noun", "verb", "--command-config", str(path)]) as ctx:
            ctx.meta[options.DEBUG] = debug
            with CliRunner().isolation() as (_, err, _):
                root.invoke(ctx)
                assert err.getvalue().decode() == expected


def test_help_is_shown_without_loading_what_connects() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kcoord.commands", "context", "add", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not loaded & {
        "ssl",
        "tomllib",
        "cryptography",
        "subprocess",
        "kcoord.admin.connecting.connection",
        "confluent_kafka",
    }


# Secrets on the command line


def warning(*arguments: str) -> str:
    done = CliRunner().invoke(root, [*arguments, "-b", "h:1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return str(done.stderr)


@pytest.mark.parametrize(
    "pair",
    [
        "sasl.password=abc",
        "ssl.key.password=abc",
        "ssl.truststore.password=abc",
        "sasl.oauthbearer.client.secret=abc",
        "sasl.password=text:abc",
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" '
        'password="abc";',
    ],
)
def test_a_secret_on_the_command_line_is_warned_of_with_the_safer_ways_and_not_repeated(pair: str) -> None:
    line = warning("noun", "verb", "-X", pair).partition("\n")[0]
    assert line.startswith(
        f"kcoord: others on this machine can see {pair.partition('=')[0]} of -X (ps): say -X KEY=env:"
    )
    for way in ("file:PATH", "command:", "context add", "--command-config", "KCOORD_COMMAND_CONFIG"):
        assert way in line
    assert "abc" not in line


def test_many_secrets_at_several_places_are_warned_of_once() -> None:
    line = warning("-X", "sasl.password=a", "noun", "-X", "ssl.key.password=b", "verb", "-X", "ssl.keystore.password=c")
    assert line.count("others on this machine") == 1


@pytest.mark.parametrize(
    "pair",
    [
        "sasl.password=env:KCOORD_TEST_SECRET",
        "sasl.username=abc",
        "client.id=abc",
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" '
        'password="env:KCOORD_TEST_SECRET";',
    ],
)
def test_what_refers_to_a_secret_or_is_none_is_not_warned_of(pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_TEST_SECRET", "abc")
    assert "others on this machine" not in warning("noun", "verb", "-X", pair)


def test_a_command_that_is_proposed_has_the_options_again_but_for_secrets() -> None:
    @click.command()
    @connection_options
    @click.pass_context
    def proposing(ctx: click.Context) -> None:
        click.echo(f"kcoord{options.format_cluster_options(ctx)}")

    arguments = ["-b", "h:1", "--command-config", "my file", "-X", "client.id=a b", "-X", "sasl.password=geheim"]
    done = CliRunner().invoke(proposing, [*arguments, "-X", "ssl.key.password=env:KEY"], catch_exceptions=False)

    assert done.stdout == (
        "kcoord -b h:1 --command-config 'my file' -X 'client.id=a b' -X 'sasl.password=…' -X ssl.key.password=env:KEY\n"
    )
