"""Builds HTML elements: text stays text, whatever it contains."""

from html import escape
from typing import Final

VOID: Final = frozenset({"meta", "rect", "line", "path"})
"""Elements without an end tag if they have no content. For meta HTML requires that, for the others SVG allows `/>`."""


class Markup(str):
    """Text that is HTML already, so that it is not escaped again. Only this file makes it of names and numbers."""

    __slots__ = ()


Child = str | Markup | None


def el(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Renders an HTML or SVG element with these children and attributes; text is escaped. `class_` is the class,
    `aria_label` the aria-label; an attribute that is None or False is left out."""
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID and not children:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{concatenate(*children)}</{name}>")


def concatenate(*children: Child) -> Markup:
    """Concatenates children to HTML, without an element around them; text is escaped."""
    return Markup("".join(child if isinstance(child, Markup) else escape_text(child) for child in children if child))


def escape_text(text: str) -> Markup:
    """Escapes text for HTML. Names come from clients, so control characters and direction marks are also shown
    escaped, instead of taking effect."""
    return Markup(escape(visible(text)))


def visible(text: str) -> str:
    r"""Replaces characters that cannot be printed by their escapes, such as \n."""
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
