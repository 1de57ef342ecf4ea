"""The event log of groups, for operators: one line for each change."""

import logging
from collections.abc import Iterable
from typing import Final

from kcoord.groups.effects import Event, EventType
from kcoord.server.log_text import escape_name, quoted

log = logging.getLogger("kcoord.groups")

_ORDINARY: Final = frozenset({EventType.MADE, EventType.ID_GIVEN, EventType.JOINED, EventType.GENERATION})


def log_events(events: Iterable[Event]) -> None:
    """Logs a line for each event of a group, such as a rebalance or an expired member, for operators."""
    for event in events:
        level = logging.DEBUG if event.what in _ORDINARY else logging.INFO
        if log.isEnabledFor(level):
            log.log(
                level,
                "%s group=%s generation=%s%s%s",
                event.what,
                escape_name(event.group_id),
                event.generation,
                f" member={escape_name(event.member_id)}" if event.member_id else "",
                f" why={quoted(event.why)}" if event.why else "",
            )
