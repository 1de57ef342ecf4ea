"""What can go wrong before a test has begun. Each message says how to fix it."""

from kcoord.exceptions import LocalFailure


class FixtureError(LocalFailure, RuntimeError):
    """A cluster or a tool is not available."""


class MissingProgramError(FixtureError):
    """Java, Maven or Docker is not installed, or too old."""


class ResolveError(FixtureError):
    """Maven could not fetch Kafka's jars, or the cache folder cannot be written."""


class StartError(FixtureError):
    """A process ended, or was not ready in time, while it was starting."""


class PortTakenError(StartError):
    """Another process took a port between its choice and its use."""


class NotReadyError(StartError):
    """A cluster runs, and did not answer in time."""


class TimedOutError(FixtureError):
    """A tool did not finish in time, or did not print the expected text."""


class NotOurClusterError(FixtureError):
    """The cluster's processes are out of reach: it cannot be killed or restarted, nor its logs be read."""


def tail(text: str, lines: int = 40) -> str:
    """Returns the last lines, which hold the cause of most failures."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
