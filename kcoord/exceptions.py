"""The four bases of kcoord's exceptions. Each exception class derives from the one that says what has failed.

| base          | what has failed                             | for example                             |
|---------------|---------------------------------------------|-----------------------------------------|
| CorruptData   | bytes are not what their format prescribes  | CorruptBatch, CorruptMessage, BadFrame, |
|               |                                             | CorruptSegment, BadCheckpoint           |
| RemoteFailure | the other side cannot be reached, refuses,  | CannotConnect, Disconnected, Refused,   |
|               | breaks the protocol, or has taken over      | CannotRead, UnsupportedRequest          |
| LocalFailure  | this machine does not have or allow what is | CannotServe, CannotListen, BadDataDir,  |
|               | needed: a port, a folder, a program         | NoSpark, FixtureError                   |
| InvalidInput  | what was asked for is malformed, does not   | BadSetting, BadConnection, BadDocument, |
|               | exist, or does not fit the cluster as it is | NoGroupSelected, StalePlan              |

Each class has a builtin base as well (ValueError, RuntimeError, OSError, ConnectionError) wherever callers catch that:
`except OSError` around a log catches a corrupt segment like a broken disk, and the command line prints one line for a
ValueError, a RuntimeError and an OSError, and reports everything else as an error in kcoord itself. The four bases have
no builtin base, so that catching one of them catches nothing else.
"""


class CorruptData(Exception):
    """The base of errors about bytes, of a file or from the network, that are not what their format prescribes."""


class RemoteFailure(Exception):
    """The base of errors of the other side of a connection: it cannot be reached, rejects a request, breaks the
    protocol, or has taken over.
    """


class LocalFailure(Exception):
    """The base of errors of this machine: it does not have or allow what is needed, such as a free port or a writable
    disk.
    """


class InvalidInput(Exception):
    """The base of errors of the user's input: it is malformed, names what does not exist, or does not fit the cluster
    as it is.
    """
