"""Documents as YAML, by an emitter of our own, since mappings, lists and scalars need no library."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

# Unquoted are words that start with a letter and hold nothing that YAML gives a meaning, if they
# are no words of YAML 1.1 or 1.2 for something else. All the rest is quoted, which is never wrong.
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_OTHER_WORDS: Final = frozenset(["null", "true", "false", "yes", "no", "on", "off", "y", "n"])

Quote = Callable[[str], str]


def yaml_text(document: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """Formats a JSON document as YAML in block style; keys stay in their order."""
    quote = _quote_ascii if ascii_only else _quote
    lines: list[str] = []
    _mapping(document, "", "", quote, lines)
    return "\n".join([*lines, ""])


def _mapping(mapping: Mapping[str, Any], first: str, indent: str, quote: Quote, lines: list[str]) -> None:
    """Emits each key on a line of its own: the first after `first`, which is as long as the indent of the others."""
    for key, value in mapping.items():
        head = f"{first}{quote(key)}:"
        first = indent
        match value:
            case Mapping() if value:
                lines.append(head)
                _mapping(value, indent + "  ", indent + "  ", quote, lines)
            case Sequence() if value and not isinstance(value, str):
                lines.append(head)
                _items(value, indent + "  ", indent + "  ", quote, lines)
            case _:
                lines.append(f"{head} {_leaf(value, quote)}")


def _items(items: Sequence[Any], first: str, indent: str, quote: Quote, lines: list[str]) -> None:
    for value in items:
        head = f"{first}- "
        first = indent
        match value:
            case Mapping() if value:
                _mapping(value, head, indent + "  ", quote, lines)
            case Sequence() if value and not isinstance(value, str):
                _items(value, head, indent + "  ", quote, lines)
            case _:
                lines.append(f"{head}{_leaf(value, quote)}")


def _leaf(value: Any, quote: Quote) -> str:
    match value:
        case str():
            return quote(value)
        case None | bool() | int():
            return json.dumps(value)
        case float():
            return _float(value)
        case Mapping():
            return "{}"
        case Sequence():
            return "[]"
    raise TypeError(f"{type(value).__name__} is nothing that a document holds")


def _float(value: float) -> str:
    """Formats a float; YAML 1.1 requires a dot in a number with an exponent."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


@lru_cache(maxsize=10_000)
def _quote(text: str) -> str:
    return _quoted(text, str.isprintable)


@lru_cache(maxsize=10_000)
def _quote_ascii(text: str) -> str:
    return _quoted(text, lambda char: char.isprintable() and char.isascii())


def _quoted(text: str, is_safe: Callable[[str], bool]) -> str:
    """Quotes a text as JSON does, but for characters beyond 16 bits: YAML has an escape for them instead of
    surrogates."""
    if _PLAIN.fullmatch(text) and text.lower() not in _OTHER_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if is_safe(quoted) else "".join(char if is_safe(char) else _escape(char) for char in quoted)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
