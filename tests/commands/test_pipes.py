"""Tests of failing commands: closed pipes, Ctrl-C, errors in one line."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.opening import open_cluster
from tests.commands.terminal import KCOORD, PATIENCE, piped, quiet_environment

if TYPE_CHECKING:
    from kcoord.testing.embedded import EmbeddedCluster

SEGMENTS = Path(__file__).parent.parent.parent / "fixtures" / "segments"
failing: Any = import_module("kcoord.commands.errors")  # by name: mypy sees the folder, commands/


@pytest.fixture(scope="module")
def cluster(kcoord_cluster_factory: "Callable[..., EmbeddedCluster]") -> "EmbeddedCluster":
    cluster = kcoord_cluster_factory(topics={"orders": 1})
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        assert not live.commit("日本", {TopicPartition("orders", 0): Committed(0)}).refused
    return cluster


# Pipes


def _without_reader(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command whose reader is gone before it writes, as in `kcoord … | true`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [*KCOORD, *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env=quiet_environment(),
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(writing)


@pytest.mark.parametrize("shape", ["table", "json"])
def test_what_no_one_reads_ends_by_sigpipe_and_quietly(cluster: "EmbeddedCluster", shape: str) -> None:
    done = _without_reader("groups", "list", "-b", cluster.bootstrap, "-o", shape)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("arguments", [("--help",), ("log", "dump", str(SEGMENTS / "plain"))])
def test_help_and_dumps_that_no_one_reads_end_so_too(arguments: tuple[str, ...]) -> None:
    done = _without_reader(*arguments)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_a_shell_sees_of_a_broken_pipe_what_it_sees_of_its_own_tools() -> None:
    """The segment is printed repeatedly, until the output is larger than a pipe's buffer."""
    segments = " ".join([f"'{SEGMENTS / 'plain'}'"] * 60)
    script = f"kcoord log dump -o jsonl {segments} | head -1 | wc -l; echo ${{PIPESTATUS[0]}}; yes | head -1 >/dev/null"
    script += "; echo ${PIPESTATUS[0]}"
    path = f"{Path(KCOORD[0]).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=quiet_environment(PATH=path), check=False
    )
    assert (done.stdout.split(), done.stderr) == (["1", "141", "141"], "")


def test_a_connection_that_broke_is_not_taken_for_a_pipe_without_reader() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        assert not failing.is_reader_gone(stream)
        os.close(reading)
        assert failing.is_reader_gone(stream)


