"""Captured frames and their files: one JSON object a line, one file per client and version."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map

FIXTURES = Path(__file__).parents[2] / "fixtures" / "wire"
SMALL = 4096

Kind = Literal["request", "response"]


@dataclass(frozen=True, kw_only=True)
class CapturedFrame:
    """A frame without its length, as a client sent or received it."""

    client: str
    api_key: int
    api_version: int
    kind: Kind
    frame: bytes

    @cached_property
    def api(self) -> str:
        # All versions have the same name, and a client may use a version that is newer than kio.
        newest_known = max(schema_name_map[api_key_map[self.api_key]])
        return load_request_schema(self.api_key, newest_known).__name__.removesuffix("Request")

    def __str__(self) -> str:
        return f"{self.client} {self.api} v{self.api_version} {self.kind}"


def choose(captured: Iterable[CapturedFrame]) -> list[CapturedFrame]:
    """Returns the smallest and the largest small frame of each API, version and direction: a minimal one and one with
    content."""
    by_route: dict[tuple[int, int, Kind], list[CapturedFrame]] = defaultdict(list)
    for frame in captured:
        by_route[frame.api_key, frame.api_version, frame.kind].append(frame)
    chosen = []
    for _, frames in sorted(by_route.items()):
        by_size = sorted(frames, key=lambda each: len(each.frame))
        small = [each for each in by_size if len(each.frame) <= SMALL]
        chosen += (
            [by_size[0], small[-1]] if len(small) > 1 and len(small[-1].frame) > len(small[0].frame) else by_size[:1]
        )
    return chosen


def write_frames(path: Path, frames: Iterable[CapturedFrame]) -> None:
    with path.open("w") as file:
        for each in frames:
            line = {
                "client": each.client,
                "api_key": each.api_key,
                "api": each.api,
                "api_version": each.api_version,
                "kind": each.kind,
                "frame": each.frame.hex(),
            }
            file.write(json.dumps(line) + "\n")


def read_frames(path: Path) -> list[CapturedFrame]:
    return [_frame(json.loads(line)) for line in path.read_text().splitlines()]


def _frame(line: dict[str, object]) -> CapturedFrame:
    fields = {name: value for name, value in line.items() if name != "api"}
    return CapturedFrame(**{**fields, "frame": bytes.fromhex(str(line["frame"]))})  # type: ignore[arg-type]
