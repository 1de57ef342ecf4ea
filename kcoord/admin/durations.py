"""Durations as an operator writes them: 90s, 5m, 1h30m, and as Java's tools expect them: PT1H30M."""

import re
from datetime import timedelta
from typing import Final

_EXAMPLES: Final = "write 30s, 5m, 1h30m, 7d or PT1H30M"

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_NUMBER: Final = r"(?:\d+(?:\.\d+)?)"
_PLAIN: Final = re.compile(rf"(?:{_NUMBER}(?:ms|[smhdw]))+", re.ASCII)
_PART: Final = re.compile(rf"({_NUMBER})(ms|[smhdw])", re.ASCII)

# ISO 8601 as Java's Duration.parse reads it, and weeks in addition. Years and months have no fixed length.
_ISO: Final = re.compile(
    rf"P(?=[\dT])(?:({_NUMBER})W)?(?:({_NUMBER})D)?(?:T(?=\d)(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?",
    re.ASCII | re.IGNORECASE,
)
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")


def parse_duration(text: str) -> timedelta:
    """Parses a duration such as 90s, 1h30m or PT1H30M. Raises ValueError with an example for any other text."""
    bare = text.strip()
    if not bare:
        raise ValueError(f"a span of time is missing: {_EXAMPLES}")
    try:
        if _PLAIN.fullmatch(bare):
            return sum((_UNITS[unit] * float(number) for number, unit in _PART.findall(bare)), timedelta())
        if found := _ISO.fullmatch(bare):
            parts = zip(found.groups(), _ISO_UNITS, strict=True)
            return sum((_UNITS[unit] * float(number) for number, unit in parts if number), timedelta())
    except OverflowError:
        raise ValueError(f"{bare!r} is too long a span of time") from None
    raise ValueError(f"{bare!r} is not a span of time: {_EXAMPLES}")


def format_duration(seconds: float) -> str:
    """Formats a duration in its two largest units: 40ms, 0.4s, 45s, 2m 5s, 3h 20m, 6d 4h."""
    if 0 < seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))}ms"
    if 0 < seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for name, size, below, small in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            large, rest = divmod(whole, size)
            return f"{large}{name} {rest // small}{below}" if rest // small else f"{large}{name}"
    return f"{whole}s"
