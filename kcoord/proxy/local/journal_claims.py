"""Who may write the journal on the upstream cluster: the claims that its proofs carry, and whom to give way to.

Theory of operation. Anybody who may use the transactional id can fence the writer: a second proxy, but also a tool, a
client with a wrong setting, the cluster itself after a transaction timeout. The error is the same. To take the journal
back from a second proxy would begin a fight without end; not to take it back from anybody else would stop all groups
for good. What tells them apart is in the journal: a proxy that begins proves itself, and its proofs carry a claim: a
term, and the writer's name, which is new with each process.

    begin       term = one more than the highest term in the journal, and not less than the clock's milliseconds: the
                journal forgets old proofs (compaction), the clock does not
    fenced      is there a claim that is greater than ours (by term, then by name)?
                   yes: a proxy that began after us. We give way, for good
                   no:  wait a few seconds for one, since whoever fences proves itself only then;
                        if there is still none, begin with a new producer, in the same term

It ends well whatever the order: of two proxies the one with the smaller claim gives way as soon as it sees the other's
proof; it may take the journal back once from a successor that is slow to prove itself, which then fences it again, as
no claim is greater than the successor's. Two that begin at the same moment are told apart by their names. A proof
without a term is of a kcoord that did not write them yet and never takes a journal back: it counts as greater.

Whoever can write to the topic behind the proxy's back can forge claims, as anything else in it: its ACLs are the
cluster's. Through the proxy nobody can (upstream/hiding.py).
"""

from collections.abc import Mapping
from typing import Final, Protocol

from kcoord.proxy.local.kafka_reader import NO_TERM, TERM, WRITER, Claim, Claims

_TERM_BYTES: Final = 8
_BEFORE_ALL: Final = -1


class ClaimReader(Protocol):
    """What is asked of a KafkaReader."""

    def claims_after(self, offset: int) -> Claims:
        """The claims in partition 0 behind this offset. Raises KafkaException."""


class Claiming:
    """The claim of one writer, whose name no other has."""

    def __init__(self, reader: ClaimReader, name: bytes) -> None:
        self._reader = reader
        self._name = name
        self._claim: Claim | None = None
        self._read_to = _BEFORE_ALL  # an offset of partition 0: who claims the journal after us does so behind it

    @property
    def has_begun(self) -> bool:
        return self._claim is not None

    @property
    def headers(self) -> Mapping[str, bytes]:
        """What a proof carries."""
        assert self._claim is not None
        return {WRITER: self._claim.writer, TERM: self._claim.term.to_bytes(_TERM_BYTES)}

    def begin(self, now_ms: int) -> None:
        """Take a term behind all that the journal knows of. Raises KafkaException."""
        claims = self._reader.claims_after(self._read_to)
        self._read_to = claims.read_to
        self._claim = Claim(max([now_ms, *(claim.term + 1 for claim in claims.found)]), self._name)

    def is_succeeded(self) -> bool:
        """Whether another proxy has claimed the journal that this one has to give way to. Raises KafkaException."""
        assert self._claim is not None
        own = self._claim
        others = [claim for claim in self._reader.claims_after(self._read_to).found if claim.writer != own.writer]
        return any(claim.term == NO_TERM or claim > own for claim in others)

    def proven(self, offset: int) -> None:
        """A proof of ours is there: what is before it need not be read to find a successor."""
        self._read_to = max(self._read_to, offset)
