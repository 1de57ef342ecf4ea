"""What the rules allow to those who ask, as the server asks for it: one word per kind, denials in the log."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from kcoord.broker.cluster import Cluster
from kcoord.security.rules import CLUSTER_NAME, Kind, Operation, Rights
from kcoord.security.rules_file import BadRules, RulesFile, address_of

log = logging.getLogger("kcoord.server")

_MOST_REMEMBERED: Final = 1000
_LONGEST_SHOWN: Final = 200
Item = TypeVar("Item")
Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Permissions:
    """What one principal may do from one host. `may…` is for what was asked for: that it is denied is logged once, or
    counted if there is too much of it. `could` is for what is left out in silence, or is one of two ways."""

    def __init__(self, rights: Rights, principal: str, host: str) -> None:
        self._rights = rights
        self._who = (principal, host)
        self._told: set[tuple[Operation, Kind, str]] = set()
        self._untold = 0

    def may_topic(self, operation: Operation, name: str) -> bool:
        return self._may(operation, Kind.TOPIC, name)

    def may_group(self, operation: Operation, name: str) -> bool:
        return self._may(operation, Kind.GROUP, name)

    def may_cluster(self, operation: Operation) -> bool:
        return self._may(operation, Kind.CLUSTER, CLUSTER_NAME)

    def could(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> bool:
        return self._rights.may(operation, kind, name)

    def could_some(self, operation: Operation, kind: Kind) -> bool:
        """Whether it is allowed for one name at least."""
        return self._rights.may_some(operation, kind)

    def operations(self, kind: Kind, name: str = CLUSTER_NAME) -> int:
        """All that is allowed, as the bits that clients are told."""
        return self._rights.operations(kind, name)

    def _may(self, operation: Operation, kind: Kind, name: str) -> bool:
        if self._rights.may(operation, kind, name):
            return True
        self._tell((operation, kind, name[:_LONGEST_SHOWN]))
        return False

    def _tell(self, denied: tuple[Operation, Kind, str]) -> None:
        if denied in self._told:
            return
        if len(self._told) >= _MOST_REMEMBERED:  # a request may name 100,000 topics
            self._untold += 1
            return
        self._told.add(denied)
        operation, kind, name = denied
        log.info(
            "denied principal=%.200r host=%s operation=%s %s=%r",
            *(*self._who, operation.name.lower(), kind.name.lower(), name),
        )

    def tell_of_the_rest(self) -> None:
        """How much has been denied since the last time that was not logged one by one."""
        if self._untold:
            log.info("denied principal=%.200r host=%s more=%s", *self._who, self._untold)
            self._untold = 0


class Authorizer:
    """The rules of a file at work. All nodes of a cluster share one."""

    def __init__(self, file: RulesFile) -> None:
        self._file = file
        self._permissions: dict[tuple[str, str], Permissions] = {}

    def permissions_of(self, principal: str, host: str) -> Permissions:
        """The host is as Kafka shows it, with a slash before it."""
        who = (principal, host)
        found = self._permissions.get(who)
        if found is None:
            if len(self._permissions) >= _MOST_REMEMBERED:
                self._tell_of_the_rest()
                self._permissions.clear()
            address = _compared(host.removeprefix("/"))
            rights = self._file.rules.rights_of(principal, address)
            found = self._permissions[who] = Permissions(rights, principal, address)
        return found

    def look(self) -> None:
        """Go by what is in the file by now, if it can be used. Now and then: it also tells what is to be told so."""
        self._tell_of_the_rest()
        try:
            if not self._file.look():
                return
        except BadRules as error:
            log.error("rules are not taken up, those before hold why=%r", str(error))
            return
        self._permissions.clear()
        rules = self._file.rules
        log.info("rules file=%s rules=%s super_users=%s", self._file.path, len(rules.rules), len(rules.super_users))

    def _tell_of_the_rest(self) -> None:
        for permissions in self._permissions.values():
            permissions.tell_of_the_rest()


def _compared(host: str) -> str:
    """As rules write it; whatever it is where it is no address, as of a socket without one."""
    try:
        return address_of(host)
    except ValueError:
        return host


Decide = Callable[[Request], Reply]
"""What is decided of a request; None if it is parked."""
Guard = Callable[[Any, Permissions, Cluster, Decide[Any, Any]], Any]
"""Has decided what of a request is allowed, and says in the reply what is not."""


def parted(items: Iterable[Item], is_allowed: Callable[[Item], bool]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """What is allowed, and what is not, in their order."""
    allowed: list[Item] = []
    denied: list[Item] = []
    for item in items:
        (allowed if is_allowed(item) else denied).append(item)
    return tuple(allowed), tuple(denied)
