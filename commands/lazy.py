"""Click groups that import a verb's module only when the verb is called, so that each command starts quickly."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verb(NamedTuple):
    """An entry of a click group's table of commands: the module of this package and the name in it that define the
    command, and its short help."""

    module: str
    name: str
    help: str


class LazyGroup(click.Group):
    """A click group that imports its commands when they are needed, and lists their short help without an import."""

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._verbs = dict(verbs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the group's commands, sorted."""
        return sorted(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the group's command of this name; None if there is none."""
        verb = self._verbs.get(cmd_name)
        if verb is None:
            return None
        command: click.Command = getattr(importlib.import_module(f".{verb.module}", __package__), verb.name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves the command that the arguments begin with. For an unknown name the error suggests similar ones:
        click itself would search only among the loaded commands."""
        name = args[0]
        if name not in self._verbs and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = " or ".join(get_close_matches(name, self._verbs))
            raise click.UsageError(f"No such command {name!r}" + (f", did you mean {near}?" if near else ""), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the section of --help that lists the commands with their short help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._verbs[name].help) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Completes the names of the group's commands for the shell."""
        from click.shell_completion import CompletionItem

        found = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        names = [CompletionItem(name, help=self._verbs[name].help) for name in found]
        return names + click.Command.shell_complete(self, ctx, incomplete)
