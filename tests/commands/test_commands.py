"""Tests of the command line as a whole."""

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.settings import Settings, known_settings

_readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/
_verbs = cli.list_commands(None)


def _run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(arguments), prog_name="kcoord")
    return done.exit_code, done.output


def test_every_command_has_a_file_help_with_an_example_and_a_place_in_the_readme() -> None:
    for verb in _verbs:
        import_module(f"kcoord.commands.{verb}")
        exit_code, output = _run(verb, "--help")
        assert exit_code == 0
        assert output.count(f"kcoord {verb}") >= 2, f"{verb} --help shows no example"
        assert f"kcoord {verb}" in _readme, f"the README does not name kcoord {verb}"


def test_the_short_help_of_every_command_is_shown_without_loading_it() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kcoord.commands", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(verb in done.stdout for verb in _verbs)
    assert "rich" not in done.stderr
    assert "asyncio" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serve", "--set", "num.partition=3"], "did you mean num.partitions?"),
        (["serve", "--set", "num.partitions"], "not NAME=VALUE"),
        (["serve", "--set", "num.partitions=many"], "a whole number is expected"),
        (["serve", "--set", "num.partitions=0"], "at least 1"),
        (["serve", "--set", "auto.create.topics.enable=perhaps"], "true or false"),
        (["serve", "--set", "log.message.timestamp.type=Never"], "CreateTime, LogAppendTime"),
        (["serve", "--listen", "nowhere"], "not HOST:PORT"),
        (["serve", "--topic", "t:x"], "not NAME or NAME:PARTITIONS"),
        (["serve", "--topic", "t:0"], "at least 1 partition"),
        (["serve", "--listen", "127.0.0.1:99999"], "port 99999 is above 65535"),
        (["serve", "--listen", "PLAINTEXT://127.0.0.1:9092"], "not HOST:PORT"),
        (["serve", "--listen", "0.0.0.0:0"], "--advertise HOST"),
        (["serve", "--advertise", "host:9092"], "'host:9092' is not a host"),
        (["serve", "--advertise", "0.0.0.0"], "clients cannot connect"),
        (["serve", "--config", sys.executable], "is not a text file"),
        (["serve", "--brokers", "0"], "is not in the range"),
        (["serve", "--fsync"], "--fsync is about the files of --data-dir DIR"),
        (["serve", "--config", "missing.properties"], "does not exist"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_a_usage_error_says_what_is_wrong_and_exits_2(arguments: list[str], expected: str) -> None:
    exit_code, output = _run(*arguments)
    assert exit_code == 2
    assert expected in output


def _serve(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kcoord.commands", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--listen", "127.0.0.1:0", "--topic", "a b"], "cannot make the topic 'a b'"),
        (["--listen", "127.0.0.1:0", "--topic", "t", "--topic", "t"], "Duplicate topic name"),
        (["--listen", "127.0.0.1:0", "--data-dir", sys.executable], f"{sys.executable} is not a folder"),
        (["--listen", "203.0.113.1:9092"], "cannot listen on 203.0.113.1:9092"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_exit_1(arguments: list[str], expected: str) -> None:
    with _serve(*arguments) as process:
        out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert out == ""
    assert expected in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_where_it_is_and_stops_when_it_is_told(how: signal.Signals, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("# of a broker\nnum.partitions = 4\nprocess.roles=broker,controller\n")
    arguments = ["--listen", "127.0.0.1:0", "--brokers", "2", "--topic", "t", "--config", str(config), "-o", "json"]
    with _serve(*arguments) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["kcoord"] == "serve/v1"
        assert ready["pid"] == process.pid
        host, port = ready["bootstrap"].split(",")[1].split(":")
        with Client(host, int(port)) as client:
            metadata = client.ask(ApiKey.METADATA, 12, topics=None)
        assert (len(metadata.brokers), len(metadata.topics[0].partitions)) == (2, 4)
        assert metadata.cluster_id == ready["cluster_id"]
        os.kill(process.pid, how)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "left aside from server.properties: process.roles" in err
    assert "Traceback" not in err


def test_settings_are_listed_with_their_defaults() -> None:
    exit_code, output = _run("serve", "--settings")
    assert exit_code == 0
    assert len(output.splitlines()) == len(known_settings())
    assert f"{Settings().socket_request_max_bytes}" in output
