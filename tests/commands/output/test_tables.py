"""Tests of tables as text: narrow if possible, folded if necessary, never with a broken number."""

import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

tables: Any = import_module("kcoord.commands.output.tables")  # by name: mypy sees the folder, commands/
measure: Any = import_module("kcoord.commands.output.printable").width
Cell, Column, Screen, Table = tables.Cell, tables.Column, tables.Screen, tables.Table

OFFSETS = [Column("GROUP"), Column("TOPIC"), Column("PARTITION"), Column("LOG-END-OFFSET"), Column("CLIENT-ID")]


def lines(columns: list[Any], rows: list[Any], **screen: Any) -> list[str]:
    text: str = tables.render(Table(columns=columns, rows=rows), Screen(**screen))
    assert text.endswith("\n")
    return text.split("\n")[:-1]


def test_columns_are_as_narrow_as_what_is_in_them_and_numbers_stand_on_the_right() -> None:
    rows = [("payments", "orders", 0, 1234567, "a"), ("p", "t", 11, None, "client-7")]
    assert lines(OFFSETS, rows) == [
        "GROUP     TOPIC   PARTITION  LOG-END-OFFSET  CLIENT-ID",
        "payments  orders          0         1234567  a",
        "p         t              11               -  client-7",
    ]


def test_no_line_ends_in_blanks() -> None:
    rows = [("a", ""), ("", "b"), ("", "")]
    assert lines([Column("ONE"), Column("TWO")], rows) == ["ONE  TWO", "a", "     b", ""]


def test_values_are_shown_as_people_read_them() -> None:
    rows = [("x", True, 2.0), ("y", False, 12.345), ("z", None, None)]
    assert lines([Column("NAME"), Column("OLD"), Column("SPEED")], rows) == [
        "NAME  OLD  SPEED",
        "x     yes    2.0",
        "y     no    12.3",
        "z     -        -",
    ]


def test_a_column_can_be_told_where_to_stand() -> None:
    columns = [Column("AGE", align="right"), Column("ID", align="left"), Column("END")]
    assert lines(columns, [("2 h", 7, "."), ("13 min", 12, ".")]) == [
        "   AGE  ID  END",
        "   2 h  7   .",
        "13 min  12  .",
    ]


def test_wide_characters_count_two_and_marks_none() -> None:
    rows = [("日本語", 1, "a"), ("cafe\u0301", 22, "b"), ("plain", 3, "ｃ")]
    assert lines([Column("GROUP"), Column("N"), Column("X")], rows) == [
        "GROUP    N  X",
        "日本語   1  a",
        "cafe\u0301    22  b",
        "plain    3  ｃ",
    ]


def test_control_characters_are_escaped_before_widths_are_measured() -> None:
    rows = [("\x1b[2J", 1), ("two\nlines", 2)]
    assert lines([Column("GROUP"), Column("N")], rows) == [
        "GROUP       N",
        r"\x1b[2J     1",
        r"two\nlines  2",
    ]


def test_a_title_and_headers_can_be_left_out() -> None:
    table = Table(columns=[Column("A"), Column("B")], rows=[("xy", 1)], title="group \x07g")
    assert tables.render(table, Screen()) == "group \\x07g\nA   B\nxy  1\n"
    assert tables.render(table, Screen(headers=False)) == "xy  1\n"


def test_a_table_without_rows_is_its_header() -> None:
    assert lines(OFFSETS, []) == ["GROUP  TOPIC  PARTITION  LOG-END-OFFSET  CLIENT-ID"]


def test_wide_columns_are_shown_only_when_asked_for() -> None:
    columns = [Column("A"), Column("B", wide=True), Column("C")]
    assert lines(columns, [(1, 2, 3)]) == ["A  C", "1  3"]
    assert lines(columns, [(1, 2, 3)], wide=True) == ["A  B  C", "1  2  3"]


def test_styles_are_for_terminals_only_and_do_not_move_columns() -> None:
    rows = [(Cell("Stable", style="green"), 1), (Cell("Dead", style="bold red"), 2), ("-", 3)]
    columns = [Column("STATE"), Column("N")]
    plain = lines(columns, rows)
    colored = lines(columns, rows, colored=True)
    assert plain == ["STATE   N", "Stable  1", "Dead    2", "-       3"]
    assert colored[2] == "\x1b[1;31mDead  \x1b[0m  2"
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in colored] == plain


# Folding


def test_the_widest_column_of_text_is_folded_first_and_broken_where_words_end() -> None:
    rows = [("payments", "orders", 0, 1234567, "consumer-payments-1-7f3d0a52-8b0e-4c1f")]
    assert lines(OFFSETS, rows, width=66) == [
        "GROUP     TOPIC   PARTITION  LOG-END-OFFSET  CLIENT-ID",
        "payments  orders          0         1234567  consumer-payments-1-",
        "                                             7f3d0a52-8b0e-4c1f",
    ]


