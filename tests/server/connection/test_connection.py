"""A connection by itself: a fake transport on one side, a scripted host on the other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.groups.instant import Instant
from kcoord.protocol.frames import framed
from kcoord.protocol.validate import CorruptMessage
from kcoord.server.connection.connection import Connection
from kcoord.server.connection.event_round import DecideCallback
from kcoord.server.dispatch.dispatch import Answer, HangUp, Outcome, Park
from kcoord.server.dispatch.routes import route_for
from kcoord.server.fast_path.response_cache import CachedRebalanceFrame, CachedResponseFrame
from kcoord.tickets import Ticket


class Link(asyncio.Transport):
    """A transport that records writes and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 5)})
        self.writes: list[bytes] = []  # the bytes of each call
        self.is_reading_now = True
        self.is_closed = False
        self.is_aborted = False
        self.unread_bytes = 0

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.writes.append(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes


class Script:
    """A host that answers `x` with `X`, parks `park`, and hangs up on `bye`."""

    on_cache_hit: Callable[[CachedResponseFrame, bytes, bytes], None] | None = None

    def __init__(self) -> None:
        self.decided: list[bytes] = []
        self.parked: list[Connection] = []
        self.drained = 0
        self.held_bytes = 0
        self.seconds = 0.0
        self.turns: list[DecideCallback] = []
        self.sends: list[Callable[[], None]] = []
        self.flushed = 0
        self.gone_from: list[Connection] = []
        self.refusal: str | None = None
        self.fault: Exception | None = None

    def admit(self, connection: Connection) -> str | None:
        return self.refusal

    def decide(self, connection: Connection, frame: bytes, at: Instant) -> Outcome:
        self.decided.append(frame)
        if self.fault:
            raise self.fault
        match frame:
            case b"park":
                return Park(route_for(ApiKey.HEARTBEAT, 4), correlation_id=0, ticket=Ticket(len(self.parked) + 1))
            case b"bye":
                return HangUp(reason="enough")
            case b"quiet":
                return Answer(pieces=[])
        return Answer(pieces=[frame.upper()])

    def park(self, connection: Connection, park: Park) -> None:
        self.parked.append(connection)

    def is_in_slices(self, ticket: Ticket | None) -> bool:
        return False

    def decide_cached(
        self, connection: Connection, cached: CachedRebalanceFrame, chunk: bytes
    ) -> Answer | Ticket | None:
        raise AssertionError("nothing stands here")

    def drain_parked(self) -> None:
        self.drained += 1

    def adjust_held(self, change: int) -> None:
        self.held_bytes += change

    def on_closed(self, connection: Connection) -> None:
        self.gone_from.append(connection)

    def schedule_decide(self, turn: DecideCallback) -> None:
        self.turns.append(turn)

    def flush(self) -> None:
        self.flushed += 1

    def schedule_send(self, send: Callable[[], None]) -> None:
        self.sends.append(send)

    def run_round(self) -> None:
        """Runs one event round: the scheduled decisions, then the scheduled sends."""
        turns, self.turns = self.turns, []
        for turn in turns:
            turn(self.now())
        self.send_all()

    def send_all(self) -> None:
        sends, self.sends = self.sends, []
        for send in sends:
            send()

    def now(self) -> Instant:
        return Instant(self.seconds, 0)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def connection(script: Script, link: Link) -> Connection:
    connection = Connection(script, 1, 1000)
    connection.connection_made(link)
    return connection


Send = Callable[..., None]


@pytest.fixture
def receive(connection: Connection, script: Script) -> Callable[[bytes], None]:
    """Receives bytes and runs one event round."""

    def receive(chunk: bytes) -> None:
        connection.data_received(chunk)
        script.run_round()

    return receive


@pytest.fixture
def send(receive: Callable[[bytes], None]) -> Send:
    return lambda *frames: receive(b"".join(framed([frame]) for frame in frames))


def test_answers_decided_together_leave_in_one_write(send: Send, link: Link) -> None:
    send(b"a", b"quiet", b"b", b"c")
    assert link.writes == [b"ABC"]


def test_nothing_behind_a_parked_request_is_looked_at(send: Send, script: Script, link: Link) -> None:
    send(b"a", b"park", b"b")
    send(b"c")
    assert script.decided == [b"a", b"park"]
    assert link.writes == [b"A"]


def test_the_answer_to_a_parked_request_and_those_behind_it_leave_in_one_write(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    send(b"park", b"b", b"c")
    connection.answer([b"parked "], 0.0)
    script.run_round()
    assert link.writes == [b"parked BC"]


def test_a_second_parked_request_holds_the_rest_again(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    send(b"park", b"b", b"park", b"c")
    connection.answer([b"1"], 0.0)
    script.run_round()
    assert link.writes == [b"1B"]
    connection.answer([b"2"], 0.0)
    script.run_round()
    assert link.writes == [b"1B", b"2C"]


def test_a_client_that_does_not_read_is_not_worked_for(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    connection.pause_writing()
    send(b"a")
    assert link.writes == []
    connection.resume_writing()
    script.run_round()
    assert link.writes == [b"A"]


def test_a_client_far_ahead_of_its_answers_is_not_read_from(send: Send, connection: Connection, link: Link) -> None:
    send(b"park", *([b"x" * 1000] * 70))
    assert not link.is_reading_now
    connection.answer([], 0.0)
    assert link.is_reading_now


def test_what_waits_is_counted_and_given_back(
    send: Send, receive: Callable[[bytes], None], connection: Connection, script: Script
) -> None:
    send(b"park", b"x" * 100)
    receive(b"\0\0\0\x09abc")
    assert script.held_bytes == connection.held_bytes == 4 + (4 + 100) + 7
    connection.answer([], 0.0)
    assert script.held_bytes == 7
    connection.connection_lost(None)
    assert script.held_bytes == 0


@pytest.mark.parametrize("behind", [[], [b"x"]])
def test_a_connection_is_not_idle_when_what_it_waited_for_has_come(
    send: Send, connection: Connection, script: Script, behind: list[bytes]
) -> None:
    send(b"park", *behind)
    script.seconds = 600.0
    connection.answer([b"parked"], script.seconds)
    assert connection.last_active == 600.0
    assert script.held_bytes == connection.held_bytes == 0


def test_a_turn_ends_after_a_hundred_requests_and_the_next_goes_on(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    send(*([b"x"] * 250))
    assert [len(write) for write in link.writes] == [100]
    connection.data_received(framed([b"y"]))
    assert len(script.turns) == 1, "it has a turn coming and gets no other"
    while script.turns:
        script.run_round()
    assert [len(write) for write in link.writes] == [100, 100, 51]


def test_a_turn_ends_after_many_bytes_of_answers(connection: Connection, script: Script, link: Link) -> None:
    connection.data_received(b"".join(framed([b"x" * 1000]) for _ in range(90)))
    assert [len(write) for write in link.writes] == [66_000]
    connection.pause_writing()
    script.run_round()
    assert len(link.writes) == 1, "a client that does not read is not worked for"
    connection.resume_writing()
    assert sum(map(len, link.writes)) == 90_000


def test_small_requests_and_answers_wait_for_the_others(connection: Connection, script: Script, link: Link) -> None:
    connection.data_received(framed([b"a"]))
    assert script.decided == [], "the others are read from first"
    (turn,) = script.turns
    turn(script.now())
    assert (script.decided, link.writes) == ([b"a"], []), "the others have their turn first"
    script.send_all()
    assert link.writes == [b"A"]


def test_large_requests_and_answers_do_not_wait(connection: Connection, script: Script, link: Link) -> None:
    connection.answer([b"small "], 0.0)
    connection.answer([b"x" * 10_000], 0.0)
    assert link.writes == [b"small " + b"x" * 10_000], "and take with them what was before them"
    connection.data_received(framed([b"y" * 1000]) * 10)
    assert len(script.decided) == 10
    script.send_all()
    assert len(link.writes) == 2


def test_what_is_left_to_send_to_a_client_that_has_gone_is_dropped(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    connection.data_received(framed([b"a"]))
    (turn,) = script.turns
    turn(script.now())
    connection.connection_lost(None)
    script.send_all()
    assert link.writes == []


def test_what_came_before_a_bad_length_is_answered_first(
    receive: Callable[[bytes], None], connection: Connection, link: Link
) -> None:
    receive(framed([b"a"]) + framed([b"park"]) + b"\xff\xff\xff\xff")
    assert (link.writes, link.is_closed) == ([b"A"], False)
    connection.answer([b"parked"], 0.0)
    assert (link.writes, link.is_closed) == ([b"A", b"parked"], True)


def test_a_bye_is_said_after_the_answers_before_it(send: Send, link: Link, script: Script) -> None:
    send(b"a", b"bye", b"b")
    assert link.writes == [b"A"]
    assert link.is_closed
    assert script.decided == [b"a", b"bye"]


def test_a_refused_connection_is_closed_with_the_reason(
    script: Script, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    script.refusal = "too many"
    Connection(script, 1, 1000).connection_made(link)
    assert link.is_aborted
    assert caplog.messages == ["closed peer=10.0.0.1:5 node=1 why='too many'"]


@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", (1001).to_bytes(4)])
def test_a_bad_length_closes_with_one_line(
    receive: Callable[[bytes], None], link: Link, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    receive(sent)
    receive(b"more")
    assert link.is_closed
    assert len(caplog.messages) == 1


def test_a_malformed_request_closes_with_one_line(
    send: Send, link: Link, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    script.fault = CorruptMessage("odd")
    send(b"a", b"b")
    assert link.is_closed
    assert caplog.messages == ["closed peer=10.0.0.1:5 node=1 why='a malformed request: odd'"]


def test_a_fault_of_ours_closes_only_this_connection_and_is_called_a_bug(
    send: Send, link: Link, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    script.fault = KeyError("ours")
    send(b"a")
    assert link.is_closed
    assert caplog.messages[0].startswith("bug peer=10.0.0.1:5")


def test_answers_that_are_not_read_are_counted_until_they_are(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    connection.pause_writing()
    link.unread_bytes = 5000
    send(b"a")
    assert script.held_bytes == 5005
    connection.resume_writing()
    assert script.held_bytes == 0


def test_a_turn_that_comes_after_the_client_has_gone_leaves_nothing_held(
    send: Send, connection: Connection, script: Script
) -> None:
    send(*([b"x"] * 250))
    connection.close("enough")
    connection.connection_lost(None)
    script.run_round()
    assert script.held_bytes == connection.held_bytes == 0


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_what_arrived_whole_before_the_client_went_is_decided_and_not_answered(
    send: Send, connection: Connection, script: Script, link: Link, error: Exception | None
) -> None:
    send(*([b"x"] * 250))
    connection.connection_lost(error)
    while script.turns:
        assert script.gone_from == []
        script.run_round()
    assert len(script.decided) == 250
    assert [len(write) for write in link.writes] == [100]
    assert script.gone_from == [connection]
    assert script.held_bytes == 0


def test_what_stands_behind_a_parked_request_is_decided_after_it_though_the_client_has_gone(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    send(b"park", b"a", b"park", b"b", b"park")
    connection.connection_lost(None)
    assert script.decided == [b"park"]
    connection.answer([b"parked"], 0.0)
    connection.answer_flushed(b"parked", 0.0)
    assert script.decided == [b"park", b"a", b"park", b"b", b"park"]
    assert link.writes == []
    assert script.gone_from == [connection], "nobody waits for the last answer"
    assert script.held_bytes == 0


def test_a_client_that_went_without_reading_its_answers_is_not_worked_for(
    send: Send, connection: Connection, script: Script
) -> None:
    connection.pause_writing()
    send(b"a")
    connection.connection_lost(BrokenPipeError())
    assert (script.decided, script.gone_from) == ([], [connection])


@pytest.mark.parametrize("end", [Connection.hang_up, lambda connection: connection.close("enough")])
def test_a_connection_whose_client_has_gone_is_closed_at_once(
    send: Send, connection: Connection, script: Script, link: Link, end: Callable[[Connection], None]
) -> None:
    send(b"park", b"a")
    connection.connection_lost(None)
    end(connection)
    assert (script.decided, script.gone_from, script.held_bytes) == ([b"park"], [connection], 0)
    assert not link.is_aborted, "it is no more"


def test_a_bye_to_a_client_that_has_gone_ends_its_connection(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    send(b"park", b"bye", b"b")
    connection.connection_lost(None)
    connection.answer([b"parked"], 0.0)
    assert (script.decided, script.gone_from) == ([b"park", b"bye"], [connection])
    assert (link.writes, link.is_closed) == ([], False)


def test_who_sends_no_more_has_his_answers_and_then_the_connection_is_closed(
    send: Send, connection: Connection, script: Script, link: Link
) -> None:
    send(b"park", b"a", *([b"x" * 1000] * 70))
    assert connection.eof_received()
    connection.answer([b"parked "], 0.0)
    while script.turns:
        assert not link.is_closed
        script.run_round()
    assert sum(map(len, link.writes)) == len("parked A") + 70_000
    assert link.is_closed
    assert not link.is_reading_now, "the end is not to be heard again"


def test_what_was_decided_is_answered_before_the_connection_of_one_who_sends_no_more_closes(
    connection: Connection, script: Script, link: Link
) -> None:
    connection.data_received(framed([b"a"]))
    (turn,) = script.turns
    turn(script.now())
    assert not connection.eof_received()
    assert link.writes == [b"A"]


def test_empty_requests_behind_a_parked_one_count_too(send: Send, script: Script, link: Link) -> None:
    send(b"park", *([b""] * 20_000))
    assert script.held_bytes > 4 * 20_000
    assert not link.is_reading_now


def test_what_comes_after_a_bad_length_is_not_held(receive: Callable[[bytes], None], script: Script) -> None:
    receive(framed([b"park"]) + b"\xff\xff\xff\xff")
    held = script.held_bytes
    receive(b"x" * 5000)
    assert script.held_bytes == held


def test_a_parked_request_is_counted_until_it_is_answered(send: Send, connection: Connection, script: Script) -> None:
    send(b"park")
    assert script.held_bytes == 4
    connection.answer([], 0.0)
    assert script.held_bytes == 0
