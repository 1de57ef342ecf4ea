"""Why connections are closed, as the values of a metric's label; the log has the details."""

from enum import StrEnum


class Closing(StrEnum):
    """Why a connection was closed."""

    CLIENT = "client"
    IDLE = "idle"
    MALFORMED = "malformed"
    UNSERVED = "unserved"
    FAILED_PRODUCE = "failed-produce"
    MEMORY = "memory"
    NOT_KEPT = "not-kept"
    REFUSED = "refused"
    FAULT = "fault"
    OTHER = "other"
