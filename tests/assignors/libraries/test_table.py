"""The table of libraries: what each plans in groups where they differ, and which lists of strategies they refuse."""

import pytest
from confluent_kafka import Consumer, KafkaException

from kcoord.assignors.libraries.table import LIBRARIES, refusal
from kcoord.assignors.plan import AssignorFailed, Plan, Subscriber, Topics, list_partitions
from kcoord.protocol.consumer_protocol import OwnedPartitions, Subscription, write_sticky_user_data, write_subscription


def plan(library: str, strategy: str, members: list[Subscriber], **counts: int) -> dict[str, str]:
    return plan_by_racks(library, strategy, members, {topic: [""] * count for topic, count in counts.items()})


def plan_by_racks(
    library: str, strategy: str, members: list[Subscriber], racks: dict[str, list[str]]
) -> dict[str, str]:
    """Plans for topics by the racks of their partitions' replicas, one letter each."""
    topics = Topics(
        counts={topic: len(each) for topic, each in racks.items()},
        racks={topic: list(map(set, each)) for topic, each in racks.items()},
    )
    planned: Plan = LIBRARIES[library].strategies[strategy].assign(members, topics)
    return {
        member_id: " ".join(f"{topic}-{number}" for topic, number in sorted(list_partitions(held)))
        for member_id, held in planned.items()
    }


@pytest.mark.parametrize(
    "strategies",
    [["range", "roundrobin"], ["range", "cooperative-sticky"], ["cooperative-sticky", "roundrobin"], ["sticky"]],
    ids=",".join,
)
def test_librdkafka_refuses_lists_as_the_table_says(strategies: list[str]) -> None:
    error = None
    try:
        Consumer({"group.id": "g", "partition.assignment.strategy": ",".join(strategies), "log_level": 0})
    except KafkaException as refused:
        error = refused.args[0].str()
    assert refusal("librdkafka", strategies) == error


def test_librdkafka_sorts_a_static_member_among_the_others() -> None:
    members = [
        Subscriber(member_id="a", topics=["t"]),
        Subscriber(member_id="z-1", instance_id="z", topics=["t"]),
    ]
    assert plan("java", "range", members, t=3) == {"a": "t-2", "z-1": "t-0 t-1"}
    assert plan("librdkafka", "range", members, t=3) == {"a": "t-0 t-1", "z-1": "t-2"}


def test_librdkafka_considers_the_racks_of_all_replicas_as_java_does() -> None:
    members = [Subscriber(member_id="m", topics=["t"], rack="a"), Subscriber(member_id="n", topics=["t"], rack="b")]
    racks = {"t": ["b", "cb", "ca", "ac"]}
    for strategy in ("range", "cooperative-sticky"):
        by_racks = {"m": "t-2 t-3", "n": "t-0 t-1"}
        assert plan_by_racks("java", strategy, members, racks) == by_racks
        assert plan_by_racks("librdkafka", strategy, members, racks) == by_racks
    for library in ("franz-go", "sarama", "kafka-python"):
        assert plan_by_racks(library, "range", members, racks) == {"m": "t-0 t-1", "n": "t-2 t-3"}


def test_librdkafka_leaves_members_without_a_rack_what_is_left_of_topics_that_are_assigned_together() -> None:
    members = [Subscriber(member_id="m", topics=["t", "u"]), Subscriber(member_id="n", topics=["t", "u"], rack="a")]
    racks = {"t": ["a", "a", "b", "a"], "u": ["a", "a", "a", "a"]}
    assert plan_by_racks("java", "range", members, racks) == {"m": "t-0 t-1 u-0 u-1", "n": "t-2 t-3 u-2 u-3"}
    assert plan_by_racks("librdkafka", "range", members, racks) == {"m": "t-2 t-3 u-2 u-3", "n": "t-0 t-1 u-0 u-1"}


def test_a_cooperative_member_of_librdkafka_gives_up_what_has_no_replica_in_its_rack() -> None:
    owned = {"t": [0, 1]}
    members = [
        Subscriber(member_id="m", topics=["t"], rack="a", owned=owned, field_generation=1),
        Subscriber(member_id="n", topics=["t"], rack="b"),
    ]
    assert plan_by_racks("librdkafka", "cooperative-sticky", members, {"t": ["b", "a"]}) == {"m": "t-1", "n": ""}


@pytest.mark.parametrize(("rack", "first"), [(None, "m"), ("", "n")])
def test_an_empty_rack_is_one_without_replicas_where_librdkafka_is_cooperative(rack: str | None, first: str) -> None:
    members = [Subscriber(member_id="m", topics=["t"], rack=rack), Subscriber(member_id="n", topics=["t"], rack="a")]
    made = plan_by_racks("librdkafka", "cooperative-sticky", members, {"t": ["a", "b", "a"]})
    assert "t-0" in made[first]


def test_sarama_does_not_know_instance_ids_and_sorts_partitions_as_text() -> None:
    members = [
        Subscriber(member_id="a", topics=["t"]),
        Subscriber(member_id="b", instance_id="0", topics=["t"]),
    ]
    assert plan("sarama", "range", members, t=3) == {"a": "t-0 t-1", "b": "t-2"}
    assert plan("franz-go", "range", members, t=3) == {"a": "t-2", "b": "t-0 t-1"}
    assert plan("sarama", "roundrobin", members, t=11)["a"] == "t-0 t-3 t-5 t-7 t-9 t-10"
    assert plan("java", "roundrobin", members, t=11)["a"] == "t-1 t-3 t-5 t-7 t-9"


def test_kafka_python_forgets_members_where_static_and_other_ones_alternate() -> None:
    members = [
        Subscriber(member_id="a", topics=["t"]),
        Subscriber(member_id="b-1", instance_id="b", topics=["t"]),
        Subscriber(member_id="c", topics=["t"]),
    ]
    assert plan("kafka-python", "range", members, t=4) == {"a": "", "b-1": "t-0 t-1", "c": "t-2 t-3"}


def test_kafka_pythons_round_robin_fails_if_a_member_must_be_passed_over() -> None:
    members = [Subscriber(member_id="a", topics=["t"]), Subscriber(member_id="b", topics=["u"])]
    with pytest.raises(AssignorFailed, match="KeyError"):
        plan("kafka-python", "roundrobin", members, t=2, u=2)


def test_kafka_python_and_the_others_cannot_read_each_others_sticky_user_data() -> None:
    owned = OwnedPartitions(owned={"t": [1]}, generation=7)
    of_java = write_sticky_user_data(owned)
    of_kafka_python = b"\0\1" + of_java
    strategies = {library: LIBRARIES[library].strategies["sticky"] for library in ("java", "kafka-python", "sarama")}
    for user_data, reader in ((of_java, "java"), (of_kafka_python, "kafka-python"), (of_java, "sarama")):
        content = write_subscription(Subscription(topics=["t"], user_data=user_data))
        assert dict(strategies[reader].subscriber("m", content).owned) == {"t": (1,)}
    content = write_subscription(Subscription(topics=["t"], user_data=of_java))
    assert not strategies["kafka-python"].subscriber("m", content).owned
    content = write_subscription(Subscription(topics=["t"], user_data=of_kafka_python))
    assert not strategies["java"].subscriber("m", content).owned
    with pytest.raises(AssignorFailed, match="insufficient data"):
        strategies["sarama"].subscriber("m", content)
