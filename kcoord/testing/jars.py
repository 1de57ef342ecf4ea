"""Apache Kafka's jars, resolved once by Maven into the user's cache folder.

`python -m kcoord.testing.jars` does it ahead of the tests; otherwise the first cluster or tool does. The folder's name
has a hash of the pom, so a changed pom is resolved anew and an old folder can be deleted at any time.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

from .errors import FixtureError, ResolveError, tail
from .jvm.archive import archive_path, with_archive
from .jvm.cache import cache_folder, locked
from .jvm.java import Jvm, find_java, find_maven

POM = files("kcoord.testing.kafka_pom").joinpath("pom.xml").read_text()
_found = re.search(r"<version>(.+?)</version>", POM)
assert _found, "the pom's first version is Kafka's"
KAFKA_VERSION = _found[1]

# Logs go to stderr, so that a tool's stdout holds only its answer; the long lists of properties are not logged.
LOG_CONFIG = """\
status = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
logger.config.name = org.apache.kafka.common.config
logger.config.level = warn
rootLogger.level = ${sys:kcoord.log.level:-warn}
rootLogger.appenderRef.stderr.ref = stderr
"""


def kafka_jvm() -> Jvm:
    """Returns a JVM with Kafka's jars on its class path; the first use fetches them by Maven."""
    java = find_java()
    folder = resolve()
    jars = tuple(sorted(folder.joinpath("libs").glob("*.jar")))
    return with_archive(Jvm(java=java, jars=jars, log_config=folder / "log4j2.properties"), folder)


def resolve() -> Path:
    """Returns the folder with Kafka's jars in libs/; fetches them by Maven if they are not cached."""
    folder = kafka_folder()
    if folder.exists():
        return folder
    with locked(folder.parent):
        if not folder.exists():
            _fetch(folder)
    return folder


def kafka_folder() -> Path:
    """Returns the path of the cache folder for Kafka's jars, whose name has a hash of the Maven pom."""
    fingerprint = hashlib.sha256((POM + LOG_CONFIG).encode()).hexdigest()
    return cache_folder() / f"{KAFKA_VERSION}-{fingerprint[:12]}"


def main() -> int:
    """Fetches Kafka's jars ahead of the tests (`python -m kcoord.testing.jars`), prints in one line what was done, and
    returns the exit code."""
    started = time.monotonic()
    try:
        java = find_java()
        had_jars = kafka_folder().exists()
        had_archive = archive_path(kafka_folder(), java).exists()
        jvm = kafka_jvm()
    except FixtureError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    seconds = time.monotonic() - started
    where = f"Kafka {KAFKA_VERSION} in {kafka_folder()}"
    if not had_jars:
        done = f"fetched {len(jvm.jars)} jars and made the class archive in {seconds:.1f} s"
    elif not had_archive:
        done = f"made the class archive in {seconds:.1f} s"
    else:
        done = "already there"
    sys.stdout.write(f"{where}: {done}\n")
    return 0


def _fetch(folder: Path) -> None:
    """Fetches everything or nothing: the folder gets its name when it is complete."""
    maven = find_maven()
    for leftover in folder.parent.glob("*.unfinished"):
        shutil.rmtree(leftover, ignore_errors=True)
    # The name has the process id: the Maven of a killed process may still be writing to its folder.
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.unfinished")
    unfinished.mkdir()
    unfinished.joinpath("pom.xml").write_text(POM)
    unfinished.joinpath("log4j2.properties").write_text(LOG_CONFIG)
    _run_maven(maven, unfinished)
    unfinished.rename(folder)


def _run_maven(maven: Path, folder: Path) -> None:
    fetch = subprocess.run(  # noqa: S603
        [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if fetch.returncode != 0:
        raise ResolveError(f"Maven could not fetch Kafka {KAFKA_VERSION}; its last words:\n{tail(fetch.stdout, 20)}")


if __name__ == "__main__":
    sys.exit(main())