def test_headers_are_folded_where_they_are_wider_than_their_numbers_and_text_gets_the_room() -> None:
    rows = [("payments", "orders", 0, 1234567, "consumer-payments-1-7f3d0a52-8b0e-4c1f")]
    assert lines(OFFSETS, rows, width=60) == [
        "                             LOG-END-",
        "GROUP     TOPIC   PARTITION    OFFSET  CLIENT-ID",
        "payments  orders          0   1234567  consumer-payments-1-",
        "                                       7f3d0a52-8b0e-4c1f",
    ]


def test_states_types_and_addresses_are_not_broken_while_there_are_longer_names_to_fold() -> None:
    columns = [Column("TOPIC"), Column("STATE"), Column("HOST"), Column("LAG")]
    rows = [("orders.of-the-warehouse.v2", "Stable", "/192.168.100.100", 7)]
    assert lines(columns, rows, width=47) == [
        "TOPIC             STATE   HOST              LAG",
        "orders.of-the-    Stable  /192.168.100.100    7",
        "warehouse.v2",
    ]


@pytest.mark.parametrize("member_id", ["GrfwiLiQT0CY4OOwQCvr3Q", "Gr-wiLiQT0CY4OOwQCvr3Q", "GrfwiLiQT0CY4OOwQC_r3Q"])
def test_an_id_is_not_broken_while_there_are_words_to_fold_between(member_id: str) -> None:
    columns = [Column("MEMBER-ID"), Column("COUNT"), Column("ASSIGNMENT")]
    rows = [(member_id, 3, "orders 0; payments 0-1")]
    assert lines(columns, rows, width=50) == [
        "MEMBER-ID               COUNT  ASSIGNMENT",
        f"{member_id}      3  orders 0; payments",
        "                               0-1",
    ]


def test_an_id_is_broken_where_there_is_no_room_for_it() -> None:
    columns = [Column("MEMBER-ID"), Column("COUNT"), Column("ASSIGNMENT")]
    rows = [("GrfwiLiQT0CY4OOwQCvr3Q", 3, "orders 0; payments 0-1")]
    assert lines(columns, rows, width=44) == [
        "MEMBER-ID           COUNT  ASSIGNMENT",
        "GrfwiLiQT0CY4OOwQC      3  orders 0;",
        "vr3Q                       payments 0-1",
    ]


def test_a_name_that_is_broken_anyway_takes_no_room_from_words() -> None:
    columns = [Column("TOPIC"), Column("WHY")]
    rows = [("x" * 40, "the leader did not bring a plan in time")]
    assert lines(columns, rows, width=42) == [
        "TOPIC                 WHY",
        f"{'x' * 20}  the leader did not",
        f"{'x' * 20}  bring a plan in time",
    ]


def test_a_spare_column_is_left_out_before_others_are_broken_to_pieces() -> None:
    columns = [Column("TOPIC"), Column("HOST", spare=True), Column("LAG"), Column("INSTANCE-ID")]
    rows = [("orders-of-the-warehouse", "/127.0.0.1", 12, "static-instance-1")]
    assert lines(columns, rows, width=51) == [
        "TOPIC             HOST        LAG  INSTANCE-ID",
        "orders-of-the-    /127.0.0.1   12  static-instance-",
        "warehouse                          1",
    ]
    assert lines(columns, rows, width=50) == [
        "TOPIC                    LAG  INSTANCE-ID",
        "orders-of-the-warehouse   12  static-instance-1",
    ]


def test_of_spare_columns_the_last_ones_go_first_and_none_where_all_are_asked_for() -> None:
    columns = [Column("GROUP"), Column("ONE", spare=True), Column("TWO", spare=True), Column("LAG")]
    rows = [("a-group-of-some-length", 1, 2, 345)]
    heads = {width: lines(columns, rows, width=width)[0].split() for width in (31, 30, 26, 25)}
    assert heads == {
        31: ["GROUP", "ONE", "TWO", "LAG"],
        30: ["GROUP", "ONE", "LAG"],
        26: ["GROUP", "ONE", "LAG"],
        25: ["GROUP", "LAG"],
    }
    assert lines(columns, rows, width=25, wide=True)[0].split() == ["GROUP", "ONE", "TWO", "LAG"]


def test_a_table_with_all_columns_is_left_to_the_terminal_where_names_would_be_folded_to_pieces() -> None:
    rows = [("payments", "orders", 0, 1234567, "consumer-payments-1-7f3d0a52-8b0e-4c1f")]
    assert lines(OFFSETS, rows, width=53, tight=False) == lines(OFFSETS, rows)
    assert lines(OFFSETS, rows, width=66, tight=False) == lines(OFFSETS, rows, width=66)


def test_no_fold_is_within_a_number() -> None:
    def folded(text: str, width: int) -> list[str]:
        return lines([Column("A")], [(text,)], width=width)[1:]

    assert folded("replays 2,000 records, 0.2s", 11) == ["replays", "2,000", "records,", "0.2s"]
    assert folded("broker-of-10.20.30.40:9092", 16) == ["broker-of-", "10.20.30.40:9092"]
    assert folded("ｂroker-of-10.20.30.40:9092", 16) == ["ｂroker-of-", "10.20.30.40:9092"]


