"""Why connections are closed, as the values of a metric's label; the log has the details."""

from enum import StrEnum


class CloseReason(StrEnum):
    """Why a server or proxy closed a connection of a client: the values of a metric's label."""

    CLIENT = "client"
    IDLE = "idle"
    MALFORMED = "malformed"
    UNSERVED = "unserved"
    FAILED_PRODUCE = "failed-produce"
    MEMORY = "memory"
    NOT_FLUSHED = "not-kept"
    REFUSED = "refused"
    FAULT = "fault"
    OTHER = "other"
