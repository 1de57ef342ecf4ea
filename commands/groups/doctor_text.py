"""Text output of findings: by group, the worst first, evidence below, advice last.

A finding that many groups have is folded into one, with the number of groups and the names of the first ones.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import format_count

from ..output.tables import paint
from ..output.wrapping import wrapped

SEVERITY_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: "cyan"}

_NO_GROUP: Final = "(of no single group)"
_EVIDENCE: Final = "      · "
_ADVICE: Final = "      → "
_MAX_NAMED_GROUPS: Final = 5  # names of groups in a folded finding
FOLDED_ABOVE: Final = 5  # groups that may have the same finding before it is folded


def findings_text(findings: Sequence[Finding], *, is_colored: bool, folded_above: int | None) -> str:
    """Formats the findings of `kcoord groups doctor` as text, for the width of the terminal, or unwrapped for a pipe. A
    finding that more groups than `folded_above` have is shown once."""
    columns = shutil.get_terminal_size((0, 0)).columns or None
    lines = findings_lines(findings, columns=columns, is_colored=is_colored, folded_above=folded_above)
    return "".join(f"{line}\n" for line in lines)


def findings_lines(
    findings: Sequence[Finding], *, columns: int | None, is_colored: bool, folded_above: int | None = None
) -> Iterator[str]:
    """Formats the findings of `kcoord groups doctor` as lines, ordered by their worst severity; among equals, single
    groups come before folded findings."""
    folded = _folded(findings, folded_above)
    single = [finding for finding in findings if _kind(finding) not in folded]
    by_group = [(group, list(matching)) for group, matching in groupby(single, key=lambda finding: finding.group)]
    for severity in Severity:
        for group, matching in by_group:
            if min(finding.severity.rank for finding in matching) == severity.rank:
                yield from _block(group or _NO_GROUP, matching, columns, is_colored)
        for equal in folded.values():
            if equal[0].severity is severity:
                yield from _block(_many(equal), [_as_one(equal)], columns, is_colored)


def summary(findings: Sequence[Finding], *, groups: int, snapshots: int, seconds: float) -> str:
    """Formats the last line of `kcoord groups doctor`: the number of groups, the time that was observed, and the number
    of findings by severity."""
    counts = [(each, sum(finding.severity is each for finding in findings)) for each in Severity]
    counted = (
        ", ".join(format_count(count, severity.value) for severity, count in counts if count)
        or "nothing to complain of"
    )
    observed = format_count(snapshots, "look") + (f" over {format_duration(seconds)}" if snapshots > 1 else "")
    return f"{format_count(groups, 'group')}, {observed}: {counted}"


_Kind = tuple[Severity, Code, str]


def _kind(finding: Finding) -> _Kind:
    """The key of findings that can be folded: they have the same severity, code and advice. Their figures may
    differ."""
    return finding.severity, finding.code, finding.advice


def _folded(findings: Sequence[Finding], above: int | None) -> dict[_Kind, list[Finding]]:
    kinds: dict[_Kind, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(_kind(finding), []).append(finding)
    return {kind: matching for kind, matching in kinds.items() if above is not None and len(matching) > above}


def _many(equal: Sequence[Finding]) -> str:
    groups = len({finding.group for finding in equal if finding.group})
    return f"({format_count(groups, 'group')})" if groups else _NO_GROUP


def _as_one(equal: Sequence[Finding]) -> Finding:
    """Folds findings into one. The first groups are listed, each with what its title has beyond the common part."""
    title, matching = _common_title([finding.title for finding in equal])
    named = [
        f"{each.group or _NO_GROUP}{f': {rest}' if rest else ''}"
        for each, rest in zip(equal[:_MAX_NAMED_GROUPS], matching[:_MAX_NAMED_GROUPS], strict=True)
    ]
    more = f"and {len(equal) - _MAX_NAMED_GROUPS:,} more: --unfolded shows each, -o json has all of them"
    return replace(equal[0], title=title, evidence=(*named, more))


def _common_title(titles: Sequence[str]) -> tuple[str, Sequence[str]]:
    """What all titles say, which is the whole or the part before a colon, and what each says besides."""
    if len(set(titles)) == 1:
        return titles[0], [""] * len(titles)
    parts = [title.partition(": ") for title in titles]
    if all(part[0] == parts[0][0] and part[2] for part in parts):
        return parts[0][0], [part[2] for part in parts]
    return f"{len(titles):,} findings of the same kind", titles


def _block(head: str, findings: Sequence[Finding], columns: int | None, is_colored: bool) -> Iterator[str]:
    yield from (paint(line, "bold", is_colored) for line in wrapped(head, columns))
    for finding in findings:
        yield from _finding_lines(finding, columns, is_colored)
    yield ""


def _finding_lines(finding: Finding, columns: int | None, is_colored: bool) -> Iterator[str]:
    head = f"  {finding.severity.value.upper():8}"
    first, *others = wrapped(f"{finding.title} [{finding.code.value}]", columns, first=head, then=" " * len(head))
    yield paint(head, SEVERITY_STYLES[finding.severity], is_colored) + first.removeprefix(head)
    yield from others
    for line in finding.evidence:
        yield from wrapped(line, columns, first=_EVIDENCE, then=" " * len(_EVIDENCE))
    yield from wrapped(finding.advice, columns, first=_ADVICE, then=" " * len(_ADVICE))
