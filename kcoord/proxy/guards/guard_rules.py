"""The rules that guards enforce: parsing what an operator writes, and deciding one request by them. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from kcoord.admin.durations import parse_duration
from kcoord.admin.name_patterns import compile_name_pattern
from kcoord.api_keys import ApiKey
from kcoord.exceptions import InvalidInput
from kcoord.proxy.guards.guarded_apis import FAMILIES, GUARDED, GuardedApi, Reach

_GROUPS: Final = "groups"
_BY_OFFSETS_TOPIC: Final = {
    ApiKey.FETCH: {ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS},
    ApiKey.PRODUCE: {ApiKey.OFFSET_COMMIT},
}
"""The group APIs whose effect a client can also have by fetching from or producing to `__consumer_offsets`."""


class BadRule(InvalidInput, ValueError):
    """Raised for a guard's rule that cannot be parsed, or would never apply; the message states what to write
    instead.
    """


class Reason(StrEnum):
    """Why a guard refuses a request; the values appear in logs and metrics."""

    READ_ONLY = "read-only"
    DENIED = "denied"
    NOT_ALLOWED = "not-allowed"
    SUBSCRIPTION = "subscription"
    GROUP_SIZE = "group-size"
    REBALANCE_RATE = "rebalance-rate"
    JOURNAL = "journal"  # it names the proxy's journal, which is hidden (hiding.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that denies or allows a set of APIs. With a pattern it applies only to groups whose whole id
    matches it.
    """

    apis: frozenset[int]
    pattern: re.Pattern[str] | None = None
    is_of_family: bool = False
    """Whether `apis` is a family, to which APIs unknown to this version of kcoord may belong, too."""

    def matches(self, group_id: str | None) -> bool:
        """Returns whether the rule's pattern applies to this group; None stands for requests about no group."""
        return self.pattern is None or (group_id is not None and self.pattern.fullmatch(group_id) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """A guard's limit of members in a group whose id matches the pattern."""

    members: int
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """A guard's limit of rebalances within a time span of a group whose id matches the pattern."""

    rebalances: int
    span: timedelta
    pattern: re.Pattern[str] | None = None


_Limit = TypeVar("_Limit", SizeLimit, RateLimit)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """All rules by which a proxy's guards refuse requests: read-only mode, deny and allow rules, limits of groups."""

    is_read_only: bool = False
    groups_are_local: bool = False
    denied: tuple[Rule, ...] = ()
    allowed: tuple[Rule, ...] = ()
    sizes: tuple[SizeLimit, ...] = ()
    rates: tuple[RateLimit, ...] = ()
    checks_subscriptions: bool = True

    def why_refused(self, api: GuardedApi, group_id: str | None, *, is_change: bool) -> Reason | None:
        """Returns why a request about this group (None: about no group) is refused; None if it is not.

        Deny rules win over allow rules; an allow rule also wins over read-only mode.
        """
        if any(api.key in rule.apis and rule.matches(group_id) for rule in self.denied):
            return Reason.DENIED
        allowed = [rule for rule in self.allowed if api.key in rule.apis]
        if any(rule.matches(group_id) for rule in allowed):
            return None
        if allowed and group_id is not None:  # allow rules limit only requests about groups
            return Reason.NOT_ALLOWED
        return Reason.READ_ONLY if self.is_read_only and is_change else None

    def changes(self, api: GuardedApi) -> bool:
        """Returns whether requests of this API may change something on the upstream cluster."""
        return api.reach is Reach.UPSTREAM or (api.reach is Reach.GROUPS and not self.groups_are_local)

    @property
    def hides_unknown_apis(self) -> bool:
        """Whether an API unknown to this version of kcoord might be covered by the rules, and so has to be hidden from
        clients.
        """
        return self.is_read_only or any(rule.is_of_family for rule in (*self.denied, *self.allowed))

    @property
    def offsets_topic_apis(self) -> frozenset[int]:
        """The APIs by which clients must not access `__consumer_offsets`, because rules refuse them some groups."""
        limiting = [*self.denied, *(rule for rule in self.allowed if rule.pattern is not None)]
        limited = frozenset().union(*(rule.apis for rule in limiting))
        return frozenset(by for by, same in _BY_OFFSETS_TOPIC.items() if same & limited)

    def size_limit(self, group_id: str) -> SizeLimit | None:
        """Returns the first size limit that matches the group, or None."""
        return _for_group(self.sizes, group_id)

    def rate_limit(self, group_id: str) -> RateLimit | None:
        """Returns the first rate limit that matches the group, or None."""
        return _for_group(self.rates, group_id)

    def apis_with_rules(self) -> frozenset[int]:
        """Returns the keys of the APIs that any deny or allow rule names."""
        return frozenset().union(*(rule.apis for rule in (*self.denied, *self.allowed)))


def parse_rule(text: str) -> Rule:
    """Parses a deny or allow rule, API[:REGEX], where API is Kafka's name of an API or the name of a family. Raises
    BadRule.
    """
    name, colon, regex = text.partition(":")
    name = name.strip()
    pattern = _pattern(regex, text) if colon else None
    keys = _named(name, text)
    is_of_family = name.lower() in FAMILIES
    if pattern is None:
        return Rule(apis=frozenset(keys), is_of_family=is_of_family)
    about_groups = {key for key in keys if GUARDED[key].group_field is not None}
    if not about_groups:
        raise BadRule(f"{text!r}: requests of {name} name no groups, so there is nothing to match; leave out the regex")
    if name.lower() == _GROUPS:  # FindCoordinator and the APIs of group configs name groups, too
        about_groups |= {ApiKey.FIND_COORDINATOR} | {api.key for api in GUARDED.values() if api.has_settings_of_groups}
    return Rule(apis=frozenset(about_groups), pattern=pattern, is_of_family=is_of_family)


def parse_size(text: str) -> SizeLimit:
    """Parses a limit of the members of groups, N[:REGEX]; the pattern selects groups by id. Raises BadRule."""
    number, colon, regex = text.partition(":")
    return SizeLimit(
        members=_positive(number, text, "100 or 20:team-.*"), pattern=_pattern(regex, text) if colon else None
    )


def parse_rate(text: str) -> RateLimit:
    """Parses a limit of rebalances, N/DURATION[:REGEX]. Raises BadRule."""
    rate, colon, regex = text.partition(":")
    number, slash, span = rate.partition("/")
    if not slash:
        raise BadRule(f"{text!r} is not a rate: write 10/5m or 10/5m:team-.*")
    try:
        duration = parse_duration(span)
    except ValueError as error:
        raise BadRule(f"{text!r}: {error}") from None
    if not duration:
        raise BadRule(f"{text!r}: the time must be longer than nothing")
    return RateLimit(
        rebalances=_positive(number, text, "10/5m or 10/5m:team-.*"),
        span=duration,
        pattern=_pattern(regex, text) if colon else None,
    )


def _named(name: str, text: str) -> set[int]:
    lower = name.lower()
    if lower in FAMILIES:
        return {api.key for api in GUARDED.values() if lower in api.families}
    found = [api for api in GUARDED.values() if api.name.lower() == lower]
    if not found:
        raise BadRule(f"{text!r}: {name!r} is neither an API of Kafka's nor one of {', '.join(FAMILIES)}")
    (api,) = found
    if api.cannot_be_denied:
        raise BadRule(f"{text!r}: {api.name} cannot be refused, as {api.cannot_be_denied}")
    return {api.key}


def _pattern(regex: str, text: str) -> re.Pattern[str]:
    if not regex:
        raise BadRule(f"{text!r}: the regex behind the colon is missing")
    try:
        return compile_name_pattern(regex)
    except re.error as error:
        raise BadRule(f"{text!r}: not a regular expression: {error}") from None


def _positive(number: str, text: str, example: str) -> int:
    if not number.isascii() or not number.isdecimal() or int(number) == 0:
        raise BadRule(f"{text!r} begins with no number above 0: write {example}")
    return int(number)


def _for_group(limits: Iterable[_Limit], group_id: str) -> _Limit | None:
    """Returns the first limit whose regex matches the group, else the first without a regex."""
    found = [limit for limit in limits if limit.pattern is None or limit.pattern.fullmatch(group_id)]
    return min(found, key=lambda limit: limit.pattern is None, default=None)
