"""The class archive (AppCDS) of Kafka: with it brokers and tools start in a third of the time.

It is made once per Java, by a broker that is started, queried and stopped under -XX:ArchiveClassesAtExit; the tools
share the broker's class path, and its archive. The JVM itself ignores an archive that does not fit its jars. Where
none can be made everything works without it; an empty file marks a Java that makes none.
"""

import contextlib
import dataclasses
import hashlib
import tempfile
import time
from pathlib import Path

from ..cluster import wait_for_metadata
from ..errors import FixtureError
from ..node import Node, choose_broker_specs
from .cache import locked
from .java import Java, Jvm

TRAINING_CLUSTER = "kcoord-training-clustA"
DUMP_GRACE = 60.0


def with_archive(jvm: Jvm, folder: Path) -> Jvm:
    """Returns the JVM with flags that use the class archive (AppCDS) of this folder, which makes it start faster; the
    archive is made if it does not exist. Without one, the JVM is returned as it is."""
    archive = archive_path(folder, jvm.java)
    with contextlib.suppress(FixtureError):
        _make_once(archive, jvm, folder)
    if not archive.exists() or archive.stat().st_size == 0:
        return jvm
    return dataclasses.replace(jvm, archive_flags=(f"-XX:SharedArchiveFile={archive}",))


def archive_path(folder: Path, java: Java) -> Path:
    """Returns the path of the class archive (AppCDS) for this Java: a JVM accepts no other Java's archive."""
    fingerprint = hashlib.sha256(f"{java.path.resolve()}\n{java.version}".encode()).hexdigest()
    return folder / f"classes-{fingerprint[:12]}.jsa"


def _make_once(archive: Path, jvm: Jvm, folder: Path) -> None:
    if archive.exists():
        return
    with locked(folder):
        if not archive.exists():
            _make(archive, jvm)


def _make(archive: Path, jvm: Jvm) -> None:
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    recording = dataclasses.replace(jvm, archive_flags=(f"-XX:ArchiveClassesAtExit={unfinished}",))
    with tempfile.TemporaryDirectory(prefix="kcoord-") as temporary:
        _train(recording, jvm, Path(temporary))
    unfinished.touch()
    unfinished.replace(archive)


def _train(recording: Jvm, plain: Jvm, folder: Path) -> None:
    specs = choose_broker_specs(1, {})
    formatter = Node(plain, specs[0], folder / "node")
    formatter.prepare(specs, {})
    formatter.format(TRAINING_CLUSTER)
    formatter.formatted()
    node = Node(recording, specs[0], folder / "node")
    node.start()
    try:
        deadline = time.monotonic() + 60
        wait_for_metadata(specs[0].client_address, brokers=1, deadline=deadline, check=node.check)
    finally:
        node.stop(grace=DUMP_GRACE)