def test_a_fold_is_rather_between_words_than_after_a_mark() -> None:
    assert lines([Column("A")], [("orders 0-2; payments 17-29",)], width=10)[1:] == [
        "orders",
        "0-2;",
        "payments",
        "17-29",
    ]
    assert lines([Column("Ａ")], [("注文 0-2; payments 17-29",)], width=9)[1:] == ["注文 0-2;", "payments", "17-29"]


def test_wide_characters_are_folded_by_their_cells() -> None:
    rows = [("日本語の注文を受けるグループ", 1), ("plain", 2)]
    assert lines([Column("GROUP"), Column("N")], rows, width=14) == [
        "GROUP        N",
        "日本語の注   1",
        "文を受ける",
        "グループ",
        "plain        2",
    ]


def test_a_terminal_that_is_wide_enough_folds_nothing() -> None:
    rows = [("payments", "orders", 0, 1234567, "consumer-payments-1")]
    assert lines(OFFSETS, rows, width=64) == lines(OFFSETS, rows)
    assert max(map(len, lines(OFFSETS, rows))) == 64
    assert len(lines(OFFSETS, rows, width=63)) > 2


def test_numbers_are_never_folded_even_if_the_line_is_too_long_then() -> None:
    columns = [Column("NAME"), *(Column(f"OFFSET-{number}") for number in range(6))]
    rows = [("a-very-long-name-indeed", *[10**17 + number for number in range(6)])]
    text = "\n".join(lines(columns, rows, width=80))
    assert all(str(10**17 + number) in text for number in range(6))
    assert "a-\n" not in text


def test_parts_of_a_styled_cell_are_all_styled() -> None:
    rows = [(Cell("PreparingRebalance-for-long", style="yellow"), "x" * 12)]
    folded = lines([Column("STATE"), Column("WHO")], rows, width=28, colored=True)
    assert len(folded) == 3
    assert all(line.startswith("\x1b[33m") for line in folded[1:])


def test_a_title_is_folded_between_its_words() -> None:
    table = Table(columns=[Column("A")], rows=[(1,)], title="a-group-of-some-length · Stable · lag 2,700")
    assert tables.render(table, Screen(width=30)).splitlines()[:2] == ["a-group-of-some-length ·", "Stable · lag 2,700"]
    assert tables.render(table, Screen(width=10)).splitlines()[:4] == ["a-group-", "of-some-", "length", "· Stable ·"]


NAMES = st.text(st.characters(codec="utf-8"), max_size=40)
ROWS = st.lists(st.tuples(NAMES, st.integers(0, 10**12), NAMES, st.none() | st.integers(0, 99)), max_size=8)


@given(rows=ROWS, width=st.integers(50, 120))
def test_whatever_is_in_it_a_table_fits_the_screen_and_loses_nothing(rows: list[Any], width: int) -> None:
    columns = [Column("GROUP"), Column("LOG-END-OFFSET"), Column("TOPIC"), Column("LAG")]
    shown = lines(columns, rows, width=width)
    assert all(measure(line) <= width for line in shown)
    assert not any(line.endswith(" ") for line in shown)
    together = re.sub(r"\s", "", "".join(shown))
    for name, number, topic, lag in rows:
        assert str(number) in together
        assert lag is None or str(lag) in together
        for text in (name, topic):
            wanted = sorted(re.sub(r"\s", "", tables.printable(text)))
            assert all(together.count(char) >= wanted.count(char) for char in wanted)


@pytest.mark.parametrize("columns", [80, 200])
def test_twenty_thousand_rows_look_the_same_as_a_few(columns: int) -> None:
    """Rows are laid out by columns: the last of many rows looks like the first."""
    rows = [(f"group-{number}", "orders", number % 20, 10**9, "client") for number in range(20_000)]
    shown = lines(OFFSETS, rows, width=columns)
    assert len(shown) == 20_001
    assert shown[1] == "group-0      orders          0      1000000000  client"
    assert shown[-1] == "group-19999  orders         19      1000000000  client"


def test_a_table_that_cannot_fit_is_not_folded_to_shreds() -> None:
    columns = [Column(name) for name in ("FIRST", "SECOND", "THIRD")]
    rows = [("a-long-name-of-one-thing", "another-long-name", 123456789)]
    assert lines(columns, rows, width=16)[1] == "a-long-name-of-one-thing  another-long-name  123456789"


def test_a_fold_after_a_comma_begins_no_line_with_a_blank() -> None:
    folded = lines([Column("TOPICS")], [("orders, payments, refunds",)], width=17)
    assert folded == ["TOPICS", "orders, payments,", "refunds"]


def test_tables_of_the_same_columns_are_in_line_with_each_other() -> None:
    columns = [Column("TOPIC"), Column("LAG")]
    short = Table(columns=columns, rows=[("a", 1)], title="first")
    long = Table(columns=columns, rows=[("a-longer-topic", 1234)], title="second")
    assert tables.render_all([short, long], Screen()) == [
        "first\nTOPIC            LAG\na                  1\n",
        "second\nTOPIC            LAG\na-longer-topic  1234\n",
    ]
