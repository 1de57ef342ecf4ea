"""The outcomes of a change that is disturbed: a real cluster, whose answers are lost, or whose groups change
meanwhile."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.committed_offsets import Commits
from kcoord.admin.model import Answers, Committed, TopicPartition
from kcoord.admin.offsets.applying import GROUPS_AT_ONCE, Applied, Status, apply
from kcoord.admin.offsets.files.undo_files import UndoDestination, read_undo
from kcoord.admin.offsets.planning import plan_reset
from kcoord.admin.offsets.resetting import ToOffset
from kcoord.admin.wire.cluster import WireCluster
from kcoord.errors import ErrorCode
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.offsets_scene import OffsetsScene

TP = TopicPartition("orders", 0)
OLD, NEW = Committed(50, -1, "mine"), Committed(5)


@pytest.fixture(scope="module")
def scene(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[OffsetsScene]:
    with kcoord_cluster_factory() as cluster:
        scene = OffsetsScene(cluster.bootstrap)
        scene.make_topic("orders")
        scene.produce("orders", 0, [1_700_000_000_000] * 100)
        yield scene


@pytest.fixture
def group(scene: OffsetsScene, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)
    scene.commit(name, {("orders", 0): (50, -1, "mine")})
    return name


class Unsteady(WireCluster):
    """A client of a live cluster whose link fails on demand, before or after the broker has received the request."""

    loses_commit = False
    loses_answer = False
    loses_readings_after = False
    is_deaf = False
    answer: ErrorCode | str | None = None
    was_asked = False
    afterwards: Callable[[], None] | None = None

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Answers[TopicPartition, ErrorCode]:
        if self.loses_commit:
            raise ConnectionError("the line is cut")
        answers = super().commit(group, {} if self.is_deaf else offsets)
        self.was_asked = True
        if self.afterwards is not None:
            self.afterwards()
        if self.loses_answer:
            raise ConnectionError("the line is cut")
        if isinstance(self.answer, str):
            raise RuntimeError(self.answer)
        return answers if self.answer is None else Answers(found=dict.fromkeys(offsets, self.answer))

    def committed(self, groups: Collection[str]) -> Answers[str, Commits]:
        if self.loses_readings_after and self.was_asked:
            raise ConnectionError("the line is cut")
        return super().committed(groups)


def applied(
    scene: OffsetsScene, group: str, folder: Path, change: Callable[[Unsteady], None] = lambda _: None
) -> Applied:
    cluster = Unsteady(Connection(bootstrap=(scene.bootstrap,)))
    try:
        plan = plan_reset(cluster, [group], scope=None, target=ToOffset(offset=5), now=datetime.now(UTC)).plan
        change(cluster)
        return apply(cluster, plan, undo=UndoDestination(folder=folder), now=datetime.now(UTC))
    finally:
        cluster.close()


def test_what_was_done_is_told_with_what_is_committed_now(scene: OffsetsScene, group: str, tmp_path: Path) -> None:
    done = applied(scene, group, tmp_path)
    assert [(each.status, each.now) for each in done.outcomes] == [(Status.DONE, NEW)]
    assert done.failed == ()
    assert done.undo_path is not None
    ((name, (step,)),) = read_undo(done.undo_path).groups
    assert (name, step.tp, step.before, step.after) == (group, TP, OLD, NEW)


def test_a_change_whose_answer_was_lost_is_told_by_what_is_there(
    scene: OffsetsScene, group: str, tmp_path: Path
) -> None:
    def lose(cluster: Unsteady) -> None:
        cluster.loses_answer = True

    done = applied(scene, group, tmp_path, lose)
    assert [(each.status, each.now) for each in done.outcomes] == [(Status.DONE, NEW)]


def test_a_change_that_may_still_be_under_way_is_unknown_and_its_undo_file_is_kept(
    scene: OffsetsScene, group: str, tmp_path: Path
) -> None:
    def lose(cluster: Unsteady) -> None:
        cluster.loses_commit = True

    done = applied(scene, group, tmp_path, lose)
    (outcome,) = done.failed
    assert (outcome.status, outcome.now, outcome.was_read) == (Status.UNKNOWN, OLD, True)
    assert outcome.reason == "no answer came: the line is cut"
    assert done.undo_path is not None
    assert done.undo_path.exists()


def test_what_someone_else_commits_right_after_it_is_told(scene: OffsetsScene, group: str, tmp_path: Path) -> None:
    def overtake(cluster: Unsteady) -> None:
        cluster.afterwards = lambda: scene.commit(group, {("orders", 0): 77})

    (outcome,) = applied(scene, group, tmp_path, overtake).failed
    assert (outcome.status, outcome.now) == (Status.OVERWRITTEN, Committed(77))


def test_what_cannot_be_read_again_is_unknown(scene: OffsetsScene, group: str, tmp_path: Path) -> None:
    def lose(cluster: Unsteady) -> None:
        cluster.loses_readings_after = True

    (outcome,) = applied(scene, group, tmp_path, lose).failed
    assert (outcome.status, outcome.was_read) == (Status.UNKNOWN, False)
    assert outcome.reason == "the broker took it; it could not be read again"
    assert scene.offsets(group) == {("orders", 0): 5}


MAYBE = [
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.unknown_server_error,
    ErrorCode.request_timed_out,
    ErrorCode.network_exception,
]


@pytest.mark.parametrize("answer", [*MAYBE, ErrorCode.unknown_member_id, "no version of it is known"])
def test_what_is_committed_is_done_whatever_was_said_and_its_undo_file_is_kept(
    scene: OffsetsScene, group: str, tmp_path: Path, answer: ErrorCode | str
) -> None:
    def mislead(cluster: Unsteady) -> None:
        cluster.answer = answer

    done = applied(scene, group, tmp_path, mislead)
    assert [(each.status, each.now) for each in done.outcomes] == [(Status.DONE, NEW)]
    assert done.undo_path is not None
    assert done.undo_path.exists()


@pytest.mark.parametrize("answer", MAYBE)
def test_what_may_be_done_soon_is_unknown_and_its_undo_file_is_kept(
    scene: OffsetsScene, group: str, tmp_path: Path, answer: ErrorCode
) -> None:
    def ignore(cluster: Unsteady) -> None:
        cluster.is_deaf, cluster.answer = True, answer

    done = applied(scene, group, tmp_path, ignore)
    assert [(each.status, each.now) for each in done.outcomes] == [(Status.UNKNOWN, OLD)]
    assert done.undo_path is not None
    assert done.undo_path.exists()


def test_what_was_refused_and_is_as_before_needs_no_undo_file(scene: OffsetsScene, group: str, tmp_path: Path) -> None:
    def refuse(cluster: Unsteady) -> None:
        cluster.is_deaf, cluster.answer = True, ErrorCode.unknown_member_id

    done = applied(scene, group, tmp_path, refuse)
    assert [(each.status, each.now) for each in done.outcomes] == [(Status.REFUSED, OLD)]
    assert done.undo_path is None
    assert list(tmp_path.iterdir()) == []


def test_the_undo_file_is_kept_if_what_was_refused_is_not_as_before(
    scene: OffsetsScene, group: str, tmp_path: Path
) -> None:
    def refuse(cluster: Unsteady) -> None:
        cluster.is_deaf, cluster.answer = True, ErrorCode.unknown_member_id
        cluster.afterwards = lambda: scene.commit(group, {("orders", 0): 77})

    done = applied(scene, group, tmp_path, refuse)
    assert [(each.status, each.now) for each in done.outcomes] == [(Status.REFUSED, Committed(77))]
    assert done.undo_path is not None
    assert done.undo_path.exists()


def test_a_group_that_was_changed_while_others_before_it_were_is_left_alone(
    scene: OffsetsScene, tmp_path: Path
) -> None:
    groups = [f"many-{number:02}" for number in range(GROUPS_AT_ONCE + 2)]
    for name in groups:
        scene.commit(name, {("orders", 0): 50})
    cluster = Unsteady(Connection(bootstrap=(scene.bootstrap,)))
    cluster.afterwards = lambda: scene.commit(groups[-1], {("orders", 0): 77})
    written: list[tuple[Path, bool]] = []
    try:
        plan = plan_reset(cluster, groups, scope=None, target=ToOffset(offset=5), now=datetime.now(UTC)).plan
        done = apply(
            cluster,
            plan,
            undo=UndoDestination(folder=tmp_path),
            now=datetime.now(UTC),
            on_undo_written=lambda path: written.append((path, cluster.was_asked)),
        )
    finally:
        cluster.close()
    (outcome,) = done.failed
    assert (outcome.group, outcome.status, outcome.now) == (groups[-1], Status.REFUSED, Committed(77))
    assert "changed since" in outcome.reason
    assert "the plan found offset 50, and now there is offset 77" in outcome.reason
    assert [scene.offsets(name)[("orders", 0)] for name in groups] == [5] * (GROUPS_AT_ONCE + 1) + [77]
    assert written == [(done.undo_path, False)]
