"""Reads a group from a YAML file, so that assignors can be compared for it.

    topics:
      orders: 12                                # partitions
      payments: {partitions: 2, racks: [[a, b], [b, c]]}      # the racks of each partition's replicas
    members:
      - id: worker-1
        topics: [orders, payments]              # all topics without it
        instance: worker-1                      # group.instance.id
        rack: a                                 # client.rack
        owns: {orders: 0-5, payments: [0]}      # what it has now

`members: 3` describes three members of all topics.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kcoord.assignors.plan import Partition, Subscriber, TopicPartitions, Topics, list_partitions, with_owned
from kcoord.assignors.scenario import Scenario, repeated_id
from kcoord.exceptions import InvalidInput

from .topic_counts import MAX_PARTITIONS


class MalformedGroup(InvalidInput, ValueError):
    """Raised for a description of a group that has unknown keys or values of a wrong kind; says where."""


def read_scenario_file(path: Path) -> Scenario:
    """Reads the file. Raises MalformedGroup and OSError."""
    try:
        return parse_scenario(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.MarkedYAMLError as error:
        where = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise MalformedGroup(f"{path} is not YAML{where}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise MalformedGroup(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except MalformedGroup as error:
        raise MalformedGroup(f"{path}: {error}") from None


def parse_scenario(document: Any) -> Scenario:
    """Parses what the YAML file has. Raises MalformedGroup."""
    fields = _mapping(document, "the file", {"topics", "members"})
    topics = _topics(_mapping(fields.get("topics"), "topics"))
    if not topics.counts:
        raise MalformedGroup("it describes no topics")
    members = _members(fields.get("members"), topics)
    if not members:
        raise MalformedGroup("it describes no members")
    owned = {each.member_id: each.owned for each in members}
    return Scenario.of(members, topics, owned if any(owned.values()) else None)


def describe_members(count: int, topics: Sequence[str]) -> list[Subscriber]:
    """Returns so many members that are subscribed to all these topics, named member-1 and so on."""
    digits = len(str(count))
    return [Subscriber(member_id=f"member-{number:0{digits}}", topics=topics) for number in range(1, count + 1)]


def parse_numbers(text: str) -> list[int]:
    """Parses the numbers of partitions, such as 0-5,7. Raises ValueError."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        begin, end = int(first), int(last if dash else first)
        if not 0 <= begin <= end < MAX_PARTITIONS:
            raise ValueError(f"{part.strip()!r} are no partitions")
        numbers += range(begin, end + 1)
    return numbers


def _topics(topics: Mapping[str, Any]) -> Topics:
    counts, racks = {}, {}
    for name, value in topics.items():
        if isinstance(value, Mapping):
            fields = _mapping(value, f"topic {name}", {"partitions", "racks"})
            by_partition = _list(fields.get("racks"), f"racks of {name}")
            racks[name] = [[str(rack) for rack in _list(each, f"racks of {name}")] for each in by_partition]
            value = fields.get("partitions", len(by_partition))
            if len(by_partition) > _count(value, f"the partitions of topic {name}"):
                raise MalformedGroup(f"topic {name} has {value} partitions, and racks of {len(by_partition)}")
        counts[name] = _count(value, f"the partitions of topic {name}")
    return Topics(counts=counts, racks={name: each for name, each in racks.items() if each})


def _members(members: Any, topics: Topics) -> list[Subscriber]:
    if isinstance(members, int):
        return describe_members(_count(members, "members"), tuple(topics.counts))
    described = [_member(each, topics) for each in _list(members, "members")]
    if (repeated := repeated_id(described)) is not None:
        raise MalformedGroup(f"two members have the id or the instance id {repeated}")
    _check_owners(described, topics)
    return described


def _check_owners(members: Iterable[Subscriber], topics: Topics) -> None:
    """Raises MalformedGroup if a member owns what does not exist, or what another one owns, too."""
    owner_of: dict[Partition, str] = {}
    for each in members:
        for topic, number in list_partitions(each.owned):
            if number >= topics.counts.get(topic, 0):
                raise MalformedGroup(f"{each.member_id} owns {topic}-{number}, which does not exist")
            if (topic, number) in owner_of:
                raise MalformedGroup(f"{owner_of[topic, number]} and {each.member_id} both own {topic}-{number}")
            owner_of[topic, number] = each.member_id


def _member(value: Any, topics: Topics) -> Subscriber:
    fields = _mapping(value, "a member", {"id", "topics", "instance", "rack", "owns"})
    if "id" not in fields:
        raise MalformedGroup(f"a member has no id: {value}")
    name = str(fields["id"])
    subscribed = fields.get("topics")
    member = Subscriber(
        member_id=name,
        instance_id=None if fields.get("instance") is None else str(fields["instance"]),
        topics=tuple(topics.counts if subscribed is None else map(str, _list(subscribed, f"the topics of {name}"))),
        rack=None if fields.get("rack") is None else str(fields["rack"]),
    )
    owned = _owned(_mapping(fields.get("owns"), f"what {name} owns"), name)
    return with_owned(member, owned) if owned else member


def _owned(owns: Mapping[str, Any], member: str) -> TopicPartitions:
    owned = {}
    for topic, value in owns.items():
        try:
            if value != []:
                owned[topic] = parse_numbers(",".join(map(str, value)) if isinstance(value, list) else str(value))
        except ValueError:
            raise MalformedGroup(f"{member} owns of {topic} {value!r}: write 0-5,7 or a list of numbers") from None
    return owned


def _mapping(value: Any, what: str, known: set[str] | None = None) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise MalformedGroup(f"{what}: names with values, not {value!r}")
    names = {str(name): each for name, each in value.items()}
    if known is not None and (unknown := names.keys() - known):
        raise MalformedGroup(f"{what} has {min(unknown)!r}; known are {', '.join(sorted(known))}")
    return names


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedGroup(f"{what}: a list, not {value!r}")
    return value


def _count(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PARTITIONS:
        raise MalformedGroup(f"{what}: a number, not {value!r}")
    return value
