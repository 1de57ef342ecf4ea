"""`kcoord demo`: the tour."""

import click
from rich.console import Console
from rich.table import Table

from kcoord.testing.step import Step
from kcoord.testing.tour import tour


@click.command()
def demo() -> None:
    """The tour: what works so far, on an embedded cluster, with a real client from another process.

    \b
    kcoord demo

    It starts a cluster on free ports of this machine, shows it, and stops it again. It takes some seconds.
    """
    console = Console(soft_wrap=True)
    for number, step in enumerate(tour(), start=1):
        _show(console, number, step)
    console.print("\nNow try:", style="bold")
    for command, about in _next:
        console.print(f"  {command:45}", about, highlight=False)


_next = (
    ("kcoord serve --topic orders:3", "a cluster on 127.0.0.1:9092, for any Kafka client"),
    ("kcoord serve --brokers 3 --listen 127.0.0.1:0", "three brokers on free ports"),
    ("kcoord serve --settings", "what can be set"),
)


def _show(console: Console, number: int, step: Step) -> None:
    console.print(f"\n[bold]{number}. {step.title}[/bold]")
    for line in step.said:
        console.print(f"   {line}", highlight=False, markup=False)
    if step.rows:
        headings, *rows = step.rows
        table = Table(*headings, box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for row in rows:
            table.add_row(*row)
        console.print(table)
