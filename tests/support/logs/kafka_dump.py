"""What kafka-dump-log prints, parsed, and kcoord's own dump in the same form."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

Batch = dict[str, Any]

_BATCH_LINE: Final = re.compile(r"(\w+): (\S+)")
_RECORD_LINE: Final = re.compile(
    r"\| offset: (?P<offset>\d+) (CreateTime|LogAppendTime): (?P<timestamp>-?\d+) keySize: (?P<keySize>-?\d+)"
    r" valueSize: (?P<valueSize>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headerKeys>.*?)\](?P<rest>.*)",
    re.DOTALL,
)
_MARKER: Final = re.compile(r" endTxnMarker: (\w+) coordinatorEpoch: (-?\d+)")
_CONTENT: Final = re.compile(r"(?: key: (?P<key>.*?))?(?: payload: (?P<payload>.*))?", re.DOTALL)
_TEXTS: Final = {"compresscodec"}


def printed_batches(printed: str) -> list[Batch]:
    """Parses the batches and their records from everything that the tool printed."""
    batches: list[Batch] = []
    for line in printed.split("\n"):  # Not splitlines: records may hold other line separators.
        if line.startswith("baseOffset: "):
            batches.append(_batch(line))
        elif line.startswith("| "):
            batches[-1]["records"].append(_record(line))
    return batches


def dumped_batches(document: Any) -> list[Batch]:
    """Returns the batches in the segments of kcoord's own JSON."""
    return [_comparable(batch) for segment in document["segments"] for batch in segment["batches"]]


def _batch(line: str) -> Batch:
    facts: Batch = {}
    for name, text in _BATCH_LINE.findall(line):
        if name in ("CreateTime", "LogAppendTime"):
            facts |= {"timestampType": name, "maxTimestamp": int(text)}
        elif name == "deleteHorizonMs":
            facts[name] = int(found[1]) if (found := re.search(r"\[(\d+)\]", text)) else None
        elif text in ("true", "false"):
            facts[name] = text == "true"
        else:
            facts[name] = text if name in _TEXTS else int(text)
    return facts | {"records": []}


def _record(line: str) -> dict[str, Any]:
    found = _RECORD_LINE.fullmatch(line)
    assert found, line
    facts: dict[str, Any] = {
        name: int(found[name]) for name in ("offset", "timestamp", "keySize", "valueSize", "sequence")
    }
    facts["headerKeys"] = found["headerKeys"]
    if marker := _MARKER.fullmatch(found["rest"]):
        return facts | {"marker": {"type": marker[1], "coordinatorEpoch": int(marker[2])}}
    content = _CONTENT.fullmatch(found["rest"])
    assert content, line
    return facts | {"key": _printed(content["key"]), "value": _printed(content["payload"])}


def _printed(text: str | None) -> Any:
    if text is None or text == "<DELETE>":
        return None
    return json.loads(text) if text.startswith('{"') else text


def _comparable(batch: Batch) -> Batch:
    return batch | {"records": [dict(_comparable_record(record)) for record in batch["records"]]}


def _comparable_record(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, fact in record.items():
        match name:
            case "headers":
                yield "headerKeys", ",".join(header["key"] for header in fact)
            case "key" if isinstance(fact, dict) and "data" in fact:
                yield name, {"type": str(fact["type"]), "data": fact["data"]}
            case "value" if isinstance(fact, dict) and "data" in fact:
                yield name, {"version": str(fact["version"]), "data": fact["data"]}
            case "key" | "value" if isinstance(fact, dict):
                yield name, base64.b64decode(fact["base64"]).decode(errors="replace")
            case _:
                yield name, fact
