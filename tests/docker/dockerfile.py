"""The Dockerfile as the tests read it, and what .dockerignore lets through to it."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tests.docker.compose import ROOT


class Instruction(NamedTuple):
    word: str
    rest: str

    def as_list(self) -> list[str]:
        """Parses the exec form: ["a", "b"]."""
        words: list[str] = json.loads(self.rest)
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    name: str
    image: str
    """The base image, or the stage that it continues."""
    instructions: list[Instruction]

    def last(self, word: str) -> Instruction | None:
        return next((each for each in reversed(self.instructions) if each.word == word), None)


def stages(text: str) -> dict[str, Stage]:
    found: dict[str, Stage] = {}
    stage = None
    for word, rest in _instructions(text):
        if word == "FROM":
            image, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()  # type: ignore[union-attr]
            stage = found[name] = Stage(name=name, image=image, instructions=[])
        else:
            assert stage, f"{word} before FROM"
            stage.instructions.append(Instruction(word, rest))
    return found


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = line.partition(" ")
        yield word, rest


def copied(stage: Stage) -> list[str]:
    """Returns the sources that are copied from the build context, in order."""
    words = [each.rest.split() for each in stage.instructions if each.word == "COPY"]
    return [source for *sources, _ in words for source in sources if not sources[0].startswith("--from")]


def is_let_through(path: PurePosixPath, patterns: list[str]) -> bool:
    """Applies Docker's rule: of the patterns that match the path or a folder above it, the last one decides."""
    is_ignored = False
    for pattern in patterns:
        if any(_matches(each, pattern.removeprefix("!")) for each in (path, *path.parents)):
            is_ignored = not pattern.startswith("!")
    return not is_ignored


def _matches(path: PurePosixPath, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(path.name, pattern[3:])
    wanted = pattern.split("/")
    return len(path.parts) == len(wanted) and all(map(fnmatchcase, path.parts, wanted))


def copy_context(stage: Stage, patterns: list[str], folder: Path) -> None:
    """Copies to a folder what the stage copies."""
    for source in copied(stage):
        files = [ROOT / source] if (ROOT / source).is_file() else (ROOT / source).rglob("*")
        for file in files:
            path = PurePosixPath(file.relative_to(ROOT).as_posix())
            if file.is_file() and is_let_through(path, patterns):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
