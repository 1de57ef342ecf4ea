"""Names of groups and topics that a shell completes, from the cluster that the line names so far.

Whoever presses Tab waits. So all of it has a second, and what fails completes nothing and says nothing.
"""

import os
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from kcoord.admin.cluster_client import LiveCluster

PATIENCE: Final = 1.0  # seconds, unless KCOORD_COMPLETION_TIMEOUT says otherwise


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _matching(incomplete, lambda: _of_cluster(ctx, lambda cluster: cluster.list_groups().found))


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _matching(incomplete, lambda: _of_cluster(ctx, lambda cluster: cluster.topics().found))


def _of_cluster(ctx: click.Context, names: "Callable[[LiveCluster], Iterable[str]]") -> Iterable[str]:
    from kcoord.admin.opening import open_cluster

    from .options.connection_options import connection

    with open_cluster(connection(ctx)) as cluster:
        return names(cluster)


def _matching(incomplete: str, find: Callable[[], Iterable[str]]) -> list[str]:
    """The names that start so. Those that a shell would act on are left out: completed, they stand in its line."""
    return sorted(name for name in _soon(find) if name.startswith(incomplete) and _is_plain(name))


def _is_plain(name: str) -> bool:
    """Letters of any script are; what begins with a dash would be an option."""
    plain = "".join(char if char.isascii() else "x" for char in name)
    return name.isprintable() and not name.startswith("-") and shlex.quote(plain) == plain


def _soon(find: Callable[[], Iterable[str]]) -> Iterable[str]:
    """What is found within a second; nothing if it takes longer or fails. The thread that looks ends with us."""
    from queue import Empty, SimpleQueue  # here: who is not completing anything needs none
    from threading import Thread

    found: SimpleQueue[Iterable[str]] = SimpleQueue()

    def look() -> None:
        try:
            found.put(find())
        except Exception:
            found.put(())

    Thread(target=look, daemon=True).start()
    try:
        return found.get(timeout=_patience())
    except Empty:
        return ()


def _patience() -> float:
    try:
        return float(os.environ["KCOORD_COMPLETION_TIMEOUT"])
    except (KeyError, ValueError):
        return PATIENCE
