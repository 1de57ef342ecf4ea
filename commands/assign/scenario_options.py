"""The options that describe a group for `kcoord assign`, and what-ifs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from kcoord.assignors.plan import Subscriber, Topics
from kcoord.assignors.scenario import (
    Scenario,
    add_members,
    remove_members,
    repeated_id,
    set_partitions,
    set_racks,
)

from ..completion.completing import complete_groups
from ..options.duration_options import duration
from .scenario_file import describe_members, read_scenario_file
from .topic_counts import parse_topic_count

_DEFAULT_REPLICAS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """The options that describe a group, and what is to change in it."""

    group: str | None
    file: Path | None
    topics: Mapping[str, int]
    member_count: int | None
    members: tuple[Subscriber, ...]
    rates_over: timedelta
    adds: int
    removes: tuple[str, ...]
    partitions: Mapping[str, int]
    racks: tuple[str, ...] = field(default=())
    replicas: int | None = None

    def described(self) -> Scenario:
        """Returns the scenario that the file or the flags describe, without what-ifs."""
        if self.file is not None:
            return read_scenario_file(self.file)
        names = tuple(self.topics)
        if unknown := next((topic for each in self.members for topic in each.topics if topic not in self.topics), None):
            raise click.UsageError(f"a member is subscribed to {unknown!r}, which no --topic describes")
        members = [replace(each, topics=each.topics or names) for each in self.members]
        members += describe_members(self.member_count or 0, names)
        if (repeated := repeated_id(members)) is not None:
            raise click.UsageError(f"two members have the id or the instance id {repeated!r}")
        return Scenario.of(members, Topics(counts=self.topics))

    def changed(self, scenario: Scenario) -> Scenario:
        """Returns the scenario with the what-ifs of the command line."""
        if self.removes:
            scenario = remove_members(scenario, self.removes)
        if self.adds:
            scenario = add_members(scenario, self.adds)
        if self.partitions:
            scenario = set_partitions(scenario, self.partitions)
        if self.racks:
            replicas = min(_DEFAULT_REPLICAS, len(self.racks)) if self.replicas is None else self.replicas
            scenario = set_racks(scenario, self.racks, replicas=replicas)
        return scenario


def scenario_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds the options that describe a group and its what-ifs, and passes the command ScenarioOptions
    as `given`."""

    @wraps(command)
    def with_scenario(*args: Any, **others: Any) -> Any:
        mine = {each.name: others.pop(each.name) for each in fields(ScenarioOptions)}
        given = ScenarioOptions(**mine)
        is_described = bool(given.topics or given.members or given.member_count)
        ways = (given.group is not None) + (given.file is not None) + is_described
        if not ways or given.group == "":
            raise click.UsageError(
                "say which group: --group of a live cluster, --file, or --topic with --members or --member"
            )
        if ways > 1:
            raise click.UsageError(
                "give one group only: --group of a live cluster, --file, or --topic with --members or --member"
            )
        if is_described and not given.topics:
            raise click.UsageError("members need topics to share: --topic NAME:PARTITIONS")
        if is_described and not (given.members or given.member_count):
            raise click.UsageError("the partitions need members: --members COUNT or --member ID")
        if given.replicas is not None and not given.racks:
            raise click.UsageError("--replicas says how many of --racks have a partition: name the racks")
        return command(*args, given=given, **others)

    for option in reversed(_OPTIONS):
        option(with_scenario)
    return with_scenario


def _topics(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    return _parse_counts(texts, ":")


def _partitions(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    return _parse_counts(texts, "=")


def _parse_counts(texts: tuple[str, ...], mark: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        topic, count = parse_topic_count(text, mark)
        if topic in counts:
            raise click.BadParameter(f"topic {topic} is named twice")
        counts[topic] = count
    return counts


def _members(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[Subscriber, ...]:
    return tuple(_member(text) for text in texts)


def _member(text: str) -> Subscriber:
    """Parses ID[@INSTANCE][/RACK][:TOPIC,…]."""
    head, _, topics = text.partition(":")
    head, _, rack = head.partition("/")
    name, _, instance = head.partition("@")
    if not name:
        raise click.BadParameter(f"{text!r} has no id: write ID[@INSTANCE][/RACK][:TOPIC,…]")
    return Subscriber(
        member_id=name,
        instance_id=instance or None,
        rack=rack or None,
        topics=tuple(topic for topic in topics.split(",") if topic),
    )


def _racks(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    racks = () if text is None else tuple(dict.fromkeys(rack.strip() for rack in text.split(",")))
    if text is not None and not all(racks):
        raise click.BadParameter("name the racks: a,b,c")
    return racks


_OPTIONS: Final = (
    click.option(
        "--group", metavar="NAME", shell_complete=complete_groups, help="A group of a live cluster, as it is now."
    ),
    click.option(
        "--file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A group described in YAML: docs/assignors.md shows how.",
    ),
    click.option(
        "--topic",
        "topics",
        multiple=True,
        callback=_topics,
        metavar="NAME:PARTITIONS",
        help="A topic to share among members. May be repeated.",
    ),
    click.option(
        "--members",
        "member_count",
        type=click.IntRange(1, 100_000),
        metavar="COUNT",
        help="So many members of all topics: member-1 and so on.",
    ),
    click.option(
        "--member",
        "members",
        multiple=True,
        callback=_members,
        metavar="ID[@INSTANCE][/RACK][:TOPIC,…]",
        help="One member; of all topics if none is named. May be repeated.",
    ),
    click.option(
        "--add-members",
        "adds",
        type=click.IntRange(0, 100_000),
        default=0,
        metavar="COUNT",
        help="What if so many more members joined?",
    ),
    click.option(
        "--remove-member",
        "removes",
        multiple=True,
        metavar="ID",
        help="What if this member left? Its id, the beginning of it, or its instance id. May be repeated.",
    ),
    click.option(
        "--partitions",
        multiple=True,
        callback=_partitions,
        metavar="TOPIC=COUNT",
        help="What if the topic had so many partitions? May be repeated.",
    ),
    click.option(
        "--racks",
        callback=_racks,
        metavar="RACK,…",
        help="What if members were in these racks in turn, and the replicas too, where their racks are unknown?",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(min=1),
        metavar="COUNT",
        help=f"With --racks: how many replicas a partition has. {_DEFAULT_REPLICAS} by default.",
    ),
    click.option(
        "--rates-over",
        callback=duration,
        default="1h",
        show_default=True,
        metavar="DURATION",
        help="With --group: the time over which the rate of records is taken; 0s for none.",
    ),
)
