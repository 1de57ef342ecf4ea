"""Why connections end, in as many words as a metric may have: the log says it in full."""

from enum import StrEnum


class Closing(StrEnum):
    """Why a connection was closed from here."""

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
