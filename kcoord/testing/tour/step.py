"""The events of the tour, in the order in which they happen."""

from dataclasses import dataclass

from kcoord.exceptions import LocalFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A chapter begins: whose work it is, and what is shown."""

    title: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command line is about to be run, exactly as written here."""

    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A command line has written this."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A sentence between two command lines."""

    text: str


Event = Story | Typed | Printed | Remark


class TourFailed(LocalFailure, RuntimeError):
    """A command of the tour failed, or did not lead to what the tour shows."""
