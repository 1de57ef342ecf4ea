"""Formats names and texts that clients choose, for one line of a log."""

from typing import Final

_LONGEST_SHOWN: Final = 200


def escape_name(name: str) -> str:
    """Returns a name for a log line: clipped if long, and quoted if it has blanks or unprintable characters."""
    shown = _clipped(name)
    return shown if shown and shown.isprintable() and " " not in shown else repr(shown)


def quoted(text: str) -> str:
    """Returns a text for a log line, quoted and clipped if long."""
    return repr(_clipped(text))


def format_node(node_id: int | None) -> str:
    """Formats the id of the node that a client connects to for a log line: "any" for None, as on a proxy's bootstrap
    listener.
    """
    return "any" if node_id is None or node_id < 0 else str(node_id)


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
