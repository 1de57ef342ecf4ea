"""The cases of Kafka's ConsumerProtocolTest, and those of AbstractStickyAssignorTest, StickyAssignorTest and
CooperativeStickyAssignorTest about what an assignor reads from a subscription.

Left out are serializeSubscriptionShouldOrderTopics and serializeSubscriptionShouldOrderOwnedPartitions, since kcoord is
no member that would send a subscription: it writes them in the given order. deserializeNewSubscriptionWithOldVersion is
read_subscription here, which reads what all versions have. The tests with Java's generated classes
(serializeDeserializeConsumerProtocolAssignmentAllVersions, serializeDeserializeConsumerProtocolSubscriptionAllVersions)
differ from the others in Java only.
"""

from dataclasses import replace
from typing import Final

import pytest

from kcoord.assignors.subscriptions import OwnedFrom, subscriber_from
from kcoord.protocol.consumer_protocol import (
    VERSIONS,
    OwnedPartitions,
    Subscription,
    decode_subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_cooperative_user_data,
    write_sticky_user_data,
    write_subscription,
)

FULL: Final = Subscription(
    topics=("foo", "bar"), user_data=b"hello", owned={"foo": (0,), "bar": (0,)}, generation=1, rack="rack-a"
)
PLAIN: Final = Subscription(topics=("foo", "bar"))
OWNED: Final = {"topic1": (0,), "topic2": (1,)}
GENERATION: Final = 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subscription_has_the_fields_of_its_version(version: int) -> None:
    """serializeDeserializeSubscriptionAllVersions"""
    assert decode_subscription(write_subscription(FULL, version=version)) == replace(
        FULL,
        owned=FULL.owned if version >= 1 else {},
        generation=FULL.generation if version >= 2 else None,
        rack=FULL.rack if version >= 3 else None,
    )


@pytest.mark.parametrize("user_data", [b"", None])
def test_no_user_data_is_something_else_than_empty_user_data(user_data: bytes | None) -> None:
    """serializeDeserializeMetadata, serializeDeserializeMetadataAndGroupInstanceId and
    serializeDeserializeNullSubscriptionUserData"""
    subscription = replace(PLAIN, user_data=user_data)
    decoded = decode_subscription(write_subscription(subscription))
    assert decoded == subscription
    assert decoded.generation is None
    assert decoded.rack is None
    assert subscriber_from("m", decoded, OwnedFrom.NOWHERE, instance_id="instance.id").instance_id == "instance.id"


def test_an_old_subscription_owns_nothing() -> None:
    """deserializeOldSubscriptionVersion"""
    assert decode_subscription(write_subscription(PLAIN, version=0)) == PLAIN


@pytest.mark.parametrize(
    "subscription",
    [replace(PLAIN, owned={"bar": (2,)}, generation=1, rack="rack-a"), replace(PLAIN, owned={"bar": (2,)})],
)
def test_the_topics_of_a_new_subscription_are_read_as_those_of_an_old_one(subscription: Subscription) -> None:
    """deserializeNewSubscriptionWithOldVersion"""
    assert read_subscription(write_subscription(subscription)) == ("foo", "bar")


def test_a_subscription_of_a_future_version_is_read() -> None:
    """deserializeFutureSubscriptionVersion"""
    subscription = Subscription(topics=("topic",), user_data=b"", owned={"bar": (2,)}, generation=1, rack="rack-a")
    written = b"\x00\x64" + write_subscription(subscription)[2:] + b"\x00\x03bar"
    assert decode_subscription(written) == subscription


@pytest.mark.parametrize("user_data", [b"hello", b"", None])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_has_its_partitions_in_every_version(version: int, user_data: bytes | None) -> None:
    """serializeDeserializeAssignmentAllVersions, serializeDeserializeAssignment, deserializeNullAssignmentUserData"""
    assert read_assignment(write_assignment({"foo": [1], "bar": [2]}, version=version, user_data=user_data)) == {
        "foo": (1,),
        "bar": (2,),
    }


