"""Documents as indented JSON. Names stay readable, and characters that a terminal would interpret are escaped."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_BEYOND_ASCII: Final = re.compile(r"[^\n -~]")


def json_text(document: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """Formats a JSON document with indentation. Characters that a terminal would interpret are escaped, and all beyond
    ASCII if `ascii_only`."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    return _BEYOND_ASCII.sub(_escape_all if ascii_only else _escape, text) + "\n"


def json_line(content: object) -> str:
    """Formats a value as one line of JSON in ASCII."""
    return json.dumps(content).replace("\x7f", "\\u007f")  # the one control character that json.dumps does not escape


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is nothing that a document holds")


def _escape(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else _escape_all(found)


def _escape_all(found: re.Match[str]) -> str:
    return json_line(found[0])[1:-1]
