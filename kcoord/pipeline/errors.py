"""Translates Spark's exceptions, which are pages long, to the one line that tells the user what to do.

Spark's exceptions come in layers, each nested in the text of the one above it:

| layer                          | looks like                                                                         |
|--------------------------------|------------------------------------------------------------------------------------|
| a Python error in a worker     | a traceback inside the text, whose last line is what happened                      |
| a Spark error condition        | `[PATH_NOT_FOUND] … SQLSTATE: 42K03`                                               |
| a chain of Java exceptions     | `: a.b.Some: text`, then `Caused by: …` again and again; the last explains most    |
| the JVM is gone                | py4j's errors, or a connection that is refused from inside py4j                    |

The layers are recognized by their texts, since little more than text crosses the border between the JVM and Python.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from traceback import walk_tb
from typing import Final, NamedTuple

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from kcoord.exceptions import LocalFailure

_TRACEBACK: Final = "Traceback (most recent call last):"
_PYTHON_ERROR: Final = re.compile(r"(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?")
_ERRNO: Final = re.compile(r"\[Errno \d+\] (?P<what>[^:]+)(?:: (?P<path>.+))?")
_LINK: Final = re.compile(r"^(?:: |Caused by: )(?P<kind>[\w.$]+)(?:: (?P<text>.*))?$", re.M)
_AFTER_TRACEBACK: Final = re.compile(rf"{_LINK.pattern}|=== Streaming Query ===", re.M)
"""Matches what Spark writes below the last line of a traceback."""
_CONDITION: Final = re.compile(r"^\[(?P<condition>[A-Z0-9_.]+)\] ?(?P<text>.*)", re.DOTALL)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*")
_FILE: Final = re.compile(r"\bfile:/+")

_JVM_GONE: Final = (
    "Spark is gone: its JVM has ended, killed perhaps for the memory it took; "
    "give it more (--conf spark.driver.memory=4g), or read less at once (--since, --group)"
)
_MEMORY: Final = "--conf spark.driver.memory=4g, of a cluster's workers --conf spark.executor.memory=4g"
_DISKS: Final = "that of --out, or that of Spark's own files (--conf spark.local.dir=…)"
_SAME_PYTHON: Final = (
    "the workers need the Python and the packages that are here: install 'kcoord[pipeline]' at the same place there, "
    "or send them along (docs/pipeline.md)"
)
_ON_WORKERS: Final = "on a cluster each worker must see it at this place"
_NO_JAR: Final = "Spark's Kafka connector lacks a jar, the one with {0}: docs/pipeline.md lists all"
_OTHER_SPARK: Final = f"a jar was made for another version of Spark than {pyspark.__version__}, which has no {{0}}"
_DATA_LOSS: Final = (
    "the cluster has no longer all records that were to be read; --connector python would tell which, and go on"
)
_NO_SCHEME: Final = "this Spark knows no {0}://: give it the package that does (--conf spark.jars.packages=…)"

_TRANSLATIONS: Final = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"java\.lang\.OutOfMemoryError: (.+)", f"Spark has no memory left ({{0}}); give it more: {_MEMORY}"),
        (r"Python worker exited unexpectedly", "a worker's Python was ended from outside, perhaps for its memory"),
        (r"No space left on device", f"no space is left on a disk: {_DISKS}"),
        (r"Disk quota exceeded", f"a disk quota is used up: {_DISKS}"),
        (
            r"\[PATH_ALREADY_EXISTS\] Path (\S+) already",
            "{0} is there: name another folder, or say --overwrite",
        ),
        (r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.? ", "{0}: no such file or folder"),
        (r"Mkdirs failed to create (\S+?)(?:/_temporary\S*)? ", f"{{0}}: cannot be written; {_ON_WORKERS}"),
        (r"AccessControlException: (.+)", "{0}"),
        (r"FileNotFoundException: (\S+) \(Permission denied\)", "{0}: Permission denied"),
        (r"FileNotFoundException: File (\S+) does not exist", f"{{0}}: no such file or folder; {_ON_WORKERS}"),
        (r"Parent path is not a directory: (\S+)", "{0}: not a folder"),
        (r"(\S+) is not a Parquet file", "{0} is not a Parquet file, or not a whole one"),
        (
            r"PARQUET_COLUMN_DATA_TYPE_MISMATCH\] Encountered error while reading file (\S+?)\. .* column \[(.+?)\]",
            "{0}: the column {1} is of another type: tables of another version? decode again",
        ),
        (r"ClassNotFoundException: (org\.apache\.(?:kafka|commons\.pool2|spark\.kafka010)\.\S+)", _NO_JAR),
        (r"ClassNotFoundException: (org\.apache\.spark\.\S+)", _OTHER_SPARK),
        (r"\[KAFKA_DATA_LOSS|OffsetOutOfRangeException", _DATA_LOSS),
        (r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.(\w+)\S* not found", _NO_SCHEME),
        (r'No FileSystem for scheme "(\w+)"', _NO_SCHEME),
        (r"UnknownHostException: (\S+)", "{0}: no such host"),
        (r"Call From \S+ to (\S+) failed on connection exception: \S+: ([^;]+)", "{0}: {1}"),
        (r'Cannot run program "([^"]+)"', f"a worker has no {{0}}: {_SAME_PYTHON}"),
        (r"PYTHON_VERSION_MISMATCH", f"a worker has another version of Python: {_SAME_PYTHON}"),
        (r"No module named '?([\w.]+)'?", f"a worker's Python has no module named {{0}}: {_SAME_PYTHON}"),
        (r"All masters are unresponsive", "the Spark master does not answer: is it one, and of this version of Spark?"),
        (
            r"Master removed our application",
            "the Spark cluster has given the job up: its workers could not start it, and their logs say why",
        ),
        (r"SparkContext was shut down|stopped SparkContext", "Spark was stopped while the job ran"),
        (r"ExecutorLostFailure \(.*?\) Reason: (.+)", "a worker was lost: {0}"),
    )
]
"""Maps patterns in the text of an exception to the line that the user is shown."""


class JobFailed(LocalFailure, RuntimeError):
    """Raised when a Spark job failed; the message is one line for the user."""


class UnrecognizedFailure(JobFailed):
    """Raised when a Spark job failed for a reason that no pattern here recognizes: its message is Spark's own, and
    `log`, Spark's log file, may explain more."""

    log: Path | None = None

    def __str__(self) -> str:
        return super().__str__() + (f"; Spark's log is {self.log}" if self.log is not None else "")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Re-raises exceptions of Spark in the `with` block as JobFailed, with a message of one line; other exceptions pass
    unchanged."""
    try:
        yield
    except Exception as error:
        if not is_from_spark(error):
            raise
        raise (JobFailed if is_recognized(error) else UnrecognizedFailure)(summarize_error(error)) from error


def is_from_spark(error: BaseException) -> bool:
    """Returns whether the exception comes from Spark, or from py4j on the way to it."""
    if isinstance(error, (PySparkException, Py4JError)):
        return True
    # When the JVM has died, py4j raises plain socket errors.
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return isinstance(error, (ConnectionError, EOFError)) and any(
        frame.f_globals.get("__name__", "").startswith("py4j.") for frame in frames
    )


def is_recognized(error: Exception) -> bool:
    """Returns whether the reason of Spark's exception is known here, or it holds the traceback of a Python worker."""
    try:
        text = str(error)
    except Exception:  # py4j asks a JVM that has ended; see summarize_error
        return False
    return (_worker_error(text) or _translated(_error_lines(_chain(text), text))) is not None


