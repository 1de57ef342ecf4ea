"""Shell completion of group and topic names, from the cluster that the command line names so far.

A user who presses Tab waits for the answer. So the lookup is limited to a second, and a failure completes nothing and
prints nothing.
"""

import os
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from kcoord.admin.cluster_client import ClusterClient

DEFAULT_TIMEOUT: Final = 1.0  # seconds, unless KCOORD_COMPLETION_TIMEOUT is set


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Completes the names of groups for the shell, by listing those of the cluster."""
    return _matching(incomplete, lambda: _names_in_cluster(ctx, lambda cluster: cluster.list_groups().found))


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Completes the names of topics for the shell, by listing those of the cluster."""
    return _matching(incomplete, lambda: _names_in_cluster(ctx, lambda cluster: cluster.topics().found))


def _names_in_cluster(ctx: click.Context, names: "Callable[[ClusterClient], Iterable[str]]") -> Iterable[str]:
    from kcoord.admin.opening import open_cluster

    from ..options.connection_options import connection

    with open_cluster(connection(ctx)) as cluster:
        return names(cluster)


def _matching(incomplete: str, find: Callable[[], Iterable[str]]) -> list[str]:
    """Returns the names that start with the incomplete word, without those that contain characters which a shell
    would interpret."""
    return sorted(name for name in _within_timeout(find) if name.startswith(incomplete) and _is_plain(name))


def _is_plain(name: str) -> bool:
    """Returns whether a shell takes the name literally. Letters of any script are allowed; a leading dash would be
    an option."""
    plain = "".join(char if char.isascii() else "x" for char in name)
    return name.isprintable() and not name.startswith("-") and shlex.quote(plain) == plain


def _within_timeout(find: Callable[[], Iterable[str]]) -> Iterable[str]:
    """Returns the names that are found within the timeout, or nothing if the search takes longer or fails.

    The search runs in a daemon thread, which ends with the process.
    """
    from queue import Empty, SimpleQueue  # imported here, since only a completion needs them
    from threading import Thread

    found: SimpleQueue[Iterable[str]] = SimpleQueue()

    def search() -> None:
        try:
            found.put(find())
        except Exception:
            found.put(())

    Thread(target=search, daemon=True).start()
    try:
        return found.get(timeout=_timeout())
    except Empty:
        return ()


def _timeout() -> float:
    try:
        return float(os.environ["KCOORD_COMPLETION_TIMEOUT"])
    except (KeyError, ValueError):
        return DEFAULT_TIMEOUT
