"""What a stream was asked for when it began. Its checkpoint stores this, since all tables of a folder must answer one
request."""

from collections.abc import Mapping
from typing import Any

from kcoord.admin.times import utc_text
from kcoord.exceptions import InvalidInput
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.sources.live_plan import TopicSelection

Fingerprint = Mapping[str, Any]
"""The values of a request by the command's options that set them; JSON can hold them."""

_SINCE, _UNTIL, _GROUP, _TOPIC, _NO_LOG_ENDS = "--since", "--until", "--group", "--topic", "--no-log-ends"
_CONNECTOR = "--connector"


class RequestChanged(InvalidInput, ValueError):
    """Raised when a stream is continued with other options than it began with."""


def fingerprint(wanted: RowSelection, choice: TopicSelection) -> Fingerprint:
    """Returns the options that decide which rows a stream has, for its checkpoint: equal for the same request, in
    whatever order its groups and topics are given."""
    return {
        _SINCE: wanted.since_ms,
        _UNTIL: wanted.until_ms,
        _GROUP: sorted(set(wanted.groups)),
        _TOPIC: sorted(set(choice.topics)),
        _NO_LOG_ENDS: not choice.log_ends,
        _CONNECTOR: None if choice.groups else "spark-sql-kafka",
    }


def check_fingerprint(before: Fingerprint, now: Fingerprint) -> None:
    """Raises RequestChanged if the options of a stream differ from those that its checkpoint stores."""
    for option, value in now.items():
        was = before.get(option)
        if value != was:
            raise RequestChanged(
                f"the tables were begun {_with(option, was)}, and this is {_with(option, value)}:"
                " say the same again, or name another folder"
            )


def _with(option: str, value: Any) -> str:
    match value:
        case None | False | []:
            return f"without {option}"
        case True:
            return f"with {option}"
        case str():
            return f"with {option} {value}"
        case list():
            return "with " + " ".join(f"{option} {name}" for name in value)
        case _:
            return f"with {option} {utc_text(value)}"
