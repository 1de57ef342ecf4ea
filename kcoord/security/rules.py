"""Authorization rules by principal for groups, topics and the cluster, like Kafka's ACLs.

Rules are decided as Kafka's StandardAuthorizer decides ACLs:

| case                                         | decision                                                    |
|----------------------------------------------|-------------------------------------------------------------|
| a super user                                 | allowed everything                                          |
| a deny rule matches                          | denied, even if allow rules match                           |
| an allow rule matches                        | allowed                                                     |
| no rule matches                              | denied                                                      |
| a rule allows READ, WRITE, DELETE or ALTER   | DESCRIBE is allowed, too                                    |
| a rule allows ALTER_CONFIGS                  | DESCRIBE_CONFIGS is allowed, too                            |
| a rule denies READ                           | DESCRIBE is not denied by it                                |
| a rule names `User:*`                        | it matches everybody, also `User:ANONYMOUS` without a login |

`Rights` are the rules that concern one principal at one host, with a cache of decisions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"  # the name of the only resource of kind CLUSTER

_MAX_CACHED_DECISIONS: Final = 10_000
_MAX_CACHED_NAME: Final = 255
"""The limits of the cache of decisions: clients choose the names in it, and must not be able to fill the memory."""


class Operation(IntEnum):
    """An operation that authorization rules allow or deny: Kafka's AclOperation, with its codes, which are also the
    bits of authorized operations in responses.
    """

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Kind(IntEnum):
    """The kind of a resource that authorization rules protect: Kafka's ResourceType, with its codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4


OPERATIONS: Final[Mapping[Kind, tuple[Operation, ...]]] = MappingProxyType(
    {
        Kind.TOPIC: (
            *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
            *(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
        ),
        Kind.GROUP: (
            *(Operation.READ, Operation.DELETE),
            *(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
        ),
        Kind.CLUSTER: (
            *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
            *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
        ),
    }
)
"""The operations that Kafka lists for each kind (AclEntry.supportedOperations). For deleting topics Kafka also checks
DELETE on the cluster, but does not list it."""

_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = MappingProxyType(
    {
        Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
        Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern of resource names in an authorization rule, like an ACL's: one name, all names with a prefix, or all
    (the empty prefix).
    """

    name: str
    is_prefix: bool = False

    def matches(self, name: str) -> bool:
        """Whether a resource of this name matches the pattern."""
        return name.startswith(self.name) if self.is_prefix else name == self.name

    def __str__(self) -> str:
        return f"{self.name}*" if self.is_prefix else self.name


ANY: Final = Pattern(name="", is_prefix=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One authorization rule, which allows or denies operations on resources to a principal, like an ACL. `line` is its
    line in the file of rules.
    """

    line: int
    is_denial: bool
    principal: str
    operations: frozenset[Operation]
    kind: Kind
    pattern: Pattern
    host: str | None = None  # None matches every host

    def concerns(self, principal: str, host: str) -> bool:
        """Whether the authorization rule is for this principal and host, or for everybody."""
        return self.principal in (principal, EVERYBODY) and self.host in (host, None)

    def covers(self, operation: Operation, name: str) -> bool:
        """Whether the authorization rule matches this operation and resource name; kind and principal are matched
        elsewhere.
        """
        return self._covers(operation) and self.pattern.matches(name)

    def _covers(self, operation: Operation) -> bool:
        if operation in self.operations or Operation.ALL in self.operations:
            return True
        # A denied READ does not imply a denied DESCRIBE (StandardAuthorizerData.findResult).
        return not self.is_denial and not self.operations.isdisjoint(_IMPLIED_BY.get(operation, ()))


class Verdict(NamedTuple):
    """An authorization decision: whether an operation is allowed, and the line of the rule that decided it. The line is
    None if no rule matches, so that the operation is denied.
    """

    is_allowed: bool
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All authorization rules of a file. `super_users` maps principals that may do everything to their lines."""

    rules: tuple[Rule, ...] = ()
    super_users: Mapping[str, int] = field(default_factory=dict)

    def rights_of(self, principal: str, host: str) -> "Rights":
        """Returns what a principal that connects from a host, an address such as 127.0.0.1, may do."""
        concerned = [rule for rule in self.rules if rule.concerns(principal, host)]
        return Rights(concerned, self.super_users.get(principal))


class Rights:
    """The permissions of one principal that connects from one host: the authorization rules that concern it, with a
    cache of decisions.
    """

    __slots__ = ("_decisions", "_rules", "_super_line")

    def __init__(self, rules: list[Rule], super_line: int | None) -> None:
        self._rules = {kind: [rule for rule in rules if rule.kind is kind] for kind in Kind}
        self._super_line = super_line
        self._decisions: dict[tuple[Operation, Kind, str], bool] = {}

    def may(self, operation: Operation, kind: Kind, name: str) -> bool:
        """Whether the operation on the resource of this name is allowed; decisions are cached."""
        key = (operation, kind, name)
        decided = self._decisions.get(key)
        if decided is None:
            decided = self.verdict(operation, kind, name).is_allowed
            if len(self._decisions) >= _MAX_CACHED_DECISIONS:
                self._decisions.clear()
            if len(name) <= _MAX_CACHED_NAME:
                self._decisions[key] = decided
        return decided

    def verdict(self, operation: Operation, kind: Kind, name: str) -> Verdict:
        """Decides whether the operation on the resource is allowed, and by which line: a denial counts before an
        allowance, and of several deciding rules the first.
        """
        if self._super_line is not None:
            return Verdict(is_allowed=True, line=self._super_line)
        deciding = [rule for rule in self._rules[kind] if rule.covers(operation, name)]
        for rule in deciding:
            if rule.is_denial:
                return Verdict(is_allowed=False, line=rule.line)
        return Verdict(is_allowed=bool(deciding), line=deciding[0].line if deciding else None)

    def may_some(self, operation: Operation, kind: Kind) -> bool:
        """Whether the operation is allowed on any resource of this kind, existing or not
        (Authorizer.authorizeByResourceType).
        """
        if self._super_line is not None:
            return True
        allowing = list(self._patterns(operation, kind, is_denial=False))
        denying = list(self._patterns(operation, kind, is_denial=True))
        return any(not _is_covered(pattern, denying) for pattern in allowing)

    def operations(self, kind: Kind, name: str) -> int:
        """Returns all operations that are allowed on a resource, as the bit field of Kafka's authorized operations."""
        return sum(1 << operation for operation in OPERATIONS[kind] if self.may(operation, kind, name))

    def _patterns(self, operation: Operation, kind: Kind, *, is_denial: bool) -> Iterator[Pattern]:
        for rule in self._rules[kind]:
            if rule.is_denial == is_denial and not rule.operations.isdisjoint((operation, Operation.ALL)):
                yield rule.pattern


def _is_covered(allowed: Pattern, denied: list[Pattern]) -> bool:
    """Whether deny rules cover everything that the pattern allows."""
    return any(allowed.name.startswith(pattern.name) if pattern.is_prefix else allowed == pattern for pattern in denied)
