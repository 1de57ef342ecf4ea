"""Options that many commands share, allowed before the noun, before the verb and after it."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

_META: Final = "kcoord.shared."
Command = TypeVar("Command", bound=Callable[..., Any])


def shared_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """A decorator that gives commands and groups the same options, made by `shared_option`.

    A value is stored for the whole run, not passed to the function: `shared_values(ctx)` returns it. An option given
    twice has its last value, since click makes contexts from the outside in; repeatable options add up.

        limits = shared_options(shared_option("--limit", type=int), shared_option("--only", multiple=True))

        @click.group()
        @limits
        def groups(): ...

        @groups.command("list")
        @limits
        @click.pass_context
        def list_(ctx): shared_values(ctx).get("limit")         # kcoord groups --limit 3 list, or … list --limit 3
    """

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def shared_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """A click.option for `shared_options`, whose value is stored instead of passed to the command."""
    return click.option(*names, expose_value=False, callback=store_value, **settings)


def shared_values(ctx: click.Context) -> dict[str, Any]:
    """Returns the values of all shared options that were given so far, by their parameter names."""
    return {key.removeprefix(_META): value for key, value in ctx.meta.items() if key.startswith(_META)}


def store_value(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A click callback that stores the value of a shared option for the whole run; repeatable options add up."""
    key = f"{_META}{parameter.name}"
    if value is None or value == ():
        return value
    ctx.meta[key] = (*ctx.meta.get(key, ()), *value) if parameter.multiple else value
    return value
