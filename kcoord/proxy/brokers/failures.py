"""Why brokers could not be reached, in one line: several that fail alike are told of once. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from kcoord.proxy.forwarding.endpoints import Place


class Failure(NamedTuple):
    place: Place
    reason: str
    """In one line, with the place in it."""
    may_be_security: bool = False
    """Somebody is there, and we may have spoken to it in the wrong way."""

    @property
    def kind(self) -> str:
        """The reason without the place: alike where only that differs."""
        return self.reason.replace(str(self.place), "…").replace(repr(self.place.host), "…")


def told_together(failures: Sequence[Failure]) -> str:
    """Each kind once, in the order in which they came, and who else failed so."""
    kinds: dict[str, list[Failure]] = {}
    for failure in failures:
        kinds.setdefault(failure.kind, []).append(failure)
    return "; ".join(_told(*alike) for alike in kinds.values())


def advised(failures: Sequence[Failure], suspect: Failure, advice: str) -> list[Failure]:
    """First what to do about a failure, in place of its reason and of those of its kind; then the others."""
    alike = [each._replace(reason=f"{each.place}: {advice}") for each in failures if each.kind == suspect.kind]
    return [*alike, *(each for each in failures if each.kind != suspect.kind)]


def _told(first: Failure, *others: Failure) -> str:
    if not others:
        return first.reason
    return f"{first.reason} (the same of {', '.join(str(each.place) for each in others)})"