def test_names_beyond_what_the_terminal_knows_are_escaped(cluster: "EmbeddedCluster") -> None:
    done = piped("groups", "list", "-b", cluster.bootstrap, environment={"PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0, done.stderr
    assert r"\u65e5\u672c" in done.stdout


# Ctrl-C


def test_ctrl_c_is_quiet_and_exits_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.settimeout(PATIENCE)
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with subprocess.Popen(
            [*KCOORD, "groups", "list", "-b", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=quiet_environment(),
        ) as process:
            connection, _ = deaf.accept()  # the request is sent, and its response never comes
            with connection:
                connection.settimeout(PATIENCE)
                assert connection.recv(4)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "")


# Errors


def _refusing_port() -> socket.socket:
    """Yields a port without a listener, reserved while its socket is open."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken


def test_an_error_is_one_line_and_a_traceback_only_with_debug_wherever_that_stands() -> None:
    with _refusing_port() as taken:
        arguments = ["groups", "list", "-b", f"127.0.0.1:{taken.getsockname()[1]}"]
        short = piped(*arguments)
        long = [piped("--debug", *arguments), piped(*arguments, "--debug")]
    assert short.returncode == 1
    assert (short.stdout, len(short.stderr.splitlines())) == ("", 1)
    assert short.stderr.startswith("kcoord: ")
    for done in long:
        assert done.returncode == 1
        assert done.stderr.startswith("Traceback (most recent call last):\n")
        assert done.stderr.endswith(short.stderr)


@pytest.mark.parametrize(
    "way", [[], ["-X", "socket.keepalive.enable=true"]], ids=["our connections", "through librdkafka"]
)
def test_a_failed_login_shows_no_secret_not_even_with_debug(cluster: "EmbeddedCluster", way: list[str]) -> None:
    settings = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanisms=PLAIN", "sasl.username=alice"]
    pairs = [part for each in (*settings, "sasl.password=hush-hush") for part in ("-X", each)]
    done = piped("groups", "list", "-b", cluster.bootstrap, *pairs, *way)
    debugged = piped("groups", "list", "-b", cluster.bootstrap, *pairs, *way, "--debug")
    assert (done.returncode, debugged.returncode) == (1, 1)
    warning, error = done.stderr.splitlines()
    assert done.stdout == ""
    assert "others on this machine can see sasl.password" in warning
    assert error.startswith("kcoord: ")
    assert cluster.bootstrap in done.stderr
    assert "Traceback" in debugged.stderr
    assert "hush" not in done.stderr + debugged.stdout + debugged.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "read_on"),
    [
        (["fly"], "No such command 'fly'", "kcoord --help"),
        (["groups", "lst"], "No such command 'lst', did you mean list?", "kcoord groups --help"),
        (["log", "dump"], "Missing argument 'FILE|FOLDER…'", "kcoord log dump --help"),
        (["groups", "list", "--fast"], "No such option", "kcoord groups list --help"),
        (["-o", "json", "serve"], "what stands before 'serve' means nothing to it", "kcoord --help"),
        (
            ["groups", "list", "-o", "\x1b[2J"],
            r"Invalid value for '-o' / '--output': '\x1b[2J'",
            "kcoord groups list --help",
        ),
    ],
)
def test_a_usage_error_is_one_line_that_says_where_to_read_on(arguments: list[str], message: str, read_on: str) -> None:
    done = piped(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"kcoord: {message}")
    assert done.stderr.endswith(f"; see {read_on}\n")


def test_kcoord_by_itself_shows_its_help() -> None:
    done = piped()
    assert done.returncode == 2
    assert "Usage: kcoord" in done.stderr
    assert "Commands:" in done.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("first\n  second \x1b[31m"), r"first second \x1b[31m"),
        (FileNotFoundError(2, "No such file or directory", "a\tb"), r"a\tb: No such file or directory"),
        (ConnectionResetError(), "ConnectionResetError"),
        (click.ClickException("as click says it"), "as click says it"),
        (KeyError("lag"), "an error in kcoord itself: KeyError: 'lag'; --debug shows where"),
    ],
)
def test_every_error_has_one_line_that_is_safe_on_a_terminal(error: Exception, line: str) -> None:
    assert failing.line_of(error) == line


@pytest.mark.parametrize(
    "message",
    [
        "Got unexpected extra argument (sasl.password=hush-hush)",
        'sasl.jaas.config=PlainLoginModule required username=me password="hush; hush";',
        "bad value 'ssl.key.password=hush'",
        "sasl.oauthbearer.client.secret=hush, and more",
        "sasl.password=ab,hush",
        "(sasl.password=a'hush)",
        "sasl.password=two hush words",
        "ssl.key.pem=-----BEGIN PRIVATE KEY-----\nhush\nhush\n-----END PRIVATE KEY-----\n",
        "ssl.keystore.key=first\nhush",
    ],
)
def test_what_looks_like_a_secret_is_masked_in_every_error(message: str) -> None:
    line = failing.line_of(click.UsageError(message))
    assert "hush" not in line
    assert "=***" in line


def test_a_traceback_is_safe_on_a_terminal_and_shows_no_values() -> None:
    def fail(password: str) -> None:
        raise ValueError("cannot log in to \x1b[31m")

    with pytest.raises(ValueError, match="cannot log in") as raised:
        fail("hush-" + "hush")
    text = failing.traceback_of(raised.value)
    assert text.startswith("Traceback (most recent call last):\n")
    assert r"ValueError: cannot log in to \x1b[31m" in text
    assert "hush-hush" not in text


def test_a_private_key_is_masked_whole_in_a_traceback() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nhush\nhush\n-----END RSA PRIVATE KEY-----"
    text = failing.traceback_of(ValueError(f"cannot use {key}\nthe end"))
    assert text.endswith("ValueError: cannot use ***\nthe end")


def test_what_to_do_is_said_after_a_secret_too() -> None:
    ctx = click.Context(click.Command("kcoord"), info_name="kcoord")
    line = failing.line_of(click.UsageError("Got unexpected extra argument (sasl.password=hush)", ctx))
    assert line == "Got unexpected extra argument (sasl.password=***; see kcoord --help"
