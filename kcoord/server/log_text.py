"""Names and reasons that clients choose, fit for one line of a log."""

from typing import Final

_LONGEST_SHOWN: Final = 200


def plain(name: str) -> str:
    """A name as it is, unless it would break the line or be taken for two words."""
    shown = _clipped(name)
    return shown if shown and shown.isprintable() and " " not in shown else repr(shown)


def quoted(text: str) -> str:
    return repr(_clipped(text))


def node_word(node_id: int | None) -> str:
    """The broker that a client means; where it comes to a proxy to begin with, that is any."""
    return "any" if node_id is None or node_id < 0 else str(node_id)


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
