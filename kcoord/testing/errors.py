"""What can go wrong before a test has begun. Each message says how to fix it."""

from kcoord.exceptions import LocalFailure


class FixtureError(LocalFailure, RuntimeError):
    """The base of the errors that say why a cluster or a tool of the tests is not available; the message says how to
    fix it."""


class MissingProgramError(FixtureError):
    """Raised when Java, Maven or Docker is not installed, or too old."""


class ResolveError(FixtureError):
    """Raised when Maven could not fetch Kafka's jars, or the cache folder cannot be written."""


class StartError(FixtureError):
    """Raised when a process ended, or was not ready in time, while it was starting."""


class PortTakenError(StartError):
    """Raised when another process took a port between its choice and its use."""


class NotReadyError(StartError):
    """Raised when a cluster runs, and did not answer in time."""


class TimedOutError(FixtureError):
    """Raised when a tool did not finish in time, or did not print the expected text."""


class NotOurClusterError(FixtureError):
    """Raised when a test would kill, restart or inspect brokers whose processes are out of reach."""


def tail(text: str, lines: int = 40) -> str:
    """Returns the last lines of a log, which hold the cause of most failures."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
