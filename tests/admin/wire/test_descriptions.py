"""Groups of each type, parsed from the responses that describe them."""

from typing import Any

import pytest
from kio.index import load_response_schema

from kcoord.admin.model import Group, GroupType, Node, TopicPartition
from kcoord.admin.wire.descriptions import classic_group, consumer_group, share_group, streams_group
from kcoord.api_keys import ApiKey
from kcoord.client.client_codec import schema_codec
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import encode_response
from kcoord.protocol.headers import RequestHeader

NODE = Node(id=3, host="h", port=1)
NO_TOPICS = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"


def orders(*numbers: int, version: int = 0) -> bytes:
    """Encodes an assignment of partitions of one topic, as consumers write it."""
    partitions = len(numbers).to_bytes(4) + b"".join(number.to_bytes(4) for number in numbers)
    return version.to_bytes(2) + b"\0\0\0\1" + b"\0\6orders" + partitions + b"\xff\xff\xff\xff"


def described(api_key: int, version: int, **group: Any) -> Any:
    """Returns one described group, as it is read from a response."""
    response_type: Any = load_response_schema(api_key, version)
    response = build_entity(response_type, {"groups": [{"group_id": "g", "group_state": "Stable", **group}]})
    frame = encode_response(RequestHeader(api_key, api_version=version, correlation_id=1), response)
    _, row = schema_codec(api_key, version).decode_response(frame[4:])
    return row.groups[0]


def classic(version: int = 6, *, protocol_type: str = "consumer", **member: Any) -> Group:
    who = {"member_id": "m", "client_id": "c", "client_host": "/h", "member_metadata": b"", "member_assignment": b""}
    group = described(
        ApiKey.DESCRIBE_GROUPS,
        version,
        protocol_type=protocol_type,
        protocol_data="range",
        members=[{**who, **member}],
        error_message=None,
    )
    return classic_group(group, NODE)


@pytest.mark.parametrize("version", range(7))
def test_a_classic_group_is_told_by_every_version(version: int) -> None:
    group = classic(
        version,
        member_assignment=orders(2, 0),
        member_metadata=b"\0\0" + b"\0\0\0\2" + b"\0\1b\0\1a" + b"\xff\xff\xff\xff",
        group_instance_id="worker",
    )
    assert (group.name, group.type, group.protocol, group.coordinator) == ("g", GroupType.CLASSIC, "range", NODE)
    (member,) = group.members
    assert member.assignment == (TopicPartition("orders", 0), TopicPartition("orders", 2))
    assert member.subscription == ("a", "b")
    assert member.instance_id == ("worker" if version >= 4 else None)
    assert (member.epoch, member.target, member.is_classic) == (None, None, None)


def test_an_assignment_of_a_version_to_come_is_read_as_far_as_it_is_known() -> None:
    (member,) = classic(member_assignment=orders(1, version=99) + b"news").members
    assert member.assignment == (TopicPartition("orders", 1),)


def test_a_member_that_got_nothing_owns_nothing() -> None:
    assert classic(member_assignment=NO_TOPICS).members[0].assignment == ()
    assert classic(member_assignment=b"").members[0].assignment == ()


@pytest.mark.parametrize(
    "content", [b"\0", b"\0\0\x7f\xff\xff\xff", orders(1)[:10], b"\0\0" + b"\0\0\0\1" + b"\0\1\xff", b"\xff" * 40]
)
def test_bytes_that_are_no_assignment_are_not_known(content: bytes) -> None:
    (member,) = classic(member_assignment=content, member_metadata=content).members
    assert member.assignment is None
    assert member.subscription is None


def test_bytes_of_other_protocol_types_are_left_alone() -> None:
    """Connect's bytes look like an assignment of partitions if the protocol type is ignored."""
    (worker,) = classic(protocol_type="connect", member_assignment=orders(1), member_metadata=orders(1)).members
    assert (worker.assignment, worker.subscription) == (None, None)


def planned(**more: Any) -> dict[str, Any]:
    """Returns the fields that describe a group whose coordinator plans."""
    return {"group_epoch": 5, "assignment_epoch": 4, "assignor_name": "uniform", **more}


def partitions(**by_topic: list[int]) -> dict[str, Any]:
    return {"topic_partitions": [{"topic_name": topic, "partitions": each} for topic, each in by_topic.items()]}


