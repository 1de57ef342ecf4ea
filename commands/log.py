"""`kcoord log`: prints batches and records of log segments."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from kcoord.offsets_log.dump import Dumped, DumpFilter, Problem, batch_json, dump_segment, segments_in

from .output.json_text import json_line
from .output.log_table import batch_line, line, record_line
from .output.output import Output, is_colored, write
from .output.printable import printable
from .output.tables import paint

FORMAT: Final = {"kcoord": "log-dump/v1"}


@click.group()
def log() -> None:
    """Read the files of a log: a broker's, or those of kcoord serve.

    \b
    kcoord log dump data/__consumer_offsets-7
    """


@log.command(short_help="The batches and records of segments.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE|FOLDER…")
@click.option(
    "--offsets/--plain",
    "as_offsets",
    default=None,
    help="Read records as those of __consumer_offsets, or as they are. Without it, the folder's name decides.",
)
@click.option("--from", "first", type=click.IntRange(min=0), metavar="OFFSET", help="The first offset.")
@click.option("--to", "last", type=click.IntRange(min=0), metavar="OFFSET", help="The last offset, included.")
@click.option("--batches", "only_batches", is_flag=True, help="Batches only, without their records.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "jsonl"]),
    default="table",
    help="json is one document, jsonl one line for each batch.",
)
def dump(
    paths: tuple[Path, ...],
    as_offsets: bool | None,
    first: int | None,
    last: int | None,
    only_batches: bool,
    output: str,
) -> None:
    """Print the batches and records of segments: of a file, of a partition's folder, or of a folder of partitions.

    \b
    kcoord log dump data/orders-0/00000000000000000000.log
    kcoord log dump data/__consumer_offsets-7 --from 1200 --to 1300
    kcoord log dump data/__consumer_offsets-7 -o jsonl | jq 'select(.isTransactional)'

    It shows what kafka-dump-log shows, with --offsets what that shows with --offsets-decoder. A segment that is torn or
    corrupt is read as far as possible; then the error is printed, and the exit code is 1.
    """
    wanted = DumpFilter(first=first, last=last, records=not only_batches, as_offsets=as_offsets)
    segments = [segment for path in paths for segment in _segments(path)]
    show = {"table": _show_table, "json": _show_json, "jsonl": _show_lines}[output]
    if show((segment, dump_segment(segment, wanted)) for segment in segments):
        sys.exit(1)


Dumps = Iterable[tuple[Path, Iterator[Dumped]]]


def _segments(path: Path) -> list[Path]:
    segments = segments_in(path)
    if not segments:
        raise click.BadParameter(f"there are no segments in {path}", param_hint="FILE|FOLDER…")
    return segments


def _report_problem(segment: Path, problem: Problem) -> None:
    click.echo(
        f"kcoord: {printable(str(segment))}: position {problem.position}: {printable(problem.message)}", err=True
    )


# JSON output. Both forms are written while the segment is read.


def _show_lines(dumps: Dumps) -> int:
    problems = 0
    for segment, dumped in dumps:
        for each in dumped:
            if isinstance(each, Problem):
                problems += 1
                _report_problem(segment, each)
            click.echo(json_line({**FORMAT, "file": str(segment), **_each_json(each)}))
    return problems


def _show_json(dumps: Dumps) -> int:
    problems = 0
    click.echo(json_line(FORMAT)[:-1] + ', "segments": [', nl=False)
    for count, (segment, dumped) in enumerate(dumps):
        click.echo(f"{',' * (count > 0)}\n" + json_line({"file": str(segment)})[:-1] + ', "batches": [', nl=False)
        found: list[Problem] = []
        comma = ""
        for each in dumped:
            if isinstance(each, Problem):
                found.append(each)
                _report_problem(segment, each)
                continue
            click.echo(f"{comma}\n{json_line(batch_json(each))}", nl=False)
            comma = ","
        click.echo(f'],\n"problems": {json_line([_each_json(problem) for problem in found])}}}', nl=False)
        problems += len(found)
    click.echo("]}")
    return problems


def _each_json(each: Dumped) -> dict[str, Any]:
    if isinstance(each, Problem):
        return {"position": each.position, "problem": each.message}
    return batch_json(each)


# Table output has a line for each batch and each record, so it is written while the segment is read, too.


def _show_table(dumps: Dumps) -> int:
    colored = is_colored(Output())
    problems = 0
    for segment, dumped in dumps:
        heads = [printable(str(segment)), line("OFFSET", "TIME", "KEY", "VALUE")]
        write("".join(f"{paint(head, 'bold', colored)}\n" for head in heads))
        for each in dumped:
            if isinstance(each, Problem):
                problems += 1
                _report_problem(segment, each)
                continue
            batch = paint(batch_line(each), "dim" if each.is_valid else "red", colored)
            write("".join(f"{text}\n" for text in [batch, *map(record_line, each.records)]))
    return problems
