"""Text stays text."""

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.markup import concatenate, el
from tests.support.pipeline.pages import parse


def test_an_element_has_its_children_and_its_attributes() -> None:
    assert el("p", "a ", el("b", "c"), class_="quiet", tabindex=0) == '<p class="quiet" tabindex="0">a <b>c</b></p>'


def test_children_and_attributes_that_are_none_are_left_out() -> None:
    assert el("p", None, "x", id=None, hidden=False, inert=True) == "<p inert>x</p>"


def test_an_underscore_in_the_name_of_an_attribute_is_a_dash() -> None:
    assert el("svg", aria_label="axis", text_anchor="end") == '<svg aria-label="axis" text-anchor="end"></svg>'


def test_a_shape_without_children_ends_where_it_begins() -> None:
    assert el("rect", x="1%") == '<rect x="1%"/>'
    assert el("rect", el("title", "t")) == "<rect><title>t</title></rect>"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\x00b", r"a\x00b"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2066b", r"a\u2066b"),
        ("a\nb", r"a\nb"),
        ("a\u200bb", r"a\u200bb"),
        ("\ud800", r"\ud800"),
        ("größe-日本-שלום", "größe-日本-שלום"),
    ],
)
def test_what_a_browser_would_obey_is_shown_instead(name: str, shown: str) -> None:
    assert el("p", name) == f"<p>{shown}</p>"
    assert el("p", title=name) == f'<p title="{shown}"></p>'


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"])))
def test_any_text_is_read_as_it_was_written(text: str) -> None:
    [found] = parse(el("p", text, title=text)).inside
    assert (found.name, found.inside, found.text) == ("p", [], text)
    assert found.attributes == {"title": text}


@given(text=st.text(alphabet=st.sampled_from("<>&\"'/=-!a ;#`\x00\x0b\x85\u2028")))
def test_no_text_makes_an_element(text: str) -> None:
    [found] = parse(el("p", text, title=text)).inside
    assert not found.inside
    assert set(found.attributes) == {"title"}
    assert unescape(concatenate(text)) == found.text
