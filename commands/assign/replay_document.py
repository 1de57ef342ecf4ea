"""The document of `kcoord assign replay`, for JSON and YAML."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kcoord.assignors.replaying.absences import Absence, Avoided
from kcoord.assignors.replaying.comparing import HistoryComparison, Question, Replayed, WhatIf
from kcoord.assignors.replaying.replay import Cost

from ..pipeline.findings import time_text
from .replay_tables import what_if_text


def history_document(
    histories: Sequence[HistoryComparison], question: Question, *, is_detailed: bool
) -> dict[str, Any]:
    """Returns the result as a JSON object; `is_detailed` adds each rebalance. Times that partitions paused are in
    partition-milliseconds."""
    return {
        "heartbeat_interval_ms": question.heartbeat_ms,
        "session_timeout_ms": question.session_timeout_ms,
        "groups": [_group(each, is_detailed=is_detailed) for each in histories],
    }


def _group(history: HistoryComparison, *, is_detailed: bool) -> dict[str, Any]:
    return {
        "group": history.group,
        "protocols": list(history.protocols),
        "partitions": dict(sorted(history.counts.items())),
        "recorded": _replayed(history.recorded, is_detailed=is_detailed),
        "strategies": [_replayed(each, is_detailed=is_detailed) for each in history.replayed],
        "absences": [_absence(each) for each in history.absences],
        "what_ifs": [_what_if(each, is_detailed=is_detailed) for each in history.what_ifs],
    }


def _replayed(replayed: Replayed, *, is_detailed: bool) -> dict[str, Any]:
    each = {"each": [_cost(cost) for cost in replayed.costs]} if is_detailed else {}
    return {"strategy": replayed.strategy, **asdict(replayed.total), **each}


def _cost(cost: Cost) -> dict[str, Any]:
    return {"at": time_text(cost.at_ms), **{name: value for name, value in asdict(cost).items() if name != "at_ms"}}


def _what_if(what_if: WhatIf, *, is_detailed: bool) -> dict[str, Any]:
    return {
        "what_if": what_if.name,
        "assumes": what_if_text(what_if),
        "session_timeout_ms": what_if.session_timeout_ms,
        "avoided": [_avoided(each) for each in what_if.avoided],
        "unread_partition_ms": what_if.unread_partition_ms,
        "strategies": [_replayed(each, is_detailed=is_detailed) for each in what_if.replayed],
    }


def _avoided(avoided: Avoided) -> dict[str, Any]:
    return {
        "generations": [each.number for each in avoided.change.recorded],
        "at": time_text(avoided.change.first.written_ms),
        "is_rebalance": avoided.change.kind.is_rebalance,
        "absences": [_absence(each) for each in avoided.absences],
    }


def _absence(absence: Absence) -> dict[str, Any]:
    return {
        "member_id": absence.member.member_id,
        "new_member_id": absence.new_id,
        "instance_id": absence.member.instance_id,
        "client_id": absence.member.client_id,
        "client_host": absence.member.client_host,
        "departure": absence.departure.value,
        "away_ms": absence.away_ms,
    }