def summarize_error(error: Exception) -> str:
    """Summarizes an exception of Spark in one line for the user. Call it while the JVM is alive: the JVM formats some
    of its exceptions."""
    if isinstance(error, (Py4JNetworkError, ConnectionError, EOFError)):
        return _JVM_GONE
    try:
        text = str(error)
    except Exception:  # py4j asks the JVM for the text, and it has ended meanwhile
        return _JVM_GONE
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and "Answer from Java side" in text:
        return _JVM_GONE
    return summarize_text(text) or type(error).__name__


def summarize_text(text: str) -> str:
    """Summarizes the text of an exception of Spark in one line for the user."""
    if (worker := _worker_error(text)) is not None:
        return worker
    chain = _chain(text)
    if (known := _translated(_error_lines(chain, text))) is not None:
        return known
    texts = [link.text for link in chain] or [text]
    return next(filter(None, map(_first_line, texts)), chain[0].kind.rpartition(".")[2] if chain else "")


class _Link(NamedTuple):
    """One exception of a chain of causes."""

    kind: str
    text: str


def _chain(text: str) -> list[_Link]:
    """Splits the text into its chain of exceptions, the root cause first. Spark repeats the exception of a task: in
    the text of its own exception, and then as its cause."""
    return [_Link(found["kind"], found["text"] or "") for found in _LINK.finditer(text)][::-1]


def _error_lines(chain: list[_Link], text: str) -> list[str]:
    return [f"{link.kind}: {link.text}" for link in chain] or [text]


def _translated(lines: list[str]) -> str | None:
    for pattern, words in _TRANSLATIONS:
        if found := next(filter(None, map(pattern.search, lines)), None):
            return words.format(*map(_path, found.groups()))
    return None


def _worker_error(text: str) -> str | None:
    """Summarizes the last Python traceback of a worker in the text, if there is one."""
    _, found, traceback = text.rpartition(_TRACEBACK)
    if not found:
        return None
    lines = [line for line in traceback.splitlines() if line and not line.startswith((" ", "\t", "~", "^"))]
    lines = list(takewhile(lambda line: not _AFTER_TRACEBACK.match(line), lines))
    error = _PYTHON_ERROR.fullmatch(lines[0]) if lines else None
    if error is None:
        return None
    kind = error["kind"].rpartition(".")[2]
    message = " ".join(filter(None, [error["text"], *(_SQL_STATE.sub("", line) for line in lines[1:])])).strip()
    if kind == "ModuleNotFoundError":
        return f"a worker's Python has {message.replace('No module', 'no module')}: {_SAME_PYTHON}"
    if kind == "MemoryError":
        return "a worker has no memory left; spread it over fewer cores at once (--master 'local[1]')"
    if at := _ERRNO.fullmatch(message):
        path = (at["path"] or "").strip("'\"")
        hint = f"; {_ON_WORKERS}" if kind == "FileNotFoundError" else ""
        return (f"{path}: {at['what']}" if path else at["what"]) + hint
    is_clear = "." in error["kind"] or kind in ("ValueError", "RuntimeError", "OSError")
    return message if message and is_clear else ": ".join(filter(None, [kind, message]))


def _first_line(text: str) -> str:
    """Returns the first line of the text without Spark's condition name, SQLSTATE and file: scheme."""
    condition = _CONDITION.match(text)
    line = _SQL_STATE.sub("", (condition["text"] if condition else text).strip()).partition("\n")[0]
    return _path(line.strip())


def _path(text: str) -> str:
    return _FILE.sub("/", text)
