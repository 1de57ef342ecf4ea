"""Random lives of a log, compared with a plain list of records: with tiny segments, in files, and with a long index.

Those in a folder are also closed, recovered and compacted.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kcoord.broker.log.partition_log import Appended, LogSettings, PartitionLog, Refused
from kcoord.broker.log.storage import EphemeralStorage, LogStorage
from kcoord.protocol.records.batch import Batch, assemble, has_valid_crc, produced_batch, split_batches
from kcoord.protocol.records.compression import Codec, compress
from kcoord.protocol.records.record import Record, plain_records, read_records, record_spans, write_batch
from kcoord.storage.log_dir import LogDir
from kcoord.storage.recovery import recover
from kcoord.storage.segment_files import SegmentFiles
from kcoord.storage.spill_store import SpillStores
from tests.support.logs.appending import append_at_once, offset_for_timestamp, offset_of_max_timestamp

start_ms = 1_800_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBatch:
    """A batch in the model."""

    base_offset: int
    size: int
    records: list[Record]

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset


class LogLife(RuleBasedStateMachine):
    repeats: ClassVar = 1  # How often a value is repeated: the larger, the larger the batches.
    segment_bytes: ClassVar = 400
    retention_bytes: ClassVar = 900

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = start_ms
        self.limits = LogSettings(
            segment_bytes=self.segment_bytes, retention_bytes=self.retention_bytes, retention_ms=5000
        )
        self.log = PartitionLog("t-0", self.limits, now_ms=self.now_ms, storage=self.make_storage())
        self.batches: list[ModelBatch] = []
        self.start = 0
        self.end = 0

    @rule(
        times=st.lists(st.integers(-3000, 3000), min_size=1, max_size=4),
        value=st.binary(max_size=60),
        codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    )
    def append(self, times: list[int], value: bytes, codec: Codec) -> None:
        value *= self.repeats
        records = [Record(timestamp=self.now_ms + time, value=value) for time in times]
        batch = produced_batch(write_batch(records, codec=codec))
        outcome = append_at_once(self.log, batch, self.now_ms)
        assert isinstance(outcome, Appended)
        assert outcome.base_offset == self.end
        numbered = [
            Record(offset=self.end + i, timestamp=record.timestamp, value=value) for i, record in enumerate(records)
        ]
        self.batches.append(ModelBatch(base_offset=self.end, size=batch.header.size, records=numbered))
        self.end += len(records)

    @rule(count=st.integers(3, 10))
    def append_some(self, count: int) -> None:
        for number in range(count):
            self.append([0] * (number % 3 + 1), b"v" * number, Codec.NONE)

    @rule(passed_ms=st.integers(0, 4000))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def enforce_retention(self) -> None:
        self.log.enforce_retention(self.now_ms)
        gone = [batch for batch in self.batches if self.start <= batch.last_offset < self.log.start_offset]
        retained = [batch for batch in self.batches if batch.last_offset >= self.log.start_offset]
        is_by_size = sum(batch.size for batch in retained) >= self.retention_bytes
        is_by_time = not gone or all(record.timestamp < self.now_ms - 5000 for record in gone[-1].records)
        assert is_by_size or is_by_time
        assert self.log.size < self.retention_bytes + max(1, self.log.segments[0].size)
        self.start = self.log.start_offset

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start = max(self.start, int(self.end * share))
        assert self.log.delete_records(self.start, self.now_ms) == self.start

    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 1000), min_one_batch=st.booleans())
    def read(self, share: float, max_bytes: int, min_one_batch: bool) -> None:
        max_bytes *= self.repeats
        offset = self.start + int((self.end - self.start) * share)
        expected: list[ModelBatch] = []
        room = max_bytes
        for batch in self.batches:
            if batch.last_offset < offset:
                continue
            room -= batch.size
            if room < 0 and (expected or not min_one_batch):
                break
            expected.append(batch)
        read = self.log.read(offset, max_bytes=max_bytes, min_one_batch=min_one_batch)
        assert isinstance(read, bytes)
        found = list(split_batches(read))
        assert all(has_valid_crc(batch) for batch in found)
        assert [list(read_records(batch)) for batch in found] == [batch.records for batch in expected]
        assert len(read) == sum(batch.size for batch in expected)

    @rule(time=st.integers(-4000, 4000))
    def find_time(self, time: int) -> None:
        timestamp = self.now_ms + time
        expected = next((record for record in self.visible() if record.timestamp >= timestamp), None)
        found = offset_for_timestamp(self.log, timestamp)
        assert (found and (found.timestamp, found.offset)) == (expected and (expected.timestamp, expected.offset))

    @rule()
    def find_newest(self) -> None:
        expected = max(self.visible(), key=lambda record: record.timestamp, default=None)
        found = offset_of_max_timestamp(self.log)
        assert (found and (found.timestamp, found.offset)) == (expected and (expected.timestamp, expected.offset))

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert isinstance(self.log.read(self.start - 1, max_bytes=1), Refused)
        assert isinstance(self.log.read(self.end + 1, max_bytes=1), Refused)

    def visible(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records if record.offset >= self.start]

    def make_storage(self) -> LogStorage:
        return EphemeralStorage().make_log("t-0", UUID(int=1))

    def teardown(self) -> None:
        self.log.close()


class LogLifeInFiles(LogLife):
    def make_storage(self) -> LogStorage:
        self.stores = SpillStores(most_files=5, tail_bytes=150, memory_bytes=500)
        return EphemeralStorage(self.stores.make).make_log("t-0", UUID(int=1))

    def teardown(self) -> None:
        super().teardown()
        assert (self.stores.open_files, self.stores.buffered_bytes) == (0, 0)


class LogLifeWithALongIndex(LogLifeInFiles):
    repeats = 30
    segment_bytes = 40_000
    retention_bytes = 90_000


class LogLifeInAFolder(LogLife):
    def make_storage(self) -> LogStorage:
        self.temporary = TemporaryDirectory()
        self.starts: dict[str, int] = {}
        self.files = SegmentFiles(most_files=3)
        made = self.open_folder()
        made.make(UUID(int=1))
        return made

    def open_folder(self) -> LogDir:
        return LogDir(Path(self.temporary.name, "t-0"), self.files, self.starts.__setitem__)

    @rule()
    def restart(self) -> None:
        self.log.close()
        assert self.files.open_files == 0
        folder = self.open_folder()
        found = recover(folder, start_offset=self.starts.get("t-0", 0), now_ms=self.now_ms)
        self.log = PartitionLog("t-0", self.limits, now_ms=self.now_ms, storage=folder, recovered=found)

    @rule(share=st.floats(0, 1), every=st.integers(1, 4))
    def compact(self, share: float, every: int) -> None:
        """Retains every `every`-th batch of the oldest segments, and of these all records but the first."""
        count = int((len(self.log.segments) - 1) * share)
        first, end = self.log.segments[0].base_offset, self.log.segments[count].base_offset
        retained = [batch for batch in self.batches if first <= batch.base_offset < end][::every]
        content = b"".join(segment.whole_batches(0, segment.size) for segment in self.log.segments[:count])
        offsets = {batch.base_offset for batch in retained}
        compacted = [without_first(batch) for batch in split_batches(content) if batch.header.base_offset in offsets]
        if not count:
            return
        replacement = self.log.make_replacement()
        for batch in compacted:
            replacement.append(bytearray(batch))
        self.log.replace_segments(count, replacement, self.now_ms)
        shrunk = [
            ModelBatch(base_offset=batch.base_offset, size=len(content), records=batch.records[1:] or batch.records)
            for batch, content in zip(retained, compacted, strict=True)
        ]
        self.batches = [*shrunk, *(batch for batch in self.batches if batch.base_offset >= end)]

    @invariant()
    def few_files_are_open(self) -> None:
        assert self.files.open_files <= 3

    def teardown(self) -> None:
        super().teardown()
        self.files.close()
        self.temporary.cleanup()


def without_first(batch: Batch) -> bytes:
    """Returns the batch, at the same offsets, without its first record if it has others."""
    header, plain = batch.header, plain_records(batch)
    spans = list(record_spans(plain, header.record_count))
    if len(spans) == 1:
        return bytes(batch.data)
    newest = max(header.base_timestamp + span.timestamp_delta for span in spans[1:])
    fewer = header._replace(record_count=len(spans) - 1, max_timestamp=newest)
    return assemble(fewer, compress(Codec(header.codec), plain[spans[0].end :]))


class LogLifeInAFolderWithALongIndex(LogLifeInAFolder):
    repeats = 30
    segment_bytes = 40_000
    retention_bytes = 90_000


for life in (LogLife, LogLifeInFiles, LogLifeWithALongIndex, LogLifeInAFolder, LogLifeInAFolderWithALongIndex):
    life.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestLogLife = LogLife.TestCase
TestLogLifeInFiles = LogLifeInFiles.TestCase
TestLogLifeWithALongIndex = LogLifeWithALongIndex.TestCase
TestLogLifeInAFolder = LogLifeInAFolder.TestCase
TestLogLifeInAFolderWithALongIndex = LogLifeInAFolderWithALongIndex.TestCase
