"""Formats why brokers could not be reached, in one line that names each kind of failure once. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from kcoord.proxy.rewriting.endpoints import Endpoint


class Failure(NamedTuple):
    """One failed attempt to reach a broker, with the reason as text for the log."""

    endpoint: Endpoint
    reason: str
    """One line that names the endpoint."""
    may_be_security: bool = False
    """Whether something listens there, and a wrong security.protocol may be the cause."""

    @property
    def kind(self) -> str:
        """The reason with the endpoint masked: failures that differ only in their endpoint are of one kind."""
        return self.reason.replace(str(self.endpoint), "…").replace(repr(self.endpoint.host), "…")


def format_failures(failures: Sequence[Failure]) -> str:
    """Formats each kind of failure once, in order, with the other endpoints that failed for the same reason."""
    kinds: dict[str, list[Failure]] = {}
    for failure in failures:
        kinds.setdefault(failure.kind, []).append(failure)
    return "; ".join(_format_kind(*same_kind) for same_kind in kinds.values())


def with_advice(failures: Sequence[Failure], suspect: Failure, advice: str) -> list[Failure]:
    """Replaces the reason of all failures of the suspect's kind by the advice, and puts them first."""
    same_kind = [each._replace(reason=f"{each.endpoint}: {advice}") for each in failures if each.kind == suspect.kind]
    return [*same_kind, *(each for each in failures if each.kind != suspect.kind)]


def _format_kind(first: Failure, *others: Failure) -> str:
    if not others:
        return first.reason
    return f"{first.reason} (the same of {', '.join(str(each.endpoint) for each in others)})"
