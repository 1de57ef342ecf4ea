"""Runs the whole examination in one call, for tests of single findings."""

from collections.abc import Iterable
from typing import Any

from kcoord.admin.doctor.case import Facts
from kcoord.admin.doctor.examining import examine
from kcoord.admin.doctor.finding import Code, Finding
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.model import Topic


def findings(*snapshots: Snapshot, topics: Iterable[Topic] = (), **facts: Any) -> dict[Code, Finding]:
    """Returns the findings by code; no check may report a group twice."""
    found = examine(snapshots, Facts(topics={topic.name: topic for topic in topics}, **facts))
    by_code = {finding.code: finding for finding in found}
    assert len(by_code) == len(found)
    return by_code
