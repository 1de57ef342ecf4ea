"""The command `kcoord`: its verbs are loaded when they are called, so that each starts as quickly as it can."""

import importlib
import sys
from typing import Any, Final

import click

_verbs: Final = {
    "demo": ("demo", "The tour: what works, shown on an embedded cluster."),
    "log": ("log", "What is in the files of a log: batches, records, groups and their offsets."),
    "serve": ("serve", "A local cluster that Kafka's clients use as if it were Kafka."),
}


class _Lazy(click.Group):
    """A group whose commands are imported when they are needed; their short help is known without."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _verbs:
            return None
        module = importlib.import_module(f".{_verbs[cmd_name][0]}", __package__)
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _verbs[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="kcoord", message="kcoord %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks of errors.")  # main() looks for it
def cli() -> None:
    """An embedded cluster for Kafka's clients. The group coordinator comes next.

    \b
    kcoord demo                                    the tour
    kcoord serve --topic orders:3                  a cluster on 127.0.0.1:9092
    kcoord serve --listen 127.0.0.1:0 --brokers 3  three brokers on free ports
    kcoord log dump data/__consumer_offsets-7      what is in the files of a broker
    """


def main(args: list[str] | None = None) -> Any:
    """Exit 0 done, 1 failed, 2 usage; one line says what failed."""
    wants_debug = "--debug" in (sys.argv[1:] if args is None else args)
    try:
        cli(args=args, prog_name="kcoord", standalone_mode=True)
    except (RuntimeError, OSError, ValueError) as error:
        if wants_debug:
            raise
        click.echo(f"kcoord: {error}", err=True)
        sys.exit(1)
