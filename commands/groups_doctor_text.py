"""Findings for people: by group, the worst first, evidence below, advice last."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from kcoord.admin.doctor.finding import Finding, Severity
from kcoord.admin.durations import say_duration
from kcoord.admin.saying import say_count

from .folding import fold
from .printable import printable, width
from .tables import paint

SEVERITY_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: "cyan"}

_NO_GROUP: Final = "(of no single group)"
_EVIDENCE: Final = "      · "
_ADVICE: Final = "      → "
_NARROWEST: Final = 20


def findings_text(findings: Sequence[Finding], *, is_colored: bool) -> str:
    """Lines for this terminal, or for the pipe that stdout is."""
    columns = shutil.get_terminal_size((0, 0)).columns or None
    return "".join(f"{line}\n" for line in findings_lines(findings, columns=columns, is_colored=is_colored))


def findings_lines(findings: Sequence[Finding], *, columns: int | None, is_colored: bool) -> Iterator[str]:
    for group, own in groupby(findings, key=lambda finding: finding.group):
        yield from (paint(line, "bold", is_colored) for line in wrapped(group or _NO_GROUP, columns))
        for finding in own:
            yield from _finding_lines(finding, columns, is_colored)
        yield ""


def summary(findings: Sequence[Finding], *, groups: int, looks: int, seconds: float) -> str:
    """One line: how many groups, how long, and what of each severity."""
    counts = [(each, sum(finding.severity is each for finding in findings)) for each in Severity]
    told = (
        ", ".join(say_count(count, severity.value) for severity, count in counts if count) or "nothing to complain of"
    )
    looked = say_count(looks, "look") + (f" over {say_duration(seconds)}" if looks > 1 else "")
    return f"{say_count(groups, 'group')}, {looked}: {told}"


def _finding_lines(finding: Finding, columns: int | None, is_colored: bool) -> Iterator[str]:
    head = f"  {finding.severity.value.upper():8}"
    first, *others = wrapped(f"{finding.title} [{finding.code.value}]", columns, first=head, then=" " * len(head))
    yield paint(head, SEVERITY_STYLES[finding.severity], is_colored) + first.removeprefix(head)
    yield from others
    for line in finding.evidence:
        yield from wrapped(line, columns, first=_EVIDENCE, then=" " * len(_EVIDENCE))
    yield from wrapped(finding.advice, columns, first=_ADVICE, then=" " * len(_ADVICE))


def wrapped(text: str, columns: int | None, *, first: str = "", then: str = "") -> list[str]:
    """Broken between words; a word that is wider than the line is folded. Without columns nothing is broken."""
    words = printable(text).split(" ")
    if columns is None:
        return [first + " ".join(words)]
    room = max(_NARROWEST, columns - width(first))
    lines: list[str] = []
    for part in _parts(words, room):
        if lines and width(lines[-1]) + 1 + width(part) <= room:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return [(then if number else first) + line for number, line in enumerate(lines)]


def _parts(words: Iterable[str], room: int) -> Iterator[str]:
    for word in words:
        yield from fold(word, room)
