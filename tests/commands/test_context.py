"""Tests of `kcoord context`."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

main: Any = import_module("kcoord.commands.main")


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KCOORD_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("KCOORD_CONTEXT", raising=False)
    return tmp_path / "config" / "contexts.toml"


class RunResult:
    """The exit code and the output of a run."""

    def __init__(self, result: Result) -> None:
        self.exit_code, self.out, self.err = result.exit_code, result.stdout, result.stderr


def run(*arguments: str) -> RunResult:
    return RunResult(CliRunner().invoke(_main, list(arguments), prog_name="kcoord"))


class _Main:
    """An adapter that lets CliRunner call main() instead of a click command, so that errors are one line."""

    name = "kcoord"

    def main(self, args: list[str], prog_name: str, **_: Any) -> None:
        main.main(args)


_main: Any = _Main()


def shown() -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(run("context", "list", "-o", "json").out)["contexts"]}


def test_a_context_is_added_used_shown_and_removed(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prod.properties").write_text("")
    monkeypatch.chdir(tmp_path)
    added = run(
        "context", "add", "prod", "-b", "k:1", "--command-config", "prod.properties", "-X", "sasl.password=env:PW"
    )
    assert (added.exit_code, added.out, added.err) == (0, "", "context prod: k:1\n")
    assert run("context", "add", "test", "-b", "t:1").exit_code == 0
    assert shown()["prod"] == {
        "name": "prod",
        "current": True,
        "bootstrap": "k:1",
        "command_config": str(tmp_path / "prod.properties"),
        "settings": {"sasl.password": "env:PW"},
    }
    assert run("context", "use", "test").err == "context test is used from now on\n"
    assert [each["current"] for each in shown().values()] == [False, True]
    assert "sasl.password env:PW" in " ".join(run("context", "show", "prod").out.split())
    assert run("context", "remove", "test").exit_code == 0
    assert list(shown()) == ["prod"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_list_stars_the_one_in_use() -> None:
    run("context", "add", "b", "-b", "t:1")
    run("context", "add", "a", "-b", "k:1")
    lines = run("context", "list").out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "BOOTSTRAP", "COMMAND", "CONFIG"],
        ["a", "k:1"],
        ["*", "b", "t:1"],
    ]


def test_a_secret_itself_is_refused_and_nothing_is_written(file: Path) -> None:
    refused = run("context", "add", "prod", "-b", "k:1", "-X", "sasl.password=hush")
    assert refused.exit_code == 1
    assert refused.err.startswith("kcoord: sasl.password is a secret, which a context holds only by reference")
    assert "hush" not in refused.err
    assert not file.exists()


def test_a_name_is_taken_over_only_when_asked_to() -> None:
    run("context", "add", "prod", "-b", "k:1")
    refused = run("context", "add", "prod", "-b", "k:2")
    assert refused.exit_code == 2
    assert "--replace takes its place" in refused.err
    assert run("context", "add", "prod", "-b", "k:2", "--replace").exit_code == 0
    assert shown()["prod"]["bootstrap"] == "k:2"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "expected"),
    [
        (["add", "x"], 1, "a context needs -b, or a --command-config that has bootstrap.servers"),
        (["add", "x", "-b", "nowhere"], 1, "-b: 'nowhere' is not HOST:PORT"),
        (["add", "x", "--command-config", "/no/such"], 2, "there is no file /no/such"),
        (["add", "a b", "-b", "k:1"], 1, "'a b' cannot be the name of a context"),
        (["use", "x"], 1, "there is no context 'x' (there are none)"),
        (["show", "x"], 1, "there is no context 'x'"),
        (["remove", "x"], 1, "there is no context 'x'"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(arguments: list[str], exit_code: int, expected: str) -> None:
    done = run("context", *arguments)
    assert done.exit_code == exit_code
    assert expected in done.err
    assert len(done.err.splitlines()) == 1


def test_a_file_that_does_not_say_where_needs_b(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    refused = run("context", "add", "prod", "--command-config", str(config))
    assert (refused.exit_code, "has no bootstrap.servers: say -b too" in refused.err) == (2, True)
    config.write_text("bootstrap.servers: k:1\n")
    assert run("context", "add", "prod", "--command-config", str(config)).exit_code == 0


def test_without_contexts_the_list_says_how_to_make_one() -> None:
    done = run("context", "list", "-o", "json")
    assert json.loads(done.out)["contexts"] == []
    assert done.err == "there are no contexts yet: kcoord context add NAME -b HOST:PORT makes one\n"


def test_a_malformed_file_is_told_with_its_line(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('[contexts.a]\nbootstrap = "h:1\n')
    file.chmod(0o600)
    done = run("context", "list")
    assert done.exit_code == 1
    assert done.err.startswith(f"kcoord: {file}:2: ")


def test_a_file_that_others_may_read_is_warned_about_and_a_secret_in_it_is_not_shown(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('[contexts.a]\nbootstrap = "h:1"\n[contexts.a.settings]\n"sasl.password" = "hush"\n')
    file.chmod(0o644)
    done = run("context", "show", "a")
    assert "can be read by others (mode 644)" in done.err
    assert "hush" not in done.out + done.err
    assert "***" in done.out


def test_the_shell_completes_names_of_contexts() -> None:
    for name in ("prod-1", "prod-2", "test"):
        run("context", "add", name, "-b", "h:1")

    def completed(arguments: list[str], incomplete: str) -> list[str]:
        found = ShellComplete(main.cli, {}, "kcoord", "_KCOORD_COMPLETE").get_completions(arguments, incomplete)
        return [item.value for item in found]

    assert completed(["context", "use"], "pr") == ["prod-1", "prod-2"]
    assert completed(["context", "remove"], "") == ["prod-1", "prod-2", "test"]
    assert completed(["context", "show"], "x") == []
    assert completed(["groups", "list", "--context"], "pr") == ["prod-1", "prod-2"]
