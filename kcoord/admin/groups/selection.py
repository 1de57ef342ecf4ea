"""Selects groups: by name, by a pattern, or all of them."""

import re
from collections.abc import Collection, Sequence

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.model import Refusal
from kcoord.admin.name_patterns import compile_name_pattern
from kcoord.exceptions import InvalidInput


class NoGroupSelected(InvalidInput, RuntimeError):
    """An error: no group was named, or none of the existing ones matches."""


def select_groups(
    cluster: ClusterClient, *, names: Sequence[str] = (), pattern: str | None = None, everything: bool = False
) -> tuple[list[str], tuple[Refusal, ...]]:
    """Returns the names of the groups that are named, match the pattern, or exist (`everything`), and errors of brokers
    that could not list theirs. Given names are not checked."""
    if not pattern and not everything:
        return list(dict.fromkeys(names)), ()
    listed = cluster.list_groups()
    wanted = matching_names(listed.found, pattern) if pattern else sorted(listed.found)
    if not wanted and not names and not listed.refused:
        raise NoGroupSelected(
            f"no group matches {pattern!r}: there are {len(listed.found)}, see `kcoord groups list`"
            if pattern
            else "the cluster has no groups"
        )
    return list(dict.fromkeys((*names, *wanted))), listed.refused


def matching_names(names: Collection[str], pattern: str) -> list[str]:
    """Returns the names in which the regular expression is found, sorted. Raises ValueError if it is not one."""
    try:
        found = compile_name_pattern(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return sorted(name for name in names if found.search(name))
