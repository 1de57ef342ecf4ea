"""Tests that every command has help with examples that work, and is in the docs."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def walk(command: click.Command, ctx: click.Context, path: tuple[str, ...]) -> Iterator[tuple[str, click.Context]]:
    yield " ".join(path), ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from walk(found, click.Context(found, parent=ctx, info_name=name), (*path, name))


COMMANDS = dict(walk(cli, click.Context(cli, info_name="kcoord", terminal_width=1000), ("kcoord",)))
VERBS = [path for path, ctx in COMMANDS.items() if not isinstance(ctx.command, click.Group)]


def help_of(path: str) -> str:
    ctx = COMMANDS[path]
    return ctx.command.get_help(ctx)


def examples(text: str) -> list[str]:
    """Returns the example commands of a text, without the remarks that follow them."""
    found = re.findall(r"^ {2,}(?:KCOORD_\w+=\S+ )?(kcoord [a-z].*)$", text, re.MULTILINE)
    return [re.split(r" {2,}| [|>#] | && | \\$", line)[0] for line in found]


@pytest.mark.parametrize(
    ("noun", "verbs"),
    [
        ("groups", "list describe lag watch doctor delete remove-member"),
        ("offsets", "export import reset delete undo diff apply"),
        ("context", "add use list"),
        ("log", "dump"),
        ("pipeline", "decode rebalances lag report"),
        ("assign", "replay"),
    ],
)
def test_operators_find_the_verbs_that_they_were_promised(noun: str, verbs: str) -> None:
    assert {f"kcoord {noun} {verb}" for verb in verbs.split()} <= set(VERBS)


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != "kcoord"])
def test_every_command_has_help_with_an_example(path: str) -> None:
    text = help_of(path)
    summary = COMMANDS[path].command.get_short_help_str(limit=200)
    assert summary.endswith("."), f"{path}: {summary!r} is no sentence"
    assert re.search(rf"^ .*\b{re.escape(path)}\b", text, re.MULTILINE), f"{path} --help shows no example"


@pytest.mark.parametrize("noun", ["groups", "offsets", "serve", "proxy", "log", "pipeline", "demo"])
def test_the_first_page_shows_an_example_of_what_one_comes_for(noun: str) -> None:
    assert any(example.startswith(f"kcoord {noun}") for example in examples(help_of("kcoord")))


@pytest.mark.parametrize("path", VERBS)
def test_every_command_is_in_the_page_of_commands(path: str) -> None:
    assert re.search(rf"{re.escape(path)}(?![\w-])", PAGE), f"docs/commands.md does not name {path}"


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != "kcoord"])
def test_the_group_above_says_of_a_command_what_it_says_itself_or_less(path: str) -> None:
    """Short help is shown without loading the command, so it is written in two files."""
    above, _, name = path.rpartition(" ")
    (line,) = [line for line in help_of(above).splitlines() if re.match(rf"  {name}  ", line)]
    assert line.strip().endswith(".")


@pytest.mark.parametrize(
    "source",
    ["assignors.md", "commands.md", "offsets.md", "doctor.md", "pipeline.md", "rules.md", "security.md", *COMMANDS],
)
def test_every_example_names_commands_and_options_that_there_are(source: str) -> None:
    text = (DOCS / source).read_text(encoding="utf-8") if source.endswith(".md") else help_of(source)
    for example in examples(text):
        _check(example)


def _check(example: str) -> None:
    words = shlex.split(example)[1:]
    path = "kcoord"
    while words and f"{path} {words[0]}" in COMMANDS:
        path = f"{path} {words.pop(0)}"
    assert path in VERBS or not words or "…" in example, f"{example}: there is no such command"
    known = {name for each in _option_names(COMMANDS[path]) for name in each}
    unknown = [word for word in words if re.match(r"--?[A-Za-z]", word) and word.partition("=")[0] not in known]
    assert not unknown, f"{example}: {path} has no {unknown}"


def _option_names(ctx: click.Context) -> Iterator[list[str]]:
    for parameter in ctx.command.get_params(ctx):
        yield [*parameter.opts, *parameter.secondary_opts]