@pytest.mark.parametrize(("version", "kinds"), [(0, [None, None, None]), (1, [True, False, None])])
def test_a_consumer_group_tells_what_its_members_have_and_shall_have(version: int, kinds: list[bool | None]) -> None:
    who = {"client_id": "c", "client_host": "/h", "member_epoch": 4, "subscribed_topic_regex": "", "rack_id": "r1"}
    members = [
        {
            **who,
            "member_id": f"m{kind}",
            "member_type": kind,
            "subscribed_topic_names": ["b", "a"],
            "assignment": partitions(b=[1, 0], a=[2]),
            "target_assignment": partitions(a=[2]),
        }
        for kind in (0, 1, -1)
    ]
    group = consumer_group(described(ApiKey.CONSUMER_GROUP_DESCRIBE, version, members=members, **planned()), NODE)
    assert (group.type, group.protocol_type, group.protocol) == (GroupType.CONSUMER, "consumer", "uniform")
    assert (group.epoch, group.assignment_epoch) == (5, 4)
    assert [member.is_classic for member in group.members] == kinds
    first = group.members[0]
    assert first.assignment == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))
    assert first.target == (TopicPartition("a", 2),)
    assert (first.subscription, first.subscribed_regex, first.rack, first.epoch) == (("a", "b"), None, "r1", 4)


def test_a_share_group_may_give_a_partition_to_many() -> None:
    who = {"client_id": "c", "client_host": "/h", "member_epoch": 5, "subscribed_topic_names": ["a"]}
    members = [{**who, "member_id": name, "assignment": partitions(a=[0])} for name in ("m1", "m2")]
    group = share_group(
        described(ApiKey.SHARE_GROUP_DESCRIBE, 1, members=members, **planned(assignor_name="simple")), NODE
    )
    assert (group.type, group.protocol_type, group.protocol) == (GroupType.SHARE, "share", "simple")
    assert [member.assignment for member in group.members] == [(TopicPartition("a", 0),)] * 2
    assert group.owners[TopicPartition("a", 0)] in group.members


def test_a_streams_member_owns_the_source_partitions_of_its_active_tasks() -> None:
    topology = {
        "epoch": 1,
        "subtopologies": [
            {"subtopology_id": "0", "source_topics": ["in", "side"]},
            {"subtopology_id": "1", "repartition_source_topics": [{"name": "again", "partitions": 2}]},
        ],
    }
    tasks = {
        "active_tasks": [{"subtopology_id": "1", "partitions": [1]}, {"subtopology_id": "0", "partitions": [2, 0]}],
        "standby_tasks": [{"subtopology_id": "1", "partitions": [0]}],
        "warmup_tasks": [],
    }
    nothing = dict.fromkeys(tasks, ())
    member = {
        "member_id": "m",
        "client_id": "c",
        "client_host": "/h",
        "process_id": "p",
        "member_epoch": 5,
        "assignment": tasks,
        "target_assignment": nothing,
    }
    group = streams_group(
        described(ApiKey.STREAMS_GROUP_DESCRIBE, 0, topology=topology, members=[member], **planned()), NODE
    )
    assert (group.type, group.protocol_type, group.protocol) == (GroupType.STREAMS, "streams", "")
    (streaming,) = group.members
    assert streaming.assignment == tuple(
        TopicPartition(topic, number)
        for topic, number in (("again", 1), ("in", 0), ("in", 2), ("side", 0), ("side", 2))
    )
    assert streaming.target == ()
    assert streaming.tasks == {"active": {"1": (1,), "0": (0, 2)}, "standby": {"1": (0,)}, "warmup": {}}
    assert streaming.subscription == ("again", "in", "side")


@pytest.mark.parametrize("topology", [None, {"epoch": 0, "subtopologies": None}])
def test_a_streams_group_whose_topology_is_not_told_has_tasks_without_partitions(topology: Any) -> None:
    tasks = {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}], "standby_tasks": (), "warmup_tasks": ()}
    member = {"member_id": "m", "client_id": "c", "client_host": "/h", "process_id": "p"}
    who = {**member, "assignment": tasks, "target_assignment": tasks}
    (streaming,) = streams_group(
        described(ApiKey.STREAMS_GROUP_DESCRIBE, 0, topology=topology, members=[who], **planned()), NODE
    ).members
    assert streaming.assignment == ()
    assert streaming.tasks is not None
    assert streaming.tasks["active"] == {"0": (0,)}
