"""Counts and logs refusals, rate-limited: a client that retries causes one log line a minute, not one per request."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from kcoord.proxy.forwarding.interceptors import ClientInfo
from kcoord.proxy.guards.guard_rules import Reason
from kcoord.server.log_text import escape_name, quoted

log = logging.getLogger("kcoord.guards")

_QUIET_SECONDS: Final = 60.0
_MAX_REMEMBERED: Final = 1000


class RefusalLog:
    """Counts the requests that guards refuse, by reason and API name, and logs them, rate-limited."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.counts: Counter[tuple[Reason, str]] = Counter()
        self._clock = clock
        # When each was last logged, and how many have been suppressed since.
        self._logged: dict[tuple[str, str, Reason, str], list[float]] = {}

    def refused(self, client: ClientInfo, api_name: str, reason: Reason, group_id: str | None, why: str) -> None:
        """Counts a refused request, and logs it unless one of its kind was just logged."""
        self.counts[reason, api_name] += 1
        key = (client.host, api_name, reason, group_id or "")
        logged = self._logged.get(key)
        if logged and self._clock() < logged[0] + _QUIET_SECONDS:
            logged[1] += 1
            return
        log.warning(
            "refused api=%s reason=%s%s peer=%s client=%s%s why=%s%s",
            api_name,
            reason,
            f" group={escape_name(group_id)}" if group_id is not None else "",
            client.peer,
            escape_name(client.client_id),
            f" principal={escape_name(client.principal)}" if client.principal else "",
            quoted(why),
            f" unsaid={logged[1]:.0f}" if logged and logged[1] else "",
        )
        self._logged.pop(key, None)
        self._logged[key] = [self._clock(), 0]
        if len(self._logged) > _MAX_REMEMBERED:
            del self._logged[next(iter(self._logged))]
