"""HTML as elements: what is text stays text, whatever is in it."""

from html import escape
from typing import Final

VOID: Final = frozenset({"meta", "rect", "line", "path"})
"""Elements that end where they begin, if nothing is in them. HTML knows that of meta, SVG lets `/>` say so."""


class Markup(str):
    """Text that is HTML already. Only this file makes it of names and numbers."""

    __slots__ = ()


Child = str | Markup | None


def el(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """`class_` is the class, `aria_label` the aria-label; an attribute that is None or False is left out."""
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID and not children:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{together(*children)}</{name}>")


def together(*children: Child) -> Markup:
    """One after the other, without an element around them."""
    return Markup("".join(child if isinstance(child, Markup) else escape_text(child) for child in children if child))


def escape_text(text: str) -> Markup:
    """Names come from clients: besides what HTML would take for an element, controls and marks of direction are shown
    as what they are and not obeyed."""
    return Markup(escape(visible(text)))


def visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{escape_text(str(value))}"'
