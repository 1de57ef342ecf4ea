"""Callbacks for options that are durations."""

from datetime import timedelta
from typing import Final

import click

from kcoord.admin.durations import parse_duration

_SHORTEST: Final = timedelta(milliseconds=100)


def duration(_: click.Context, __: click.Parameter, text: str | None) -> timedelta | None:
    """A click callback that parses a duration option: 30s, 5m, 1h30m or PT1H."""
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def interval(ctx: click.Context, option: click.Parameter, text: str) -> timedelta:
    """A click callback that parses an option for the time between repetitions, at least 100 ms."""
    found = duration(ctx, option, text)
    if found is None or found < _SHORTEST:
        raise click.BadParameter("at least 100ms, so that the brokers have something else to do, too")
    return found
