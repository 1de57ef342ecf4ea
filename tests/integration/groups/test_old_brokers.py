"""Brokers with older versions give the same result, as far as those versions have it. The broker is a real one, with
its versions limited."""

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Committed, GroupType, MemberToRemove, TopicPartition
from kcoord.admin.wire import apis
from kcoord.admin.wire.apis import Api
from kcoord.admin.wire.brokers import ApiRequest, ApiResponse, Brokers, Outcome
from kcoord.admin.wire.cluster import WireCluster
from kcoord.admin.wire.coordinators import Coordinators
from kcoord.admin.wire.logs import Logs
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record
from kcoord.testing.cluster import Cluster
from tests.support.admin.fake_cluster import PATIENCE, LiveFixture, connection

from ...support.admin.group_kinds import create_topic

NO_EPOCH = -1


class OldBrokers(Brokers):
    """Limits one of the APIs to an older version, as if the brokers did not support newer ones."""

    def __init__(self, connection: Connection, api: Api, newest: int) -> None:
        self._known = {api: api._replace(newest=newest)}
        super().__init__(connection)

    def ask_any(self, api: Api, **values: Any) -> ApiResponse:
        return super().ask_any(self._known.get(api, api), **values)

    def ask_each(self, questions: Sequence[ApiRequest]) -> list[Outcome]:
        return super().ask_each([each._replace(api=self._known.get(each.api, each.api)) for each in questions])

    def versions(self, nodes: Collection[int], api: Api) -> dict[int, int]:
        return super().versions(nodes, self._known.get(api, api))


class OldCluster(WireCluster):
    def __init__(self, connection: Connection, api: Api, newest: int) -> None:
        super().__init__(connection)
        self._brokers.close()
        self._brokers = OldBrokers(connection, api, newest)
        self._coordinators = Coordinators(self._brokers)
        self._logs = Logs(self._brokers, timeout=PATIENCE)


class Scene:
    """Two groups with offsets, one of them with a static member. Names are unique: the cluster is shared."""

    def __init__(self, live: LiveFixture, name: str) -> None:
        self.live = live
        self.new = live.cluster
        self.topic = f"{name}-orders"
        self.shop, self.asleep, self.nobody = (f"{name}-{word}" for word in ("shop", "asleep", "nobody"))
        self.names = [self.shop, self.asleep, self.nobody]

    def tp(self, number: int) -> TopicPartition:
        return TopicPartition(self.topic, number)

    def each_old(self, api: Api) -> Iterator[tuple[int, WireCluster]]:
        """Yields the cluster with every older version of one API."""
        for version in range(api.oldest, api.newest):
            cluster = OldCluster(connection(self.live.bootstrap), api, version)
            try:
                yield version, cluster
            finally:
                cluster.close()


@pytest.fixture(scope="module")
def scene(kafka_cluster: Cluster) -> Iterator[Scene]:
    host, _, port = kafka_cluster.bootstrap.rpartition(":")
    with LiveFixture(kafka_cluster.bootstrap) as live, Client(host, int(port)) as client:
        scene = Scene(live, f"old-{secrets.token_hex(3)}")
        create_topic(client, scene.topic, 2)
        for number in range(2):
            live.produce(scene.tp(number), [Record(timestamp=1000 + each, value=b"v") for each in range(4)])
        for group in (scene.shop, scene.asleep):
            live.cluster.commit(group, {scene.tp(0): Committed(1, 0, "note"), scene.tp(1): Committed(3, 0)})
        name = scene.topic.encode()
        topic = len(name).to_bytes(2) + name
        owned = b"\0\0" + b"\0\0\0\1" + topic + b"\0\0\0\1" + b"\0\0\0\1" + b"\xff\xff\xff\xff"
        wanted = b"\0\0" + b"\0\0\0\1" + topic + b"\xff\xff\xff\xff"
        live.join(scene.shop, assignment=owned, subscription=wanted, instance_id="worker")
        yield scene


def test_coordinators_are_found_one_by_one_before_version_4(scene: Scene) -> None:
    new = scene.new.describe_groups(scene.names)
    for _, old in scene.each_old(apis.FIND_COORDINATOR):
        assert old.describe_groups(scene.names) == new
    assert new.found.keys() == {scene.shop, scene.asleep}


