"""Options of `kcoord proxy` for who coordinates groups, and where a local coordinator stores them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcoord.admin.name_patterns import compile_name_pattern

from .proxy_settings import split_settings

if TYPE_CHECKING:
    from kcoord.admin.connecting.connection import Connection
    from kcoord.proxy.local.coordination import LocalSetup
    from kcoord.proxy.local.kafka_topic import KafkaJournal

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """The options of `kcoord proxy` for groups that the proxy coordinates itself instead of the upstream cluster, and
    where their log is stored."""

    properties: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None
    fsync: bool = False
    journal: str = "own"
    journal_topic: str | None = None
    journal_partitions: int | None = None
    journal_replication: int | None = None
    seed: re.Pattern[str] | None = None


def _pattern(_: click.Context, __: click.Parameter, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else compile_name_pattern(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None


def local_options(command: Command) -> Command:
    """A decorator that adds --coordinate and the options that belong to it. It passes the command `local`, a
    LocalOptions or None if the upstream coordinates groups, and `of_listeners`, the listener settings of --set."""

    @wraps(command)
    def coordinated(*args: Any, coordinate: str, pairs: tuple[str, ...], **others: Any) -> Any:
        others["of_listeners"], others["properties"] = split_settings(pairs)
        choice = LocalOptions(**{name: others.pop(name) for name in LocalOptions.__dataclass_fields__})
        if coordinate == "upstream" and choice != LocalOptions():
            raise click.UsageError(f"{_first_given(choice)} is for groups that live here: say --coordinate local")
        _refuse_contradictions(choice)
        return command(*args, local=choice if coordinate == "local" else None, **others)

    for option in reversed(_OPTIONS):
        option(coordinated)
    return coordinated


_OPTIONS = (
    click.option(
        "--coordinate",
        type=click.Choice(["upstream", "local"]),
        default="upstream",
        show_default=True,
        help="Who coordinates groups: the cluster, or kcoord here. Records stay in the cluster.",
    ),
    click.option(
        "--data-dir",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="local: keep groups in this folder, as kcoord serve does; otherwise they end with the process.",
    ),
    click.option("--fsync", is_flag=True, help="With --data-dir: answer only when the disk has it."),
    click.option(
        "--journal",
        type=click.Choice(["own", "kafka"]),
        default="own",
        show_default=True,
        help="local: keep groups here, or in a compacted topic of the cluster, for a proxy on any machine to go on.",
    ),
    click.option("--journal-topic", metavar="NAME", help="With --journal kafka; __kcoord_offsets by default."),
    click.option(
        "--journal-partitions",
        type=click.IntRange(1, 1000),
        metavar="N",
        help="Of a topic that does not exist yet; 8 by default.",
    ),
    click.option(
        "--journal-replication",
        type=click.IntRange(1, 100),
        metavar="N",
        help="Of a topic that does not exist yet; the cluster's default otherwise.",
    ),
    click.option(
        "--seed",
        callback=_pattern,
        metavar="REGEX",
        help="local: groups whose whole name matches begin with the offsets that they have in the cluster.",
    ),
    click.option(
        "--set",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting by Kafka's name: of the listeners, such as max.connections; local: of groups. May be repeated.",
    ),
)


def local_setup(choice: LocalOptions, upstream: "Connection") -> "LocalSetup":
    """Returns the setup of a proxy's local group coordinator from its options. Raises UsageError for unknown
    settings."""
    from kcoord.proxy.local.coordination import LocalSetup
    from kcoord.proxy.local.runtime import LocalJournal, RuntimeSetup

    return LocalSetup(
        upstream=upstream,
        runtime=RuntimeSetup(
            settings=_settings(choice), local_journal=LocalJournal(data_dir=choice.data_dir, fsync=choice.fsync)
        ),
        journal=_journal(choice, upstream) if choice.journal == "kafka" else None,
        seed=choice.seed,
    )


def _journal(choice: LocalOptions, upstream: "Connection") -> "KafkaJournal":
    from kcoord.proxy.local.kafka_topic import BROKERS_DEFAULT, DEFAULT_PARTITIONS, DEFAULT_TOPIC, KafkaJournal

    return KafkaJournal(
        upstream=upstream,
        topic=choice.journal_topic or DEFAULT_TOPIC,
        partitions=choice.journal_partitions or DEFAULT_PARTITIONS,
        replication_factor=choice.journal_replication or BROKERS_DEFAULT,
    )


def _settings(choice: LocalOptions) -> Any:
    from kcoord.server.setup import settings_of
    from kcoord.settings import BadSetting

    try:
        return settings_of(choice.properties, choice.data_dir)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None


def _first_given(choice: LocalOptions) -> str:
    defaults = LocalOptions()
    if choice.properties:
        return f"--set {next(iter(choice.properties))}"
    names = [name for name in LocalOptions.__dataclass_fields__ if getattr(choice, name) != getattr(defaults, name)]
    return f"--{names[0].replace('_', '-')}"


def _refuse_contradictions(choice: LocalOptions) -> None:
    if choice.journal_topic == "":
        raise click.UsageError("--journal-topic: the name is missing")
    of_topic = choice.journal_topic or choice.journal_partitions or choice.journal_replication
    if choice.journal == "kafka" and choice.data_dir:
        raise click.UsageError("--data-dir keeps groups here, --journal kafka in the cluster: say one of them")
    if choice.journal != "kafka" and of_topic:
        raise click.UsageError("--journal-topic, -partitions and -replication are about --journal kafka")
    if choice.fsync and choice.data_dir is None:
        raise click.UsageError("--fsync is about the files of --data-dir DIR")
