"""`kcoord demo`: a guided tour on embedded clusters."""

import signal
import sys
from contextlib import closing
from types import FrameType
from typing import assert_never

import click

from kcoord.testing.tour.step import Event, Printed, Remark, Story, Typed
from kcoord.testing.tour.stories import tour


@click.command()
def demo() -> None:
    """The tour: three stories on embedded clusters, told by the command lines that a user would type.

    \b
    kcoord demo

    A client tester kills a member of a group, an operator finds a group that is behind and moves it, a migrator
    carries its offsets to another cluster. Each command line is printed before its output, to be copied. It takes some
    ten seconds, listens on free ports of this machine, and leaves nothing behind.
    """
    signal.signal(signal.SIGTERM, _exit_on_signal)
    number = 0
    with closing(tour()) as events:
        for event in events:
            number += isinstance(event, Story)
            _show(event, number)
    click.secho("\nNow try:", bold=True)
    for command, about in _next:
        click.echo(f"  {command:45} {about}")


_next = (
    ("kcoord serve --topic orders:3", "a cluster on 127.0.0.1:9092, for any Kafka client"),
    ("kcoord groups list -b HOST:PORT", "the groups of a cluster of your own"),
    ("kcoord --help", "all commands"),
)


def _show(event: Event, number: int) -> None:
    match event:
        case Story():
            click.secho(f"\n{number}. {event.title}", bold=True)
            click.echo(f"   {event.about}")
        case Typed():
            click.secho(f"\n$ {event.line}", bold=True)
        case Printed():
            click.echo(event.text.rstrip())
        case Remark():
            click.echo(f"\n   {event.text}")
        case _:
            assert_never(event)


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    """Ends the process by SystemExit, so that everything that was started is stopped first."""
    sys.exit(128 + number)
