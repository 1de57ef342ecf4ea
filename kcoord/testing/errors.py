"""What can go wrong before a test has begun. Each message says what to do about it."""


class FixtureError(RuntimeError):
    """A cluster or a tool cannot be had."""


class MissingProgramError(FixtureError):
    """Java, Maven or Docker is not here, or too old."""


class ResolveError(FixtureError):
    """Maven, or the cache folder, did not give Kafka's jars."""


class StartError(FixtureError):
    """A process ended, or was not ready in time, while it was starting."""


class PortTakenError(StartError):
    """Another process took a port between its choice and its use."""


class NotReadyError(StartError):
    """A cluster runs, and did not answer in time."""


class TimedOutError(FixtureError):
    """A tool did not finish, or did not say what was waited for."""


class NotOurClusterError(FixtureError):
    """The cluster runs out of our reach: it cannot be killed, restarted or looked into."""


def tail(text: str, lines: int = 40) -> str:
    """The last lines, which hold the cause of most failures."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
