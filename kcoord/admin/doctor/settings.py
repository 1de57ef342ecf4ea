"""Checks for settings out of proportion: of KIP-848 groups as the cluster has them, and of a consumer's config.

No API reports the settings of a classic member; `--consumer-config` is the file that it is started with.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kcoord.admin.doctor.case import Case
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.durations import format_duration
from kcoord.admin.model import GroupType

_HEARTBEATS: Final = 3  # should fit into a session, so that one or two may be lost

# The defaults of Kafka's consumer, in ms.
_SESSION: Final = ("session.timeout.ms", 45_000)
_HEARTBEAT: Final = ("heartbeat.interval.ms", 3_000)
_POLL: Final = ("max.poll.interval.ms", 300_000)

# The defaults of a broker: group.min.session.timeout.ms, group.max.session.timeout.ms.
_BROKER_RANGE: Final = (6_000, 1_800_000)

# Set by the client in a classic group, by the broker in a KIP-848 group (KIP-848, "Consumer Configurations").
_WITHOUT_EFFECT: Final = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
_PREFIXES: Final = {GroupType.CONSUMER: "consumer", GroupType.SHARE: "share", GroupType.STREAMS: "streams"}


def group_settings(case: Case) -> Iterable[Finding]:
    """Finds a session timeout that is too short for the heartbeat interval, in the configs of KIP-848, share and
    streams groups."""
    prefix = _PREFIXES.get(case.group.type)
    configs = case.facts.group_configs.get(case.group.name, {})
    session = _parse_integer(configs.get(f"{prefix}.session.timeout.ms"))
    heartbeat = _parse_integer(configs.get(f"{prefix}.heartbeat.interval.ms"))
    if prefix is None or session is None or heartbeat is None or session >= _HEARTBEATS * heartbeat:
        return
    yield case.finding(
        Severity.WARNING,
        Code.SESSION_TOO_SHORT,
        f"a session is as long as {session / heartbeat:.1f} heartbeats",
        evidence=[
            f"{prefix}.session.timeout.ms = {session}",
            f"{prefix}.heartbeat.interval.ms = {heartbeat}",
        ],
        advice=(
            f"Set {prefix}.session.timeout.ms of the group to {_HEARTBEATS * heartbeat} or more, or heartbeats closer"
            " together (`kafka-configs --alter --entity-type groups`): one heartbeat that is late removes a member."
        ),
        session_timeout_ms=session,
        heartbeat_interval_ms=heartbeat,
    )


def consumer_settings(properties: Mapping[str, str]) -> tuple[Finding, ...]:
    """Finds problems in a consumer's properties, with Java's names. The findings are about no group of the cluster."""
    return tuple(_ConsumerConfig(properties).findings())


@dataclass(frozen=True, slots=True)
class _ConsumerConfig:
    properties: Mapping[str, str]

    def findings(self) -> Iterator[Finding]:
        unreadable = [name for name, _ in (_SESSION, _HEARTBEAT, _POLL) if self._is_unreadable(name)]
        for name in unreadable:
            yield self._unreadable(name)
        if not unreadable:
            yield from self._classic() if not self._is_new_protocol else self._without_effect()
            yield from self._poll_interval()
        yield from self._reset()

    @property
    def _is_new_protocol(self) -> bool:
        return self.properties.get("group.protocol", "classic").strip().lower() == "consumer"

    def _classic(self) -> Iterator[Finding]:
        session, heartbeat = self._ms(*_SESSION), self._ms(*_HEARTBEAT)
        if session < _HEARTBEATS * heartbeat:
            yield _config_finding(
                Severity.WARNING if session > heartbeat else Severity.ERROR,
                Code.SESSION_TOO_SHORT,
                f"a session is as long as {session / max(1, heartbeat):.1f} heartbeats",
                evidence=[self._line(*_SESSION), self._line(*_HEARTBEAT)],
                advice=f"Set heartbeat.interval.ms to a third of session.timeout.ms, {session // 3} or less.",
                session_timeout_ms=session,
                heartbeat_interval_ms=heartbeat,
            )
        shortest, longest = _BROKER_RANGE
        if not shortest <= session <= longest:
            yield _config_finding(
                Severity.WARNING,
                Code.SESSION_OUT_OF_BROKER_RANGE,
                f"brokers refuse a session of {format_duration(session / 1000)} unless they are set to allow it",
                evidence=[
                    self._line(*_SESSION),
                    f"brokers allow {shortest} to {longest} unless they are told otherwise",
                ],
                advice=(
                    "Keep within what the brokers allow, or change group.min.session.timeout.ms or"
                    " group.max.session.timeout.ms there: otherwise joining fails with INVALID_SESSION_TIMEOUT."
                ),
                session_timeout_ms=session,
            )
        if old := self._old_assignors():
            yield _config_finding(
                Severity.NOTICE,
                Code.OLD_ASSIGNOR,
                f"{', '.join(old)} stops all members in every rebalance",
                evidence=[f"partition.assignment.strategy = {self.properties['partition.assignment.strategy']}"],
                advice=(
                    "CooperativeStickyAssignor shares out evenly over many topics, and takes only those partitions from"
                    " members that move. Change in two rolling restarts: first beside the old one, then alone."
                ),
                assignors=old,
            )

    def _without_effect(self) -> Iterator[Finding]:
        if ignored := [name for name in _WITHOUT_EFFECT if name in self.properties]:
            yield _config_finding(
                Severity.WARNING,
                Code.SETTING_WITHOUT_EFFECT,
                f"{', '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect with group.protocol=consumer",
                evidence=[f"{name} = {self.properties[name]}" for name in ignored],
                advice=(
                    "Leave them out: Java's consumer refuses to start with them. In a KIP-848 group the broker keeps"
                    " these: consumer.session.timeout.ms and consumer.heartbeat.interval.ms of the group, and"
                    " group.remote.assignor of the client."
                ),
                settings=ignored,
            )

    def _poll_interval(self) -> Iterator[Finding]:
        session, poll = self._ms(*_SESSION), self._ms(*_POLL)
        if self._is_new_protocol or poll >= session:
            return
        yield _config_finding(
            Severity.WARNING,
            Code.POLL_INTERVAL_TOO_SHORT,
            "the time between two polls may be shorter than a session",
            evidence=[self._line(*_POLL), self._line(*_SESSION)],
            advice=(
                "Set max.poll.interval.ms to the longest that a batch of max.poll.records takes, and at least to"
                " session.timeout.ms: a member that works for longer leaves the group, and librdkafka refuses to start."
            ),
            max_poll_interval_ms=poll,
            session_timeout_ms=session,
        )

    def _reset(self) -> Iterator[Finding]:
        reset = self.properties.get("auto.offset.reset", "latest").strip().lower()
        commits = self.properties.get("enable.auto.commit", "true").strip().lower() != "false"
        if reset in ("latest", "largest", "end"):
            yield _config_finding(
                Severity.NOTICE,
                Code.OFFSET_RESET_UNSAFE,
                "without a valid offset, members go on at the end and skip what is unread",
                evidence=[
                    "auto.offset.reset = " + self.properties.get("auto.offset.reset", "latest (as nothing is said)")
                ],
                advice=(
                    "If no record may be missed, say earliest, or none so that the application stops instead. It counts"
                    " for new partitions, too: what is written before a member notices them is skipped."
                ),
                auto_offset_reset=reset,
            )
        elif reset in ("none", "error") and commits:
            yield _config_finding(
                Severity.NOTICE,
                Code.OFFSET_RESET_UNSAFE,
                "a new group, or one whose offsets expired, stops at once",
                evidence=[f"auto.offset.reset = {reset}", "enable.auto.commit = true"],
                advice=(
                    "With none, every partition needs a committed offset before the first poll, which automatic commits"
                    " do not give: commit the first ones by hand (`kcoord offsets reset`), also for new partitions."
                ),
                auto_offset_reset=reset,
            )

    def _old_assignors(self) -> list[str]:
        """Returns the configured assignors, if none of them is sticky."""
        configured = self.properties.get("partition.assignment.strategy", "")
        names = [name.strip().rpartition(".")[2] for name in configured.split(",") if name.strip()]
        return [] if any("sticky" in name.lower() for name in names) else names

    def _is_unreadable(self, name: str) -> bool:
        return name in self.properties and _parse_integer(self.properties[name]) is None

    def _unreadable(self, name: str) -> Finding:
        return _config_finding(
            Severity.ERROR,
            Code.SETTING_UNREADABLE,
            f"{name} is not a whole number",
            evidence=[f"{name} = {self.properties[name]}"],
            advice=f"Write {name} in milliseconds, digits only.",
            setting=name,
        )

    def _ms(self, name: str, default: int) -> int:
        value = _parse_integer(self.properties.get(name))
        return default if value is None else value

    def _line(self, name: str, default: int) -> str:
        return f"{name} = {self._ms(name, default)}" + ("" if name in self.properties else " (as nothing is said)")


def _config_finding(
    severity: Severity, code: Code, title: str, *, evidence: Iterable[str], advice: str, **facts: Any
) -> Finding:
    return Finding(
        severity=severity, code=code, group="", title=title, evidence=tuple(evidence), advice=advice, facts=facts
    )


def _parse_integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
