"""Parses a page as a browser would: elements, their attributes, and text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_NEVER_CLOSED = {"meta"}


@dataclass(slots=True)
class Element:
    """An element of the page."""

    name: str
    attributes: dict[str, str | None]
    text: str = ""
    """All text in the element and in the elements inside it."""
    inside: list["Element"] = field(default_factory=list)

    def find_all(self, name: str, class_: str | None = None) -> list["Element"]:
        matches = [self] if self.name == name and (class_ is None or class_ in self.classes) else []
        return matches + [found for each in self.inside for found in each.find_all(name, class_)]

    def find(self, name: str, class_: str | None = None) -> "Element":
        [found] = self.find_all(name, class_)
        return found

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()


def parse(page: str) -> Element:
    """Parses a page. Fails if an element is closed that is not open, or is not closed at all."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert [each.name for each in reader.open] == ["page"], "elements that are not closed"
    return reader.open[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("page", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is there twice"
        element = Element(tag, dict(attrs))
        self.open[-1].inside.append(element)
        if tag not in _NEVER_CLOSED:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _NEVER_CLOSED:
            closed = self.open.pop()
            assert closed.name == tag, f"</{tag}> ends {closed.name}"

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")
