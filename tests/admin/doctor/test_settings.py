"""Findings about the settings of groups, and of a consumer's config."""

import pytest

from kcoord.admin.doctor.finding import Code, Severity
from kcoord.admin.doctor.settings import consumer_settings
from kcoord.admin.model import GroupType
from tests.admin.doctor.examined import findings
from tests.support.admin.snapshots import group, member, seen, snapshot

SAFE = {"auto.offset.reset": "earliest"}


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [(GroupType.CONSUMER, "consumer"), (GroupType.SHARE, "share"), (GroupType.STREAMS, "streams")],
)
def test_a_group_whose_session_is_hardly_longer_than_a_heartbeat_is_told(kind: GroupType, prefix: str) -> None:
    configs = {f"{prefix}.session.timeout.ms": "10000", f"{prefix}.heartbeat.interval.ms": "5000"}
    found = findings(snapshot(seen(group(member("a", "t-0"), kind=kind))), group_configs={"g": configs})
    assert found.keys() == {Code.SESSION_TOO_SHORT}
    assert found[Code.SESSION_TOO_SHORT].title == "a session is as long as 2.0 heartbeats"
    assert "15000 or more" in found[Code.SESSION_TOO_SHORT].advice


def test_settings_in_proportion_are_well_and_classic_groups_have_none() -> None:
    well = {"consumer.session.timeout.ms": "15000", "consumer.heartbeat.interval.ms": "5000"}
    bad = {"consumer.session.timeout.ms": "5000", "consumer.heartbeat.interval.ms": "5000"}
    consumers, classic = (group(member("a", "t-0"), kind=kind) for kind in (GroupType.CONSUMER, GroupType.CLASSIC))
    assert not findings(snapshot(seen(consumers)), group_configs={"g": well})
    assert not findings(snapshot(seen(consumers)), group_configs={})
    assert not findings(snapshot(seen(classic)), group_configs={"g": bad})


@pytest.mark.parametrize(
    ("properties", "code", "severity"),
    [
        ({"session.timeout.ms": "10000", "heartbeat.interval.ms": "5000"}, Code.SESSION_TOO_SHORT, Severity.WARNING),
        ({"session.timeout.ms": "6000", "heartbeat.interval.ms": "6000"}, Code.SESSION_TOO_SHORT, Severity.ERROR),
        ({"session.timeout.ms": "6500"}, Code.SESSION_TOO_SHORT, Severity.WARNING),
        (
            {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"},
            Code.SESSION_OUT_OF_BROKER_RANGE,
            Severity.WARNING,
        ),
        (
            {"session.timeout.ms": "60000", "max.poll.interval.ms": "30000"},
            Code.POLL_INTERVAL_TOO_SHORT,
            Severity.WARNING,
        ),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"},
            Code.OLD_ASSIGNOR,
            Severity.NOTICE,
        ),
        ({"auto.offset.reset": "latest"}, Code.OFFSET_RESET_UNSAFE, Severity.NOTICE),
        ({"auto.offset.reset": "none"}, Code.OFFSET_RESET_UNSAFE, Severity.NOTICE),
        (
            {"group.protocol": "consumer", "session.timeout.ms": "9000"},
            Code.SETTING_WITHOUT_EFFECT,
            Severity.WARNING,
        ),
        ({"session.timeout.ms": "45s"}, Code.SETTING_UNREADABLE, Severity.ERROR),
    ],
)
def test_a_clients_file_is_examined(properties: dict[str, str], code: Code, severity: Severity) -> None:
    (found,) = consumer_settings(SAFE | properties)
    assert (found.code, found.severity, found.group) == (code, severity, "")
    assert any(name in line for name in properties for line in found.evidence)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"session.timeout.ms": "30000", "heartbeat.interval.ms": "10000", "max.poll.interval.ms": "30000"},
        {"partition.assignment.strategy": "cooperative-sticky"},
        {"partition.assignment.strategy": "x.RangeAssignor, x.CooperativeStickyAssignor"},
        {"auto.offset.reset": "none", "enable.auto.commit": "false"},
        {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
    ],
)
def test_a_good_file_has_no_findings(properties: dict[str, str]) -> None:
    assert consumer_settings(SAFE | properties) == ()


def test_defaults_are_named_as_such() -> None:
    (found,) = consumer_settings(SAFE | {"heartbeat.interval.ms": "20000"})
    assert found.evidence == ("session.timeout.ms = 45000 (as nothing is said)", "heartbeat.interval.ms = 20000")


def test_a_file_without_a_word_about_resets_skips_records() -> None:
    (found,) = consumer_settings({})
    assert found.evidence == ("auto.offset.reset = latest (as nothing is said)",)
