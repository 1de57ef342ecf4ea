"""docker-compose.yml as the tests read it, and kcoord's own command lines in it."""

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
CONFIG: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = CONFIG["services"]
LOOPBACK = "127.0.0.1"
_cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


class Published(NamedTuple):
    """A port of a container, on the machine that runs it."""

    host: str
    port: int
    container_port: int


def published(service: str) -> list[Published]:
    parts = [port.split(":") for port in SERVICES[service].get("ports", ())]
    return [Published(host, int(port), int(container_port)) for host, port, container_port in parts]


def all_published_ports() -> set[int]:
    return {each.port for service in SERVICES for each in published(service)}


def words_of(service: str) -> list[str]:
    """Returns the entrypoint and command that the file sets for a service."""
    return [*SERVICES[service].get("entrypoint", ()), *SERVICES[service].get("command", ())]


class Mount(NamedTuple):
    source: str
    target: str


def mounts(service: str) -> Iterator[Mount]:
    for volume in SERVICES[service].get("volumes", ()):
        if isinstance(volume, str):
            yield Mount(*volume.split(":")[:2])
        else:
            yield Mount(volume["source"], volume["target"])


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Parses a kcoord command line and returns its parameters; nothing is run. Raises click's errors."""
    command, ctx, rest = _cli, click.Context(_cli, info_name="kcoord"), list(words)
    while True:
        assert rest, f"{words} names no command"
        name = rest.pop(0)
        command = command.get_command(ctx, name)
        assert command, f"{words}: there is no {name!r}"
        if not isinstance(command, click.Group):
            parameters: dict[str, Any] = command.make_context(name, rest, parent=ctx).params
            return parameters
        ctx = click.Context(command, parent=ctx, info_name=name)


def web_port(words: Sequence[str]) -> int:
    """Returns the port of the URL that a healthcheck requests."""
    (port,) = {int(port) for word in words for port in re.findall(r"http://127\.0\.0\.1:(\d+)/", word)}
    return port
