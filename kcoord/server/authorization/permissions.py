"""Permissions of clients by the authorization rules, and the log of denials."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar
from uuid import UUID

from kcoord.broker.cluster import Cluster
from kcoord.security.rules import CLUSTER_NAME, Kind, Operation, Rights
from kcoord.security.rules_file import BadRules, RulesFile, address_of

log = logging.getLogger("kcoord.server")

_MAX_REMEMBERED: Final = 1000
_LONGEST_SHOWN: Final = 200
Item = TypeVar("Item")
Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Permissions:
    """The permissions of one principal at one host by the authorization rules.

    The `may_topic`, `may_group` and `may_cluster` methods check what was requested: a denial is logged once, or counted
    if there are too many. The `may_silently` methods are for checks whose denial is not logged: what they deny is left
    out of the reply, or another operation may allow it.
    """

    def __init__(self, rights: Rights, principal: str, host: str) -> None:
        self._rights = rights
        self._who = (principal, host)
        self._logged: set[tuple[Operation, Kind, str]] = set()
        self._suppressed = 0

    def may_topic(self, operation: Operation, name: str) -> bool:
        """Returns whether the principal may do this with the topic, and logs a denial."""
        return self._may(operation, Kind.TOPIC, name)

    def may_group(self, operation: Operation, name: str) -> bool:
        """Returns whether the principal may do this with the group, and logs a denial."""
        return self._may(operation, Kind.GROUP, name)

    def may_cluster(self, operation: Operation) -> bool:
        """Returns whether the principal may do this with the cluster, and logs a denial."""
        return self._may(operation, Kind.CLUSTER, CLUSTER_NAME)

    def may_silently(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> bool:
        """Returns whether the principal may do this with the resource. A denial is not logged."""
        return self._rights.may(operation, kind, name)

    def may_any_silently(self, operation: Operation, kind: Kind) -> bool:
        """Returns whether the principal may do this with at least one resource of this kind. A denial is not logged."""
        return self._rights.may_some(operation, kind)

    def operations(self, kind: Kind, name: str = CLUSTER_NAME) -> int:
        """Returns all allowed operations on the resource as a bit field, as in `authorized_operations` of responses."""
        return self._rights.operations(kind, name)

    def _may(self, operation: Operation, kind: Kind, name: str) -> bool:
        if self._rights.may(operation, kind, name):
            return True
        self._log_denial((operation, kind, name[:_LONGEST_SHOWN]))
        return False

    def _log_denial(self, denied: tuple[Operation, Kind, str]) -> None:
        if denied in self._logged:
            return
        if len(self._logged) >= _MAX_REMEMBERED:  # a request may name 100,000 topics
            self._suppressed += 1
            return
        self._logged.add(denied)
        operation, kind, name = denied
        log.info(
            "denied principal=%.200r host=%s operation=%s %s=%r",
            *(*self._who, operation.name.lower(), kind.name.lower(), name),
        )

    def log_suppressed(self) -> None:
        """Logs how many denials were suppressed since the last call."""
        if self._suppressed:
            log.info("denied principal=%.200r host=%s more=%s", *self._who, self._suppressed)
            self._suppressed = 0


class Authorizer:
    """Finds the permissions of principals by the authorization rules (ACLs) in a file, which may change. All nodes of a
    cluster share one.
    """

    def __init__(self, file: RulesFile) -> None:
        self._file = file
        self._permissions: dict[tuple[str, str], Permissions] = {}

    def permissions_of(self, principal: str, host: str) -> Permissions:
        """Returns the permissions of a principal at a host, which has a leading slash as Kafka shows it."""
        who = (principal, host)
        found = self._permissions.get(who)
        if found is None:
            if len(self._permissions) >= _MAX_REMEMBERED:
                self._log_suppressed()
                self._permissions.clear()
            address = _normalized(host.removeprefix("/"))
            rights = self._file.rules.rights_of(principal, address)
            found = self._permissions[who] = Permissions(rights, principal, address)
        return found

    def reload(self) -> None:
        """Reloads the rules file if it has changed and is valid, and logs how many denials were suppressed. Called
        periodically.
        """
        self._log_suppressed()
        try:
            if not self._file.reload():
                return
        except BadRules as error:
            log.error("rules are not taken up, those before hold why=%r", str(error))
            return
        self._permissions.clear()
        rules = self._file.rules
        log.info("rules file=%s rules=%s super_users=%s", self._file.path, len(rules.rules), len(rules.super_users))

    def _log_suppressed(self) -> None:
        for permissions in self._permissions.values():
            permissions.log_suppressed()


def _normalized(host: str) -> str:
    """Returns an address as rules write it, or the text itself if it is no address, as for a socket without one."""
    try:
        return address_of(host)
    except ValueError:
        return host


Decide = Callable[[Request], Reply]
"""Decides a request and returns its reply, or None if it is parked."""
Guard = Callable[[Any, Permissions, Cluster, Decide[Any, Any]], Any]
"""Has the allowed part of a request decided, and adds errors for the rest to the reply."""


def may_topic_or_id(
    permissions: Permissions, cluster: Cluster, operation: Operation, name: str | None, topic_id: UUID | None
) -> bool:
    """Returns whether a topic may be used. An unknown id is allowed: the answer is then that there is no such topic."""
    if name is None:
        found = cluster.topic_by_id(topic_id)
        name = found.name if found else None
    return name is None or permissions.may_topic(operation, name)


def split_allowed(
    items: Iterable[Item], is_allowed: Callable[[Item], bool]
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Splits items into those that are allowed and those that are denied, both in order."""
    allowed: list[Item] = []
    denied: list[Item] = []
    for item in items:
        (allowed if is_allowed(item) else denied).append(item)
    return tuple(allowed), tuple(denied)
