"""Formats requests and replies for the diary."""

from typing import Any

from kcoord.errors import ErrorCode

_REQUEST_FIELDS = ("member_id", "instance_id", "generation", "plan")
_REPLY_FIELDS = ("member_id", "generation_id", "leader", "assignment")


def format_exchange(request: object, reply: object | None) -> str:
    """Formats a request and its reply in one line; no reply means that it is parked."""
    outcome = "waits" if reply is None else f"{_error(reply)} {_some(reply, _REPLY_FIELDS)}"
    return f"{type(request).__name__} {_some(request, _REQUEST_FIELDS)} → {outcome}"


def _some(what: object, names: tuple[str, ...]) -> str:
    values = ((name, getattr(what, name, None)) for name in names)
    return " ".join(f"{name}={_short(value)}" for name, value in values if value not in (None, "", b"", {}))


def _short(value: object) -> str:
    """Formats a value; the 36 characters at the end of a simulated member id are a number."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_short(key)}: {_short(part)}" for key, part in value.items()) + "}"
    text = value.decode() if isinstance(value, bytes) else str(value)
    name, dash, number = text.rpartition("-")
    return f"{name}-{int(number)}" if dash and len(number) == 36 else repr(text)


def _error(reply: Any) -> str:
    errors = {str(getattr(part, "error_code", ErrorCode.none).name) for part in _parts(reply)} - {"none"}
    return ",".join(sorted(errors)) or "none"


def _parts(reply: Any) -> list[Any]:
    """Returns the reply and its nested results, which have error fields, too."""
    parts = [reply]
    for name in ("members", "topics", "groups", "results", "partitions"):
        for part in getattr(reply, name, ()):
            parts += _parts(part)
    return parts
