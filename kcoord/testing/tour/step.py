"""The events of the tour, in the order in which they happen."""

from dataclasses import dataclass

from kcoord.exceptions import LocalFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Event of the tour: a chapter begins. It says whose work is shown, and what."""

    title: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """Event of the tour: a command line is about to be run, exactly as written here."""

    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """Event of the tour: the output of the command line that has run."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Event of the tour: a sentence for the reader between two command lines."""

    text: str


Event = Story | Typed | Printed | Remark


class TourFailed(LocalFailure, RuntimeError):
    """Raised when a command of the tour failed, or did not lead to what the tour shows."""
