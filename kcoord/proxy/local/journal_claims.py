"""Decides which proxy may write the journal on the upstream cluster, by the claims that its proof records carry.

Theory of operation. Anybody who may use the transactional id can fence the writer: a second proxy, but also a tool, a
client with a wrong setting, or the cluster itself after a transaction timeout. The error is always the same. A writer
that took the journal back from a second proxy would begin an endless fight; one that never took it back would stop all
groups for good. The journal shows which case it is: a proxy that begins writes proof records, and these carry a claim:
a term, and the writer's name, which is new with each process.

    begin       The term is one more than the highest term in the journal, and at least the clock's milliseconds: the
                journal loses old proofs to compaction, the clock does not go back.
    fenced      Is there a claim greater than this writer's (by term, then by name)?

                   yes: A proxy that began after this one has it. This one gives way, for good.
                   no:  Wait a few seconds for one, since a proxy writes its proof only after it has fenced the others.
                        If there is still none, begin with a new producer, in the same term.

This ends well in any order. Of two proxies, the one with the smaller claim gives way as soon as it sees the other's
proof. It may take the journal back once from a successor that is slow to write its proof; the successor then fences it
again, since no claim is greater than the successor's. Two proxies that begin in the same millisecond are ordered by
name. A proof without a term was written by an older kcoord, which never takes a journal back: it counts as greater.

Clients that write to the topic directly can forge claims, as anything else in it: the cluster's ACLs protect it.
Through the proxy they cannot (guards/hiding.py).
"""

from collections.abc import Mapping
from typing import Final, Protocol

from kcoord.proxy.local.kafka_reader import NO_TERM, TERM, WRITER, Claim, Claims

_TERM_BYTES: Final = 8
_NO_OFFSET: Final = -1


class ClaimReader(Protocol):
    """What a WriterClaim needs of a KafkaReader."""

    def claims_after(self, offset: int) -> Claims:
        """Reads the claims of all writers in the journal's partition 0 behind this offset. Raises KafkaException."""


class WriterClaim:
    """The claim of one proxy to be the only writer of the journal (the topic with the groups' records on the upstream
    cluster). `name` is unique to the process.
    """

    def __init__(self, reader: ClaimReader, name: bytes) -> None:
        self._reader = reader
        self._name = name
        self._claim: Claim | None = None
        self._read_to = _NO_OFFSET  # an offset of partition 0: later claims come behind it

    @property
    def has_begun(self) -> bool:
        """Whether this writer has claimed the journal, by taking a term."""
        return self._claim is not None

    @property
    def headers(self) -> Mapping[str, bytes]:
        """The Kafka headers (writer's name and term) that this writer puts on a proof record, the record by which it
        claims the journal.
        """
        assert self._claim is not None
        return {WRITER: self._claim.writer, TERM: self._claim.term.to_bytes(_TERM_BYTES)}

    def begin(self, now_ms: int) -> None:
        """Claims the journal: takes a term greater than those of all claims in it. Raises KafkaException."""
        claims = self._reader.claims_after(self._read_to)
        self._read_to = claims.read_to
        self._claim = Claim(max([now_ms, *(claim.term + 1 for claim in claims.found)]), self._name)

    def has_successor(self) -> bool:
        """Returns whether another proxy has a greater claim to the journal, so that this one has to stop writing.
        Raises KafkaException.
        """
        assert self._claim is not None
        current = self._claim
        others = [claim for claim in self._reader.claims_after(self._read_to).found if claim.writer != current.writer]
        return any(claim.term == NO_TERM or claim > current for claim in others)

    def on_proof(self, offset: int) -> None:
        """Notes the offset at which a proof record of this writer was delivered, one that shows other proxies its
        claim: claims of successors come behind it.
        """
        self._read_to = max(self._read_to, offset)
