"""The command line that all client programs share; franz_go/main.go has the same one.

produce --bootstrap B --topic T --codec C --records FILE   write the records of a file, each to its partition
consume --bootstrap B --topic T --counts N,N,…             read so many of each partition, print their digests
group   --bootstrap B --topic T --group G --seconds N      join a group, read and commit so long, leave
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.records import PartitionDigest, Record, read_records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    bootstrap: str
    topic: str
    codec: str
    records: list[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume:
    bootstrap: str
    topic: str
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def fresh_digests(self) -> list[PartitionDigest]:
        return [PartitionDigest() for _ in self.counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    bootstrap: str
    topic: str
    group: str
    seconds: float


def run_program(
    *,
    produce: Callable[[Produce], None],
    consume: Callable[[Consume], Sequence[PartitionDigest]],
    join_group: Callable[[JoinGroup], None],
) -> None:
    """Executes the command line with one client's three functions."""
    arguments = _parser().parse_args()
    where = {"bootstrap": arguments.bootstrap, "topic": arguments.topic}
    match arguments.verb:
        case "produce":
            produce(Produce(**where, codec=arguments.codec, records=list(read_records(arguments.records))))
        case "consume":
            seen = consume(Consume(**where, counts=arguments.counts))
            print(json.dumps([digest.summary() for digest in seen]))
        case "group":
            join_group(JoinGroup(**where, group=arguments.group, seconds=arguments.seconds))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    produce, consume, group = (verbs.add_parser(verb) for verb in ("produce", "consume", "group"))
    for verb in (produce, consume, group):
        verb.add_argument("--bootstrap", required=True)
        verb.add_argument("--topic", required=True)
    produce.add_argument("--codec", choices=CODECS, default="none")
    produce.add_argument("--records", type=Path, required=True)
    consume.add_argument("--counts", type=lambda text: [int(count) for count in text.split(",")], required=True)
    group.add_argument("--group", required=True)
    group.add_argument("--seconds", type=float, required=True)
    return parser
