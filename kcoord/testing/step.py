"""A step of the tour."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was done and seen; `rows` begin with their headings."""

    title: str
    said: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


class TourFailed(RuntimeError):
    """What the tour shows was not so."""