def test_groups_are_described_by_every_version_but_without_instance_ids_before_4(scene: Scene) -> None:
    new = scene.new.describe_groups(scene.names)
    shop = new.found[scene.shop]
    nameless = replace(shop, members=tuple(replace(member, instance_id=None) for member in shop.members))
    for version, old in scene.each_old(apis.DESCRIBE_GROUPS):
        described = old.describe_groups(scene.names)
        assert described.found == (new.found if version >= 4 else {**new.found, scene.shop: nameless})
        assert [(refusal.what, refusal.error) for refusal in described.refused] == [
            (f"group {scene.nobody}", ErrorCode.group_id_not_found)
        ], "which versions before 6 call Dead"
    assert shop.members[0].instance_id == "worker"


def test_groups_are_listed_by_every_version_and_filtered_as_far_as_it_tells(scene: Scene) -> None:
    def ours(cluster: WireCluster, **filters: list[str]) -> Mapping[str, Any]:
        found = cluster.list_groups(**filters).found
        return {name: group for name, group in found.items() if name in scene.names}

    new = ours(scene.new)
    for version, old in scene.each_old(apis.LIST_GROUPS):
        assert ours(old) == {
            name: group._replace(type=GroupType.UNKNOWN, state=group.state if version >= 4 else "")
            for name, group in new.items()
        }
        assert ours(old, types=["classic"]).keys() == new.keys(), "there were no others"
        assert ours(old, types=["share", "consumer"]) == {}
        assert ours(old, states=["Stable"]).keys() == ({scene.shop} if version >= 4 else new.keys())
    assert new.keys() == {scene.shop, scene.asleep}


def test_offsets_are_fetched_group_by_group_before_version_8_and_without_epochs_before_5(scene: Scene) -> None:
    new = scene.new.committed(scene.names)
    for version, old in scene.each_old(apis.OFFSET_FETCH):
        expected = {
            group: {tp: each if version >= 5 else each._replace(leader_epoch=NO_EPOCH) for tp, each in offsets.items()}
            for group, offsets in new.found.items()
        }
        assert old.committed(scene.names).found == expected
    assert new.found[scene.shop][scene.tp(0)] == Committed(1, 0, "note")


@pytest.mark.parametrize(
    ("api", "ask"),
    [
        (apis.METADATA, lambda cluster, scene: cluster.bounds([scene.tp(0), scene.tp(1), scene.tp(2)])),
        (apis.LIST_OFFSETS, lambda cluster, scene: cluster.bounds([scene.tp(0), scene.tp(1)])),
        (apis.FETCH, lambda cluster, scene: cluster.timestamps([(scene.tp(0), 1), (scene.tp(1), 3)])),
        (apis.DESCRIBE_CONFIGS, lambda cluster, scene: cluster.topic_configs([scene.topic])),
    ],
    ids=lambda value: value.name if isinstance(value, Api) else "",
)
def test_logs_and_settings_are_told_the_same_by_every_version(
    scene: Scene, api: Api, ask: Callable[[WireCluster, Scene], Any]
) -> None:
    new = ask(scene.new, scene)
    assert new.found
    for _, old in scene.each_old(api):
        assert ask(old, scene) == new


def test_changes_are_made_or_refused_the_same_by_every_version(scene: Scene) -> None:
    stranger = MemberToRemove(member_id="stranger")
    for version, old in scene.each_old(apis.OFFSET_COMMIT):
        assert old.commit(scene.asleep, {scene.tp(0): Committed(2)}).found == {scene.tp(0): ErrorCode.none}, version
        assert old.commit(scene.shop, {scene.tp(0): Committed(2)}).found == {scene.tp(0): ErrorCode.unknown_member_id}
    for _, old in scene.each_old(apis.DELETE_GROUPS):
        assert old.delete_groups([scene.shop]).found == {scene.shop: ErrorCode.non_empty_group}
    for _, old in scene.each_old(apis.LEAVE_GROUP):
        done = old.remove_members(scene.shop, [stranger], reason="test")
        assert done.found == {stranger: ErrorCode.unknown_member_id}
