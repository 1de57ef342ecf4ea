"""Regular expressions over group names, which may contain any character, newlines included."""

import re
from typing import Final

_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


def compile_name_pattern(text: str) -> re.Pattern[str]:
    r"""Compiles a pattern in which `.` is any character and `$` the end of the name. Raises re.error.

    Python's `.` does not match newlines, and its `$` also matches before a newline at the end: with these, `secret.*`
    would not match the whole of "secret\nx", and `tmp$` would be found in "tmp\n".
    """
    plain = re.compile(text, re.DOTALL)
    if plain.flags & (re.MULTILINE | re.VERBOSE):  # there `$` means the end of a line, or may be part of a comment
        return plain
    return re.compile(_TOKEN.sub(lambda found: r"\Z" if found[0] == "$" else found[0], text), re.DOTALL)
