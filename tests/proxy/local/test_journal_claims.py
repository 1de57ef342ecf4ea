"""Writers of one journal that fence each other in any order: the one that began last remains."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kcoord.proxy.local.journal_claims import WriterClaim
from kcoord.proxy.local.kafka_reader import NO_TERM, TERM, WRITER, Claim, Claims

NOW = 1_000_000


class Journal:
    """A ClaimReader over the proofs of partition 0."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []

    def claims_after(self, offset: int) -> Claims:
        return Claims(self.claims[offset + 1 :], len(self.claims) - 1)

    def prove(self, claiming: WriterClaim) -> None:
        headers = claiming.headers
        self.claims.append(Claim(int.from_bytes(headers[TERM]), headers[WRITER]))
        claiming.on_proof(len(self.claims) - 1)


class Step(NamedTuple):
    writer: int
    clock: int


def test_who_began_later_succeeds_who_began_before() -> None:
    journal = Journal()
    old, new = WriterClaim(journal, b"z"), WriterClaim(journal, b"a")
    old.begin(NOW)
    journal.prove(old)
    new.begin(NOW - 1000)  # its clock is behind
    journal.prove(new)

    assert old.has_successor()
    assert not new.has_successor()


def test_nobody_gives_way_to_an_outsider() -> None:
    journal = Journal()
    writer = WriterClaim(journal, b"a")
    writer.begin(NOW)
    journal.prove(writer)

    assert not writer.has_successor(), "who fences and proves nothing is no proxy"


def test_of_two_that_begin_at_the_same_moment_one_gives_way() -> None:
    journal = Journal()
    first, second = WriterClaim(journal, b"a"), WriterClaim(journal, b"b")
    first.begin(NOW)
    second.begin(NOW)
    journal.prove(second)
    journal.prove(first)  # it has fenced the other, and proved itself last
    assert not second.has_successor()

    journal.prove(second)  # the other one takes the journal back

    assert first.has_successor()
    assert not second.has_successor()


def test_a_proof_of_before_without_a_term_is_no_successors() -> None:
    journal = Journal()
    journal.claims.append(Claim(NO_TERM, b"old kcoord"))
    writer = WriterClaim(journal, b"a")
    writer.begin(NOW)
    journal.prove(writer)
    assert not writer.has_successor()

    journal.claims.append(Claim(NO_TERM, b"old kcoord again"))

    assert writer.has_successor()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)).map(lambda pair: Step(*pair)), max_size=40))
def test_whoever_fences_whom_in_the_end_one_is_left_that_nobody_succeeds(steps: list[Step]) -> None:
    """In each step a writer begins, or notices that it was fenced and then gives way or takes the journal back."""
    journal = Journal()
    writers: dict[int, WriterClaim] = {}
    gone: set[int] = set()

    def turn(number: int, clock: int) -> None:
        if number in gone:
            return
        if number not in writers:
            writers[number] = WriterClaim(journal, bytes([number]))
            writers[number].begin(NOW + clock)
        elif writers[number].has_successor():
            gone.add(number)
            return
        journal.prove(writers[number])

    for step in steps:
        turn(step.writer, step.clock)
    for _ in range(3):  # all writers but the last to prove itself are fenced, and notice it
        for number in sorted(writers):
            if journal.claims[-1].writer != bytes([number]):
                turn(number, 0)

    left = writers.keys() - gone
    assert len(left) == min(1, len(writers))
    assert not any(writers[number].has_successor() for number in left)
