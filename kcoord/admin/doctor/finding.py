"""A finding of the doctor, its severity, and the codes that identify findings for monitoring."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding of the doctor is. ERROR: records are lost or not processed now. WARNING: they soon will be, or
    resources are wasted. NOTICE: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"

    @property
    def rank(self) -> int:
        """The position in the order of severities; 0 is the worst."""
        return list(Severity).index(self)

    def is_at_least(self, other: "Severity") -> bool:
        """Whether this severity is as bad as the other or worse."""
        return self.rank <= other.rank


class Code(StrEnum):
    """The code of a kind of finding of the doctor. Codes are stable: alerts are written against them. docs/doctor.md
    has a section for each."""

    # members
    IDLE_MEMBERS = "idle-members"
    MIXED_SUBSCRIPTIONS = "mixed-subscriptions"
    MIXED_PROTOCOLS = "mixed-protocols"
    MIXED_STATIC_MEMBERS = "mixed-static-members"
    STATIC_MEMBER_MISSING = "static-member-missing"
    # assignment
    UNOWNED_PARTITIONS = "unowned-partitions"
    SUBSCRIBED_TOPIC_MISSING = "subscribed-topic-missing"
    UNEVEN_ASSIGNMENT = "uneven-assignment"
    # lag
    LAG_GROWING = "lag-growing"
    COMMITS_STALLED = "commits-stand-still"
    NOTHING_COMMITTED = "nothing-committed"
    NO_MEMBERS = "no-members"
    ABANDONED_TOPIC = "abandoned-topic"
    # offsets
    OFFSET_BEFORE_LOG_START = "offset-before-log-start"
    OFFSET_BEYOND_LOG_END = "offset-beyond-log-end"
    OFFSET_NEAR_RETENTION = "offset-near-retention"
    OFFSET_OF_MISSING_PARTITION = "offset-of-missing-partition"
    # rebalances
    STUCK_REBALANCE = "stuck-rebalance"
    FREQUENT_REBALANCES = "frequent-rebalances"
    # settings
    SESSION_TOO_SHORT = "session-too-short"
    POLL_INTERVAL_TOO_SHORT = "poll-interval-too-short"
    SESSION_OUT_OF_BROKER_RANGE = "session-out-of-broker-range"
    OLD_ASSIGNOR = "old-assignor"
    OFFSET_RESET_UNSAFE = "offset-reset-unsafe"
    SETTING_WITHOUT_EFFECT = "setting-without-effect"
    SETTING_UNREADABLE = "setting-unreadable"
    # what could not be examined
    NOT_EXAMINED = "not-told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem of a group that the doctor has found, with evidence and advice.

    Names in title, evidence and advice are unescaped, as the cluster has them: whoever prints them escapes them.
    """

    severity: Severity
    code: Code
    group: str  # empty if it is about no single group
    title: str
    evidence: tuple[str, ...]
    advice: str
    facts: Mapping[str, Any] = field(default_factory=dict)  # the complete evidence, for programs
