"""Secrets by reference: environment variables, files and commands."""

import sys
from pathlib import Path

import pytest

from kcoord.admin.connecting.secrets import BadReference, is_reference, is_secret_key, resolve, resolve_without_commands


def refusal(value: str) -> str:
    with pytest.raises(BadReference) as caught:
        resolve("sasl.password", value, {})
    return str(caught.value)


def test_a_plain_value_is_the_secret_itself() -> None:
    assert resolve("sasl.password", "hush", {}).reveal() == "hush"
    assert resolve("sasl.password", "C:\\hush:env:", {}).reveal() == "C:\\hush:env:"


def test_a_secret_that_looks_like_a_reference_is_marked_as_text() -> None:
    assert resolve("sasl.password", "text:env:NAME", {}).reveal() == "env:NAME"


def test_an_environment_variable_is_taken_as_it_is() -> None:
    assert resolve("sasl.password", "env:NAME", {"NAME": "hush\n"}).reveal() == "hush\n"
    assert refusal("env:NAME") == "sasl.password: the environment variable NAME is not set"


def test_a_file_is_taken_without_its_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("two\nlines\n")
    assert resolve("sasl.password", f"file:{path}", {}).reveal() == "two\nlines"
    missing = tmp_path / "missing"
    assert refusal(f"file:{missing}") == f"sasl.password: cannot read {missing}: No such file or directory"
    path.write_bytes(b"\xff")
    assert refusal(f"file:{path}") == f"sasl.password: {path} is not a text file"


def test_a_command_is_split_into_words_and_given_to_no_shell(tmp_path: Path) -> None:
    program = tmp_path / "show it.py"
    program.write_text("import sys; print('|'.join(sys.argv[1:]))")
    found = resolve("sasl.password", f"command:{sys.executable} '{program}' 'a b' $HOME ';' c", {})
    assert found.reveal() == "a b|$HOME|;|c"


def test_a_command_that_fails_is_told_with_its_own_words(tmp_path: Path) -> None:
    program = tmp_path / "fail.py"
    program.write_text("import sys; print('hush'); sys.exit('locked\\x1b\\nout')")
    command = f"{sys.executable} {program}"
    message = refusal(f"command:{command}")
    assert message == f"sasl.password: the command {command!r} failed with exit code 1: locked\\x1b\\nout"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("command:", "sasl.password: command: needs a command"),
        ("command:/no/such/program x", "cannot be run: No such file or directory"),
        ("command:pass 'show", "cannot be split into words"),
    ],
)
def test_a_command_that_cannot_be_run_is_told(value: str, message: str) -> None:
    assert message in refusal(value)


def test_a_command_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcoord.admin.connecting.secrets.COMMAND_TIMEOUT", 0.05)
    assert "did not end within 0.05 s" in refusal(f"command:{sys.executable} -c 'import time; time.sleep(600)'")


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.truststore.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.pem",
        "ssl.keystore.key",
        "sasl.jaas.config",
    ],
)
def test_these_keys_are_secret(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize("key", ["sasl.username", "ssl.ca.location", "bootstrap.servers", "ssl.keystore.location"])
def test_and_these_are_not(key: str) -> None:
    assert not is_secret_key(key)


def test_text_is_no_reference() -> None:
    assert is_reference("env:A")
    assert not is_reference("text:env:A")
    assert not is_reference("hush")


def test_what_stands_in_a_file_runs_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(BadReference, match="command: runs a program, which no file may ask for") as caught:
        resolve_without_commands("sasl.password", f"command:touch {trace}", {})
    assert not trace.exists()
    assert str(trace) not in str(caught.value)
    assert resolve_without_commands("sasl.password", "env:NAME", {"NAME": "hush"}).reveal() == "hush"
    assert resolve_without_commands("sasl.password", "text:command:x", {}).reveal() == "command:x"
