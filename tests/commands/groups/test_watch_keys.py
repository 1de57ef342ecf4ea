"""Tests of the keys of `kcoord groups watch`, and of the terminal's restoration however it ends."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.snapshot_changes import WatchHistory
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.opening import open_cluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.snapshots import NOW, group, member, seen, snapshot

from ..terminal import Terminal

keys: Any = import_module("kcoord.commands.groups.watch.keys")
keyboard: Any = import_module("kcoord.commands.output.keyboard")
screen: Any = import_module("kcoord.commands.groups.watch.screen")


class _Session:
    """A session of keys on a screen of 80 by 24 that shows a watch."""

    def __init__(self, watch: WatchHistory) -> None:
        self._watch, self.controls = watch, keys.Controls()
        self._draw()

    def press(self, *pressed: str) -> list[str]:
        for key in pressed:
            self.controls = keys.press(self.controls, key, self._drawn.extent)
            self._draw()
        return self.lines

    @property
    def lines(self) -> list[str]:
        lines: list[str] = self._drawn.text.splitlines()
        return lines

    def names(self) -> list[str]:
        """The names of the groups that are shown, from the top."""
        below = self.lines[3:]
        end = next((number for number, line in enumerate(below) if not line.startswith(("g-", "other"))), len(below))
        return [line.split()[0] for line in below[:end]]

    def _draw(self) -> None:
        frame = screen.Frame(
            where="b:9092", now=NOW, width=80, height=24, is_colored=False, has_keys=True, controls=self.controls
        )
        self._drawn = screen.draw(self._watch, frame)
        assert len(self.lines) <= 24


def _many_groups(count: int = 100) -> WatchHistory:
    """Returns a history of many groups. The first has the largest lag, and the smallest lag in time; the last joined
    and left last."""
    watch = WatchHistory()
    for after in (0, 2, 4):
        groups = [
            seen(
                group(
                    *[member("app", f"t-{number}")] * (after != 2 or number < count - 30),
                    name=f"g-{number:03}" if number else "other",
                    state="Empty" if number == 7 else "Stable",
                ),
                {f"t-{number}": (after * number, 0, 1000 - number + after * number)},
                next_record_at=NOW - number - 1,
            )
            for number in range(count)
        ]
        watch.add(snapshot(*groups, after=after))
    return watch


def test_groups_are_scrolled_by_rows_and_pages_to_both_ends_and_no_further() -> None:
    session = _Session(_many_groups())
    page = len(session.names())
    assert (session.names()[0], session.lines[3 + page]) == ("other", f"1-{page} of 100 groups")
    session.press("up")
    assert session.names()[0] == "other"
    session.press("down", "down", "up")
    assert session.names()[0] == "g-001"
    session.press("page-down")
    assert session.names()[0] == f"g-{page + 1:03}"
    session.press("end")
    assert (session.names()[-1], len(session.names())) == ("g-099", page)
    session.press("down", "page-down", "page-up")
    assert session.names()[0] == f"g-{100 - 2 * page:03}"
    session.press("home")
    assert session.names()[0] == "other"


def test_s_sorts_by_another_column_and_after_the_last_by_the_first() -> None:
    session = _Session(_many_groups())
    firsts = []
    for sort in ("time behind", "name", "state", "records out", "lag"):
        assert f"by {sort} ·" in session.press("s")[0]
        firsts.append(session.names()[0])
    assert firsts == ["g-099", "g-001", "g-007", "g-099", "other"]


def test_sorting_shows_the_first_again() -> None:
    session = _Session(_many_groups())
    session.press("end", "s")
    assert session.names()[0] == "g-099"


def test_a_filter_is_typed_seen_at_once_kept_by_enter_and_ended_by_escape() -> None:
    session = _Session(_many_groups())
    assert session.press("/", "G", "-", "0", "1", "x")[0].startswith("filter: G-01x")
    assert "no group has 'G-01x' in its name" in session.lines
    session.press("backspace")
    assert session.names() == [f"g-{number:03}" for number in range(10, 20)]
    assert "10 groups by lag · filter G-01 ·" in session.press("enter")[0]
    assert len(session.names()) == 10
    session.press("escape")
    assert session.names()[0] == "other"
    assert session.press("/", "s")[0].startswith("filter: s▏")  # the key was typed, it did not sort
    assert session.controls.sort is keys.Sort.LAG
    assert session.press("escape")[0].startswith("08:00:04 UTC")


def test_a_filter_is_for_partitions_and_changes_too() -> None:
    session = _Session(_many_groups())
    lines = session.press("/", *"g-075", "enter")
    assert [line.split()[1] for line in lines if line.startswith("08:00:0")][1:] == ["g-075:"] * 4
    assert any(line.startswith("app ") and " t " in line for line in lines)


def test_tab_scrolls_partitions_then_changes_and_gives_them_room() -> None:
    session = _Session(_many_groups())
    assert "scrolling partitions" in session.press("tab")[0]
    assert any(line.startswith("1-") and line.endswith(" of 100 partitions") for line in session.lines)
    session.press("end")
    assert any(line.endswith("-100 of 100 partitions") for line in session.lines)
    assert "scrolling changes" in session.press("tab")[0]
    newest = session.lines[-1]
    assert "g-099: app" in newest
    lines = session.press("up", "up")
    assert any(line == "LAST CHANGES, without the newest 2" for line in lines)
    assert newest not in lines
    assert "g-070: app" in next(line for line in session.press("home") if "app (" in line or "app 10" in line)
    assert session.press("end")[-1] == newest
    assert "scrolling" not in session.press("tab")[0]
    assert "scrolling changes" in session.press("shift-tab")[0]


def test_help_names_every_key_and_column_and_goes_by_any_key() -> None:
    session = _Session(_many_groups())
    text = "\n".join(session.press("?"))
    for name in ("scroll", "sort", "/: show only", "q, Ctrl-C: quit", "LAG:", "BEHIND:", "CATCHES-UP-IN:"):
        assert name in text
    session.press("s")
    assert session.names()
    assert session.controls.sort is keys.Sort.LAG  # the key only closed the help


def test_q_quits_but_not_while_a_filter_is_typed() -> None:
    session = _Session(_many_groups())
    session.press("/", "q")
    assert not session.controls.is_over
    session.press("enter", "q")
    assert session.controls.is_over


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~", ["page-up", "page-down", "home", "end", "home", "end"]),
        ("\x1b", ["escape"]),
        ("\x1b[24~\x1b[<0;3;4M", []),  # F12, a mouse
        ("/pay\x7f\r", ["/", "p", "a", "y", "backspace", "enter"]),
        ("é日\x00\x01", ["é", "日"]),
    ],
)
def test_keys_are_told_from_what_terminals_send(text: str, expected: list[str]) -> None:
    assert keyboard.parse_keys(text) == expected


# In a terminal


@pytest.fixture(scope="module")
def bootstrap(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> str:
    cluster = kcoord_cluster_factory(topics={"orders": 1})
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        for number in range(100):
            live.commit(f"g-{number:03}", {TopicPartition("orders", 0): Committed(0)})
    return cluster.bootstrap


def _watching(bootstrap: str, **how: bool) -> Terminal:
    return Terminal("groups", "watch", "--all-groups", "-b", bootstrap, **how)


def test_keys_are_answered_at_once_and_the_last_screen_stays(bootstrap: str) -> None:
    with Terminal("groups", "watch", "--all-groups", "-b", bootstrap, "--every", "10m") as terminal:
        terminal.wait_for("? keys, q quits · 100 groups")
        terminal.press("\x1b[F")
        terminal.wait_for("-100 of 100 groups")
        terminal.press("/g-04")
        terminal.wait_for("filter: g-04")
        terminal.press("\r")
        terminal.wait_for("10 groups by lag · filter g-04")
        terminal.press("q")
        assert terminal.wait_for_end() == (0, "")
        assert terminal.is_as_it_was
        assert "g-049" in terminal.shown.rpartition("\x1b[?1049l")[2]


@contextmanager
def _silent_broker() -> Iterator[str]:
    """A port where connections are accepted and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "{}:{}".format(*listener.getsockname())


