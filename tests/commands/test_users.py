"""Tests of `kcoord users`, and of the options of a listener."""

import json
import os
import pty
import socket
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kcoord.client.secret import Secret
from kcoord.security.users import Users, editing_users, read_users
from tests.commands.terminal import KCOORD, PATIENCE, quiet_environment
from tests.support.certificates import LOOPBACK, authority, signed

main: Any = import_module("kcoord.commands.main").main

RunResult = tuple[int, str, str]


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "users.json"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> RunResult:
        with pytest.raises(SystemExit) as ended:
            main([str(each) for each in arguments])
        captured = capfd.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def password_file(folder: Path, password: str) -> Path:
    path = folder / "password.txt"
    path.write_text(f"{password}\nand a second line\n")
    return path


def test_a_user_is_added_changed_listed_and_removed(run: Any, users: Path, tmp_path: Path) -> None:
    add = ("users", "add", "alice", "--users", users, "--iterations", "4096", "--password-file")
    assert run(*add, password_file(tmp_path, "first")) == (0, "", f"added alice in {users}\n")
    assert read_users(users).is_password("alice", Secret("first"))
    assert run(*add, password_file(tmp_path, "second")) == (0, "", f"changed alice in {users}\n")
    assert read_users(users).is_password("alice", Secret("second"))
    code, out, _ = run("users", "list", "--users", users, "-o", "json")
    assert code == 0
    assert json.loads(out) == {
        "kcoord": "users/v1",
        "users": [{"name": "alice", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}],
    }
    assert run("users", "remove", "alice", "--users", users) == (0, "", f"removed alice from {users}\n")
    assert run("users", "list", "--users", users, "--no-headers")[1] == ""


def test_users_are_removed_all_or_none(run: Any, users: Path) -> None:
    with editing_users(users) as current:
        current[0] = Users.nobody().with_user("alice", Secret("secret"), iterations=4096)
    assert run("users", "remove", "alice", "bob", "--users", users) == (1, "", "kcoord: there is no user 'bob'\n")
    assert set(read_users(users).by_name) == {"alice"}


def test_without_a_file_there_is_nobody_to_remove_and_none_is_made(run: Any, users: Path) -> None:
    code, _, err = run("users", "remove", "alice", "--users", users)
    assert (code, len(err.splitlines())) == (1, 1)
    assert not users.exists()


def in_terminal(typed: bytes, *arguments: str) -> tuple[int, str]:
    """Runs a command in a terminal while this text is typed. Returns its exit code, and all that is shown."""
    keyboard, screen = pty.openpty()
    with subprocess.Popen(
        [*KCOORD, *arguments],
        stdin=screen,
        stdout=screen,
        stderr=screen,
        env=quiet_environment(),
        start_new_session=True,
    ) as process:
        os.close(screen)
        shown = b""
        for line in typed.splitlines(keepends=True):
            prompt = b""
            while b":" not in prompt:
                prompt += os.read(keyboard, 4096)
            os.write(keyboard, line)
            shown += prompt
        while True:
            try:
                part = os.read(keyboard, 4096)
            except OSError:
                break
            shown += part
        code = process.wait(PATIENCE)
    os.close(keyboard)
    return code, shown.decode()


def test_a_password_is_asked_for_twice_and_not_shown(users: Path) -> None:
    code, shown = in_terminal(b"typed-secret\ntyped-secret\n", "users", "add", "alice", "--users", str(users))
    assert code == 0, shown
    assert "Password of alice" in shown
    assert "typed-secret" not in shown
    assert read_users(users).is_password("alice", Secret("typed-secret"))


def test_where_there_is_no_terminal_a_password_comes_from_stdin_if_that_is_said(users: Path) -> None:
    command = [*KCOORD, "users", "add", "alice", "--users", str(users)]
    done = subprocess.run(command, input=b"piped\n", capture_output=True, timeout=PATIENCE, env=quiet_environment())
    assert done.returncode == 2
    assert b"--password-file" in done.stderr
    assert not users.exists()
    command += ["--password-file", "-"]
    done = subprocess.run(command, input=b"piped\n", capture_output=True, timeout=PATIENCE, env=quiet_environment())
    assert done.returncode == 0, done.stderr
    assert read_users(users).is_password("alice", Secret("piped"))


