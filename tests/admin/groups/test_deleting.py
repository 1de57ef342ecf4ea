"""The outcomes of a deletion that is disturbed: a real cluster, whose answers are lost or wrong."""

import re
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.deleting import Deleted, Status, delete, plan_deletion
from kcoord.admin.model import Answers, Committed, Group, TopicPartition
from kcoord.admin.offsets.files.undo_files import UndoDestination, read_undo
from kcoord.admin.wire.cluster import WireCluster
from kcoord.errors import ErrorCode
from kcoord.testing.cluster import Cluster

TP = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def bootstrap(kcoord_cluster_factory: Callable[..., Cluster]) -> str:
    return kcoord_cluster_factory(topics={"orders": 1}).bootstrap


class Unsteady(WireCluster):
    """A client of a live cluster that ignores a request, or executes it and answers something else."""

    is_deaf = False
    answer: ErrorCode | Exception | None = None
    loses_readings_after = False
    was_asked = False
    afterwards: Callable[[], object] = staticmethod(lambda: None)

    def delete_groups(self, names: Collection[str]) -> Answers[str, ErrorCode]:
        answers = super().delete_groups([] if self.is_deaf else names)
        self.was_asked = True
        self.afterwards()
        if isinstance(self.answer, Exception):
            raise self.answer
        return answers if self.answer is None else Answers(found=dict.fromkeys(names, self.answer))

    def describe_groups(self, names: Collection[str]) -> Answers[str, Group]:
        if self.loses_readings_after and self.was_asked:
            raise ConnectionError("the line is cut")
        return super().describe_groups(names)


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Unsteady]:
    cluster = Unsteady(Connection(bootstrap=(bootstrap,)))
    yield cluster
    cluster.close()


@pytest.fixture
def group(cluster: Unsteady, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)
    assert cluster.commit(name, {TP: Committed(5, -1, "mine")}).refused == ()
    return name


def deleted(cluster: Unsteady, group: str, folder: Path) -> Deleted:
    plan = plan_deletion(cluster, [group])
    return delete(cluster, plan, undo=UndoDestination(folder=folder), now=datetime.now(UTC))


MAYBE = [
    ErrorCode.network_exception,
    ErrorCode.request_timed_out,
    ErrorCode.group_id_not_found,
    ErrorCode.coordinator_not_available,
]


@pytest.mark.parametrize("answer", [*MAYBE, ConnectionError("the line is cut"), RuntimeError("no version")])
def test_a_group_that_is_gone_is_deleted_whatever_was_said_and_its_undo_file_is_kept(
    cluster: Unsteady, group: str, tmp_path: Path, answer: ErrorCode | Exception
) -> None:
    cluster.answer = answer
    done = deleted(cluster, group, tmp_path)
    assert done.outcomes == {group: (Status.DELETED, "")}
    assert done.undo_path is not None
    ((name, (step,)),) = read_undo(done.undo_path).groups
    assert (name, step.tp, step.before) == (group, TP, Committed(5, -1, "mine"))


def test_a_group_that_cannot_be_read_again_is_unknown_and_its_undo_file_is_kept(
    cluster: Unsteady, group: str, tmp_path: Path
) -> None:
    cluster.answer = ErrorCode.network_exception
    cluster.loses_readings_after = True
    done = deleted(cluster, group, tmp_path)
    assert done.outcomes[group].status is Status.UNKNOWN
    assert "it could not be read again" in done.outcomes[group].why
    assert done.failed == (group,)
    assert done.undo_path is not None
    assert done.undo_path.exists()


def test_a_group_that_is_there_still_after_a_lost_answer_is_unknown(
    cluster: Unsteady, group: str, tmp_path: Path
) -> None:
    cluster.is_deaf = True
    cluster.answer = ConnectionError("the line is cut")
    done = deleted(cluster, group, tmp_path)
    assert done.outcomes[group] == (
        Status.UNKNOWN,
        "it failed: the line is cut; it is there still, and may be deleted yet",
    )
    assert done.undo_path is not None
    assert done.undo_path.exists()


def test_the_undo_file_is_removed_if_all_is_there_as_it_was(cluster: Unsteady, group: str, tmp_path: Path) -> None:
    cluster.is_deaf = True
    cluster.answer = ErrorCode.non_empty_group
    done = deleted(cluster, group, tmp_path)
    assert done.outcomes[group].status is Status.NOT_DELETED
    assert (done.undo_path, done.has_removed_undo) == (None, True)
    assert list(tmp_path.iterdir()) == []


def test_the_undo_file_is_kept_if_a_refused_group_has_other_offsets_now(
    cluster: Unsteady, group: str, tmp_path: Path
) -> None:
    cluster.is_deaf = True
    cluster.answer = ErrorCode.non_empty_group
    cluster.afterwards = lambda: cluster.commit(group, {TP: Committed(7)})
    done = deleted(cluster, group, tmp_path)
    assert done.outcomes[group].status is Status.NOT_DELETED
    assert done.undo_path is not None
    assert done.undo_path.exists()


def test_where_the_undo_file_is_is_told_before_anything_is_deleted(
    cluster: Unsteady, group: str, tmp_path: Path
) -> None:
    written: list[tuple[Path, bool]] = []
    done = delete(
        cluster,
        plan_deletion(cluster, [group]),
        undo=UndoDestination(folder=tmp_path),
        now=datetime.now(UTC),
        on_undo_written=lambda path: written.append((path, cluster.was_asked)),
    )
    assert written == [(done.undo_path, False)]
