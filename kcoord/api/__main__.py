"""docs/protocol.md, written to standard output: `python -m kcoord.api`."""

import sys

from kcoord.api.table import announced_from, served


def protocol_page() -> str:
    lines = [
        "# The protocol",
        "",
        "Made by `make docs` from the table that ApiVersions and dispatch use (`kcoord/api/table.py`).",
        "",
        "| key | API | served | announced |",
        "|---|---|---|---|",
    ]
    for api in served.values():
        first, last = api.VERSIONS[0], api.VERSIONS[-1]
        lines.append(f"| {api.KEY} | {api.NAME} | {first}–{last} | {announced_from.get(api.KEY, first)}–{last} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(protocol_page())