def test_what_is_read_from_where_and_since_when_is_shown_before_the_first_snapshot() -> None:
    with _silent_broker() as silent, _watching(silent) as terminal:
        terminal.wait_for(f"reading groups from {silent} · since ")
        terminal.wait_for(f"waiting for {silent}")
        terminal.press("?")
        terminal.wait_for("any key goes back")
        terminal.press("xq")
        assert terminal.wait_for_end() == (0, "")
        assert terminal.is_as_it_was
        assert "reading groups" not in terminal.shown.rpartition("\x1b[?1049l")[2]


def test_a_terminal_that_lines_are_piped_from_shows_what_is_read_before_the_first_line() -> None:
    with _silent_broker() as silent, Terminal("groups", "watch", "--all-groups", "-b", silent, piped=True) as terminal:
        terminal.wait_for(f"kcoord: reading groups from {silent} since ")
        terminal.wait_for(f"kcoord: waiting for {silent}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_terminal_is_as_it_was_after_a_signal(bootstrap: str, number: int) -> None:
    with _watching(bootstrap) as terminal:
        terminal.wait_for("100 groups")
        assert not terminal.is_as_it_was
        os.kill(terminal.process.pid, number)
        assert terminal.wait_for_end() == (0, "")
        assert terminal.is_as_it_was


def test_the_terminal_is_as_it_was_after_an_error() -> None:
    with _watching("127.0.0.1:1") as terminal:
        exit_code, stderr = terminal.wait_for_end()
        assert exit_code == 1
        assert "127.0.0.1:1" in stderr
        assert terminal.is_as_it_was


def test_the_terminal_is_as_it_was_while_the_watch_is_stopped(bootstrap: str) -> None:
    with _watching(bootstrap) as terminal:
        terminal.wait_for("100 groups")
        os.kill(terminal.process.pid, signal.SIGTSTP)
        os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED)
        terminal.wait_for("\x1b[?1049l")
        assert terminal.is_as_it_was
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.wait_for("\x1b[?1049h")
        terminal.wait_for("100 groups")
        terminal.press("q")
        assert terminal.wait_for_end() == (0, "")
        assert terminal.is_as_it_was


def test_without_a_keyboard_it_is_a_screen_all_the_same(bootstrap: str) -> None:
    with _watching(bootstrap, has_keyboard=False) as terminal:
        terminal.wait_for("Ctrl-C ends · 100 groups")
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.wait_for_end() == (0, "")
        assert terminal.is_as_it_was