def test_an_assignment_of_a_future_version_is_read() -> None:
    """deserializeFutureAssignmentVersion"""
    written = b"\x00\x64" + write_assignment({"foo": [1]}, user_data=b"")[2:] + b"\x00\x03bar"
    assert read_assignment(written) == {"foo": (1,)}


def _sticky(generation: int | None) -> bytes:
    return write_sticky_user_data(OwnedPartitions(owned=OWNED, generation=generation))


@pytest.mark.parametrize(
    "subscription",
    [
        Subscription(topics=("topic",), user_data=_sticky(GENERATION)),
        Subscription(topics=("topic",), user_data=_sticky(GENERATION), owned=OWNED),
        Subscription(topics=("topic",), user_data=_sticky(GENERATION), owned=OWNED, generation=GENERATION),
    ],
    ids=["version 0", "version 1", "version 2"],
)
def test_the_sticky_assignor_reads_user_data_of_all_versions(subscription: Subscription) -> None:
    """testMemberData"""
    subscriber = subscriber_from("m", subscription, OwnedFrom.STICKY_USER_DATA)
    assert (subscriber.owned, subscriber.generation) == (OWNED, GENERATION)


@pytest.mark.parametrize(
    "subscription",
    [
        Subscription(topics=("topic",), user_data=write_cooperative_user_data(GENERATION), owned=OWNED),
        Subscription(topics=("topic",), user_data=write_cooperative_user_data(-1), owned=OWNED, generation=GENERATION),
    ],
    ids=["version 1", "version 2"],
)
def test_the_cooperative_assignor_reads_the_fields_of_all_versions(subscription: Subscription) -> None:
    """testMemberData"""
    subscriber = subscriber_from("m", subscription, OwnedFrom.FIELDS)
    assert (subscriber.owned, subscriber.generation) == (OWNED, GENERATION)


@pytest.mark.parametrize(("user_data", "generation"), [(-1, -1), (10, 10), (None, None)])
def test_the_cooperative_assignor_has_a_generation_in_its_user_data(
    user_data: int | None, generation: int | None
) -> None:
    """testEncodeAndDecodeGeneration and testDecodeGeneration"""
    content = None if user_data is None else write_cooperative_user_data(user_data)
    subscriber = subscriber_from("m", Subscription(topics=("topic",), user_data=content), OwnedFrom.FIELDS)
    assert subscriber.generation == generation


def test_the_sticky_assignor_trusts_its_user_data() -> None:
    """testMemberDataWithInconsistentData and testMemberDataWillHonorUserData of StickyAssignorTest"""
    inconsistent = Subscription(topics=("topic",), user_data=_sticky(GENERATION), owned={"topic": (0,)})
    subscriber = subscriber_from("m", inconsistent, OwnedFrom.STICKY_USER_DATA)
    assert (subscriber.owned, subscriber.generation) == (OWNED, GENERATION)
    older = Subscription(topics=("topic",), user_data=_sticky(GENERATION - 1), generation=GENERATION)
    subscriber = subscriber_from("m", older, OwnedFrom.STICKY_USER_DATA)
    assert (subscriber.owned, subscriber.generation) == (OWNED, GENERATION - 1)


def test_the_cooperative_assignor_trusts_the_fields() -> None:
    """testMemberDataWithInconsistentData, testMemberDataWithEmptyPartitionsAndEqualGeneration and
    testMemberDataWithEmptyPartitionsAndHigherGeneration of CooperativeStickyAssignorTest"""
    without_field = Subscription(
        topics=("topic",), user_data=write_cooperative_user_data(GENERATION), owned={"topic": (0,)}
    )
    subscriber = subscriber_from("m", without_field, OwnedFrom.FIELDS)
    assert (subscriber.owned, subscriber.generation) == ({"topic": (0,)}, GENERATION)
    for earlier in (GENERATION, GENERATION - 1):
        empty = Subscription(topics=("topic",), user_data=write_cooperative_user_data(earlier), generation=GENERATION)
        subscriber = subscriber_from("m", empty, OwnedFrom.FIELDS)
        assert (subscriber.owned, subscriber.generation) == ({}, GENERATION)
