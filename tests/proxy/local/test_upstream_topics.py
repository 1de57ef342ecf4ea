"""Which upstream topics are known, and when a topic counts as deleted, so that its offsets may be deleted."""

from types import SimpleNamespace
from uuid import UUID

from kcoord.groups.topics import RecreatedTopic
from kcoord.proxy.local.upstream_topics import NO_ID, DeletedTopic, KnownTopic, MirroredTopics

FIRST, SECOND = UUID(int=1), UUID(int=2)
NOW_MS = 1_700_000_000_000


def test_what_passes_in_an_answer_is_known_by_name_and_by_id() -> None:
    topics = MirroredTopics()

    topics.on_topic("orders", FIRST, 3)

    assert (topics.topic_id("orders"), topics.topic_name(FIRST), topics.partitions_of("orders")) == (FIRST, "orders", 3)
    assert topics.has("orders", FIRST, 2)
    assert not topics.has("orders", FIRST, 3)
    assert not topics.has("orders", SECOND, 0)


def test_who_listens_is_told_of_each_topic_once_and_again_if_it_was_made_anew() -> None:
    found: list[tuple[str, UUID]] = []
    topics = MirroredTopics(found=lambda name, topic_id: found.append((name, topic_id)), hidden="__journal")

    topics.on_topic("orders", FIRST, 3)
    topics.on_topic("__journal", SECOND, 1)
    assert topics.topic_id("__journal") is None
    for _ in range(2):
        topics.on_listed({"orders": KnownTopic(FIRST, 3), "__journal": KnownTopic(SECOND, 1)}, NOW_MS)
    topics.on_listed({"orders": KnownTopic(SECOND, 3)}, NOW_MS)

    assert found == [("orders", FIRST), ("orders", SECOND)]


def test_who_asks_for_an_unknown_topic_has_the_upstream_asked() -> None:
    asked: list[str] = []
    topics = MirroredTopics(request_refresh=lambda: asked.append("asked"))

    assert topics.topic_id("orders") is None
    assert topics.topic_name(FIRST) is None

    assert asked == ["asked", "asked"]


def test_partitions_that_a_broker_has_not_heard_of_yet_do_not_go_away() -> None:
    topics = MirroredTopics()
    topics.on_topic("orders", FIRST, 6)

    topics.on_topic("orders", FIRST, 3)
    topics.on_listed({"orders": KnownTopic(FIRST, 3)}, NOW_MS)

    assert topics.partitions_of("orders") == 6


def test_an_answer_that_contradicts_what_is_known_changes_nothing_but_has_the_upstream_asked() -> None:
    asked: list[str] = []
    topics = MirroredTopics(request_refresh=lambda: asked.append("asked"))
    topics.on_listed({"orders": KnownTopic(FIRST, 3)}, NOW_MS)

    topics.on_topic("orders", SECOND, 1)

    assert (topics.topic_id("orders"), asked) == (FIRST, ["asked"])


def test_a_metadata_answer_without_ids_or_with_an_error_tells_nothing() -> None:
    topics = MirroredTopics()
    without_id = SimpleNamespace(name="old", partitions=[0])
    unknown = SimpleNamespace(name="gone", topic_id=NO_ID, partitions=[])
    unnamed = SimpleNamespace(name=None, topic_id=SECOND, partitions=[])
    known = SimpleNamespace(name="orders", topic_id=FIRST, partitions=[0, 1])

    topics.on_metadata(SimpleNamespace(topics=[without_id, unknown, unnamed, known]))

    assert [topics.partitions_of(name) for name in ("old", "gone", "orders")] == [0, 0, 2]


def test_a_topic_is_suspected_when_it_is_missing_twice_in_a_row() -> None:
    topics = MirroredTopics()
    topics.on_listed({"orders": KnownTopic(FIRST, 3), "bills": KnownTopic(SECOND, 1)}, NOW_MS)

    once = topics.on_listed({"bills": KnownTopic(SECOND, 1)}, NOW_MS)
    assert topics.topic_id("orders") == FIRST
    twice = topics.on_listed({"bills": KnownTopic(SECOND, 1)}, NOW_MS)

    assert (set(once), set(twice)) == (set(), {"orders"})


