"""Writes docs/protocol.md to standard output: `python -m kcoord.api`."""

import sys

from kcoord.api.table import SERVED


def protocol_page() -> str:
    """Returns the Markdown of docs/protocol.md: a table of the served APIs and their versions."""
    lines = [
        "# The protocol",
        "",
        "Made by `make docs` from the table that ApiVersions and dispatch use (`kcoord/api/table.py`).",
        "",
        "| key | API | served | announced |",
        "|---|---|---|---|",
    ]
    for api in SERVED.values():
        first, last = api.versions[0], api.versions[-1]
        lines.append(f"| {api.key} | {api.name} | {first}–{last} | {api.announced_from}–{last} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(protocol_page())
