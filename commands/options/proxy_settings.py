"""The option `--set NAME=VALUE` of `kcoord proxy`: settings of its listeners, and of the local coordinator."""

from typing import Final, NamedTuple

import click

from kcoord.settings import BadSetting, Settings

LISTENER_SETTINGS: Final = frozenset(
    {
        "connection.failed.authentication.delay.ms",
        "connections.max.idle.ms",
        "kcoord.login.timeout.ms",
        "max.connections",
        "max.connections.per.ip",
        "queued.max.request.bytes",
        "sasl.server.max.receive.size",
        "socket.request.max.bytes",
    }
)


class SplitSettings(NamedTuple):
    """The settings of `kcoord proxy --set`, by name: those of its listeners, and those of the local group
    coordinator."""

    of_listeners: dict[str, str]
    of_groups: dict[str, str]


def split_settings(pairs: tuple[str, ...]) -> SplitSettings:
    """Parses the NAME=VALUE pairs of `kcoord proxy --set`, and splits them into settings of listeners and of groups.
    Raises UsageError for unknown settings."""
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--set")
        properties[name.strip()] = value.strip()
    listener_settings(properties)
    return SplitSettings(
        {name: properties[name] for name in properties if name in LISTENER_SETTINGS},
        {name: properties[name] for name in properties if name not in LISTENER_SETTINGS},
    )


def listener_settings(properties: dict[str, str]) -> Settings:
    """Parses the settings of a proxy's listeners, such as max.connections, from texts by name. Raises UsageError for
    invalid values."""
    try:
        return Settings.from_properties(properties)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None
