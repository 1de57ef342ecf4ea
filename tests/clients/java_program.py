"""Java's console producer and console consumer, behind the same verbs as the other client programs.

The producer takes lines, so it writes the text set. The consumer prints raw bytes between separators of our choice,
so it reads any set: the separators only have to be strings that no record holds.
"""

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcoord.testing.jvm.java import Jvm
from kcoord.testing.tools import main_class
from tests.clients.programs import Summary
from tests.clients.records import Headers, PartitionDigest, Record, read_records, text_records

NULL_MARKER = b"~"
NULL, LINE, FIELD, HEADER = (f"<<the end of a {name}>>".encode() for name in ("null", "record", "field", "header"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProgram:
    jvm: Jvm
    name: str = "java"

    def records(self, seed: int, count: int) -> list[Record]:
        return text_records(seed, count)

    def produce(self, bootstrap: str, topic: str, *, codec: str, records: Path) -> None:
        properties = {"parse.key": "true", "parse.headers": "true", "null.marker": NULL_MARKER.decode()}
        self.run(
            "console-producer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec),
            *("--request-required-acks", "all", "--command-property", "enable.idempotence=true"),
            *("--batch-size", str(128 * 1024), "--timeout", "20"),
            *_options("--reader-property", properties),
            stdin=b"".join(map(_line, read_records(records))),
        )

    def consume(self, bootstrap: str, topic: str, *, counts: Sequence[int]) -> Summary:
        return [
            self._consume_partition(bootstrap, topic, partition, count).summary()
            for partition, count in enumerate(counts)
        ]

    def join_group(self, bootstrap: str, topic: str, *, group: str, seconds: float, protocol: str = "classic") -> None:
        self.run(
            "console-consumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
            *("--timeout-ms", str(int(1000 * seconds)), "--command-property", f"group.protocol={protocol}"),
        )

    def _consume_partition(self, bootstrap: str, topic: str, partition: int, count: int) -> PartitionDigest:
        properties = {
            "print.timestamp": "true",
            "print.offset": "true",
            "print.headers": "true",
            "print.key": "true",
            "null.literal": NULL.decode(),
            "line.separator": LINE.decode(),
            "key.separator": FIELD.decode(),
            "headers.separator": HEADER.decode(),
        }
        printed = self.run(
            "console-consumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", str(partition)),
            *("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "30000"),
            *_options("--formatter-property", properties),
        )
        digest = PartitionDigest()
        for printed_record in _printed_records(printed):
            digest.add(*printed_record)
        return digest

    def run(self, tool: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Runs a tool and returns its output as bytes, since records need not be text."""
        with tempfile.TemporaryDirectory() as folder:
            command = self.jvm.command(main_class(tool), *arguments, temp_folder=Path(folder))
            finished = subprocess.run(command, input=stdin, capture_output=True, timeout=180)
        assert finished.returncode == 0, f"{tool} {' '.join(arguments)}\n{finished.stderr.decode()}"
        return finished.stdout


def _options(option: str, properties: dict[str, str]) -> Iterable[str]:
    return [word for name, value in properties.items() for word in (option, f"{name}={value}")]


def _line(record: Record) -> bytes:
    headers = b",".join(name.encode() + b":" + _marked(value) for name, value in record.headers)
    return b"\t".join((headers or NULL_MARKER, _marked(record.key), _marked(record.value))) + b"\n"


def _marked(content: bytes | None) -> bytes:
    return NULL_MARKER if content is None else content


def _printed_records(printed: bytes) -> Iterator[tuple[int, int, bytes | None, bytes | None, Headers]]:
    for line in printed.split(LINE)[:-1]:
        timestamp, offset, headers, key, value = line.split(FIELD)
        yield (
            int(offset.removeprefix(b"Offset:")),
            int(timestamp.removeprefix(b"CreateTime:")),
            _unless_null(key),
            _unless_null(value),
            () if headers == b"NO_HEADERS" else tuple(map(_printed_header, headers.split(HEADER))),
        )


def _printed_header(printed: bytes) -> tuple[str, bytes | None]:
    name, _, value = printed.partition(b":")
    return name.decode(), _unless_null(value)


def _unless_null(printed: bytes) -> bytes | None:
    return None if printed == NULL else printed
