"""Options of `kcoord proxy` that restrict what clients may do."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

Command = Callable[..., Any]


def guard_options(command: Command) -> Command:
    """A decorator that adds the proxy's options that restrict clients (--read-only, --deny, --allow and so on), and
    passes the command GuardRules as `guards`."""

    @wraps(command)
    def guarded(
        *args: Any,
        read_only: bool,
        deny: tuple[str, ...],
        allow: tuple[str, ...],
        max_group_size: tuple[str, ...],
        max_rebalances: tuple[str, ...],
        check_subscriptions: bool,
        **others: Any,
    ) -> Any:
        from kcoord.proxy.guards.guard_rules import GuardRules, parse_rate, parse_rule, parse_size

        guards = GuardRules(
            is_read_only=read_only,
            denied=_parsed(parse_rule, deny, "--deny"),
            allowed=_parsed(parse_rule, allow, "--allow"),
            sizes=_parsed(parse_size, max_group_size, "--max-group-size"),
            rates=_parsed(parse_rate, max_rebalances, "--max-rebalances"),
            checks_subscriptions=check_subscriptions,
        )
        return command(*args, guards=guards, **others)

    for option in reversed(_OPTIONS):
        option(guarded)
    return guarded


def _parsed(parse: Callable[[str], Any], texts: tuple[str, ...], option: str) -> tuple[Any, ...]:
    from kcoord.proxy.guards.guard_rules import BadRule

    try:
        return tuple(parse(text) for text in texts)
    except BadRule as error:
        raise click.BadParameter(str(error), param_hint=option) from None


_OPTIONS: Final = (
    click.option(
        "--read-only", is_flag=True, help="Refuse whatever changes anything upstream, but for what --allow names."
    ),
    click.option(
        "--deny",
        multiple=True,
        metavar="API[:REGEX]",
        help="Refuse an API, or a family such as groups or admin; with REGEX, of groups whose whole id matches. "
        "May be repeated.",
    ),
    click.option(
        "--allow",
        multiple=True,
        metavar="API[:REGEX]",
        help="Of these APIs let pass only what matches one of these. --deny wins. May be repeated.",
    ),
    click.option(
        "--max-group-size",
        multiple=True,
        metavar="N[:REGEX]",
        help="Refuse members above N, in all groups or those that match. May be repeated.",
    ),
    click.option(
        "--max-rebalances",
        multiple=True,
        metavar="N/TIME[:REGEX]",
        help="Let new members wait when a group rebalanced N times in TIME, such as 10/5m. May be repeated.",
    ),
    click.option(
        "--check-subscriptions/--no-check-subscriptions",
        default=True,
        show_default=True,
        help="Refuse members whose subscription their group's leader could not read.",
    ),
)