def test_a_topic_that_is_heard_of_in_between_is_not_suspected() -> None:
    topics = MirroredTopics()
    topics.on_listed({"orders": KnownTopic(FIRST, 3)}, NOW_MS)
    topics.on_listed({}, NOW_MS)

    topics.on_topic("orders", FIRST, 3)

    assert not topics.on_listed({}, NOW_MS)


def test_a_topic_that_only_clients_may_see_is_never_suspected() -> None:
    topics = MirroredTopics()
    topics.on_topic("secret", FIRST, 3)

    suspects = [set(topics.on_listed({}, NOW_MS)) for _ in range(3)]

    assert suspects == [set()] * 3


def test_a_topic_that_is_deleted_is_known_no_more() -> None:
    topics = MirroredTopics()
    topics.on_listed({"orders": KnownTopic(FIRST, 3)}, NOW_MS)
    topics.on_listed({}, NOW_MS)
    topics.on_listed({}, NOW_MS)

    assert topics.on_deleted("orders") == [DeletedTopic(FIRST, None)]

    assert (topics.topic_id("orders"), topics.topic_name(FIRST), topics.has_missing) == (None, None, False)


def test_a_topic_that_was_made_anew_keeps_its_name_and_loses_its_old_id() -> None:
    topics = MirroredTopics()
    topics.on_listed({"orders": KnownTopic(FIRST, 3)}, NOW_MS)
    anew = {"orders": KnownTopic(SECOND, 1)}
    topics.on_listed(anew, NOW_MS)
    suspects = topics.on_listed(anew, NOW_MS)

    assert set(suspects) == {"orders"}
    assert topics.on_deleted("orders") == [DeletedTopic(FIRST, RecreatedTopic(SECOND, NOW_MS))]

    assert (topics.topic_id("orders"), topics.topic_name(FIRST), topics.partitions_of("orders")) == (SECOND, None, 1)


def test_a_topic_that_offsets_were_kept_for_may_be_gone_already() -> None:
    topics = MirroredTopics()
    topics.expect([("orders", FIRST), ("bills", SECOND)], NOW_MS)

    topics.on_listed({"bills": KnownTopic(SECOND, 1)}, NOW_MS)
    suspects = topics.on_listed({"bills": KnownTopic(SECOND, 1)}, NOW_MS)

    assert (set(suspects), topics.on_deleted("orders")) == ({"orders"}, [DeletedTopic(FIRST, None)])
    assert topics.topic_id("bills") == SECOND


def test_a_topic_that_was_made_anew_inherits_what_was_committed_since_the_old_one_was_last_listed() -> None:
    topics = MirroredTopics()
    old, anew = {"orders": KnownTopic(FIRST, 3)}, {"orders": KnownTopic(SECOND, 3)}
    for at_ms, listed in [(1000, old), (2000, old), (3000, anew), (4000, anew)]:
        topics.on_listed(listed, at_ms)

    assert topics.on_deleted("orders") == [DeletedTopic(FIRST, RecreatedTopic(SECOND, 2000))]


def test_a_topic_that_nobody_here_has_seen_leaves_nothing_that_was_committed_before_it_was_expected() -> None:
    topics = MirroredTopics()
    topics.expect([("orders", FIRST)], 1000)
    for at_ms in (2000, 3000):
        topics.on_listed({"orders": KnownTopic(SECOND, 3)}, at_ms)

    assert topics.on_deleted("orders") == [DeletedTopic(FIRST, RecreatedTopic(SECOND, 1000))]


def test_a_topic_whose_deletion_was_lost_is_known_to_have_been_there_until_then() -> None:
    topics = MirroredTopics()
    anew = {"orders": KnownTopic(SECOND, 3)}
    topics.on_listed({"orders": KnownTopic(FIRST, 3)}, 1000)
    topics.on_listed(anew, 2000)
    topics.on_listed(anew, 3000)
    deleted = topics.on_deleted("orders")

    topics.expect([("orders", FIRST)], 5000)
    for at_ms in (6000, 7000):
        topics.on_listed(anew, at_ms)

    assert topics.on_deleted("orders") == deleted


def test_topics_that_are_long_gone_are_forgotten() -> None:
    topics = MirroredTopics()
    topics.on_listed({"orders": KnownTopic(FIRST, 3)}, 0)
    topics.on_listed({}, 1000)
    topics.on_listed({}, 2000)
    topics.on_deleted("orders")

    topics.on_listed({}, 4_000_000)

    assert not topics._seen_ms
