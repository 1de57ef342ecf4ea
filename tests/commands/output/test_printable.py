"""Tests of names on a terminal: escaping, and the width of characters."""

import sys
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

module: Any = import_module("kcoord.commands.output.printable")  # by name: mypy sees the folder, commands/
printable, width, char_width = module.printable, module.width, module.char_width


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("orders", "orders"),
        ("日本語 é ω 🎉", "日本語 é ω 🎉"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r\x00", r"two\nlines\r\x00"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("right\u202eleft\u2066", r"right\u202eleft\u2066"),
        ("zero\u200bwidth\ufeff\u00ad", r"zero\u200bwidth\ufeff\xad"),
        ("line\u2028and\u2029paragraph", r"line\u2028and\u2029paragraph"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("no-break\u00a0space", r"no-break\xa0space"),
        ("half of a pair \ud83d", r"half of a pair \ud83d"),
    ],
)
def test_what_a_terminal_would_act_on_is_escaped(name: str, shown: str) -> None:
    assert printable(name) == shown


@given(st.text(st.characters(codec=None)))
def test_whatever_the_name_is_only_printable_text_comes_out(name: str) -> None:
    assert printable(name).isprintable()


@pytest.mark.parametrize(
    ("text", "cells"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("ｆｕｌｌ", 8), ("🎉", 2), ("\u1112\u1161\u11ab", 2)]
)
def test_wide_characters_take_two_cells_and_marks_none(text: str, cells: int) -> None:
    assert width(text) == cells


def test_every_letter_and_ideograph_is_as_wide_as_rich_measures_it() -> None:
    """rich has separate tables of widths, so the two implementations are independent."""
    blocks = [*range(0x20, 0x0300), *range(0x0370, 0x0590), *range(0x3041, 0x3097), *range(0x4E00, 0xA000)]
    letters = [chr(code) for code in (*blocks, *range(0xAC00, 0xD7A4)) if chr(code).isprintable()]
    differing = [letter for letter in letters if char_width(letter) != cell_len(letter)]
    assert sys.maxunicode > 0xFFFF
    assert not differing