def test_a_password_that_is_no_text_is_refused_and_nothing_of_it_told(run: Any, users: Path, tmp_path: Path) -> None:
    path = tmp_path / "password.txt"
    path.write_bytes(b"s\xffcret\n")
    expected = "the password in it is not UTF-8 text"
    code, _, err = run("users", "add", "alice", "--users", users, "--password-file", path)
    assert (code, err) == (2, f"kcoord: Invalid value for --password-file: {expected}; see kcoord users add --help\n")
    assert not users.exists()


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return signed(authority("own"), "server").write_pem(tmp_path / "server.pem")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--sasl", "PLAIN"], "--sasl needs --users FILE: who may log in; kcoord users add makes it"),
        (["--users", "USERS"], "--users needs --sasl: by which mechanisms, such as SCRAM-SHA-256,SCRAM-SHA-512"),
        (["--sasl", "GSSAPI", "--users", "USERS"], "'GSSAPI' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (["--tls-key", "PEM"], "--tls-key needs --tls-cert or --tls-keystore"),
        (["--tls-client-ca", "PEM"], "--tls-client-ca needs --tls-cert or --tls-keystore"),
        (["--tls-cert", "PEM", "--tls-keystore", "PEM"], "--tls-keystore holds certificate and key"),
        (["--tls-cert", "PEM", "--tls-client-auth", "required"], "--tls-client-auth needs --tls-client-ca"),
        (
            ["--listen", "0.0.0.0:0", "--advertise", "me", "--sasl", "PLAIN", "--users", "USERS"],
            "--sasl PLAIN without TLS would let anybody on the way to 0.0.0.0 read passwords",
        ),
    ],
)
def test_options_that_do_not_go_together_are_told_in_one_line(
    run: Any, users: Path, pem: Path, options: list[str], expected: str
) -> None:
    with editing_users(users) as current:
        current[0] = Users.nobody()
    names = {"USERS": str(users), "PEM": str(pem)}
    code, out, err = run("serve", "--listen", "127.0.0.1:0", *(names.get(each, each) for each in options))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert expected in err


def test_a_certificate_or_a_file_of_users_that_cannot_be_used_is_told_in_one_line(
    run: Any, users: Path, pem: Path, tmp_path: Path
) -> None:
    users.write_text('{"not": "users"}')
    broken = tmp_path / "broken.pem"
    broken.write_text(pem.read_text().replace("A", "B"))
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    locked = signed(authority("own"), "server").write_pkcs12(tmp_path / "locked.p12", "hush")
    for options in (
        ["--sasl", "SCRAM-SHA-256", "--users", users],
        ["--tls-cert", broken],
        ["--tls-cert", empty],
        ["--tls-keystore", locked],
    ):
        code, out, err = run("serve", "--listen", "127.0.0.1:0", *options)
        assert (code, out, len(err.splitlines())) == (1, "", 1), err


Hosts = tuple[str, ...]


@pytest.mark.parametrize(
    ("hosts", "days", "options", "expected"),
    [
        (LOOPBACK, 30, [], []),
        (LOOPBACK, -1, [], ["expired on "]),
        (LOOPBACK, 3, [], ["expires on "]),
        (LOOPBACK, 30, ["--advertise", "elsewhere.example"], ["is not for elsewhere.example, which clients are told:"]),
        (("elsewhere.example",), 30, ["--advertise", "elsewhere.example"], []),
        (("elsewhere.example",), 30, [], ["is not for 127.0.0.1, which clients are told:"]),
        (LOOPBACK, -1, ["--advertise", "[::1]"], ["expired on ", "is not for ::1, which clients are told:"]),
    ],
)
def test_a_server_says_that_clients_will_not_take_its_certificate(
    run: Any, tmp_path: Path, taken: str, hosts: Hosts, days: int, options: list[str], expected: list[str]
) -> None:
    pem = signed(authority("own"), "server", hosts=hosts, days=days).write_pem(tmp_path / "server.pem")
    _, _, err = run("serve", "--listen", taken, "--tls-cert", pem, *options)
    assert_warned(err, pem, expected)


@pytest.mark.parametrize(
    ("hosts", "options", "expected"),
    [
        (("*.x.example",), [], []),
        (("b1.x.example", "b2.x.example"), [], []),
        (LOOPBACK, [], ["is not for *.x.example or b<N>.x.example, which clients are told:"]),
        (("*.x.example",), ["--advertise", "x.example"], ["is not for x.example, which clients are told:"]),
    ],
)
def test_a_proxy_says_that_its_certificate_is_not_for_the_names_of_brokers(
    run: Any, tmp_path: Path, taken: str, hosts: Hosts, options: list[str], expected: list[str]
) -> None:
    store = signed(authority("own"), "server", hosts=hosts).write_pkcs12(tmp_path / "server.p12", "hush")
    tls = ["--tls-keystore", store, "--tls-key-password-file", password_file(tmp_path, "hush")]
    _, _, err = run("proxy", "--upstream", taken, "--listen", taken, *tls, "--sni", "X.example.", *options)
    assert_warned(err, store, expected)


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that is in use, so that a server that binds it ends at once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def assert_warned(err: str, path: Path, expected: list[str]) -> None:
    """Asserts that the certificate in this file is warned about in these words. The last line of stderr is that the
    address is in use."""
    *warnings, end = err.splitlines()
    assert "in use" in end
    assert len(warnings) == len(expected), err
    for warning, beginning in zip(warnings, expected, strict=True):
        assert warning.startswith(f"kcoord: the certificate in {path} {beginning}")
