"""Finds Java and Maven, and builds the command line of a JVM."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import MissingProgramError

OLDEST_JAVA = 17
INSTALL_JAVA = "Debian/Ubuntu: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17"
INSTALL_MAVEN = "Debian/Ubuntu: apt install maven; macOS: brew install maven"

# A test's JVM lives for seconds: little heap, the smallest collector, no second compiler.
QUICK_FLAGS = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Without these a killed JVM leaves a file in /tmp, and its own warnings are mixed into a tool's answers on stdout.
TIDY_FLAGS = ("-XX:-UsePerfData", "-Xlog:disable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """An installed Java that is new enough for Kafka's broker: the path of its `java`, and what `java -version`
    prints."""

    path: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """Java with Kafka's jars on its class path: it builds the command lines of brokers and of Kafka's tools."""

    java: Java
    jars: tuple[Path, ...]
    log_config: Path
    archive_flags: tuple[str, ...] = ()

    def command(
        self,
        main_class: str,
        *arguments: str,
        temp_folder: Path,
        flags: Sequence[str] = QUICK_FLAGS,
        log_level: str = "warn",
    ) -> list[str]:
        """Returns the command line that runs this Java class with these arguments. `flags` are those of the JVM."""
        return [
            str(self.java.path),
            *TIDY_FLAGS,
            *self.archive_flags,
            *flags,
            # The compression libraries unpack their native parts there, and a killed JVM leaves them there.
            f"-Djava.io.tmpdir={temp_folder}",
            f"-Dlog4j2.configurationFile={self.log_config}",
            f"-Dkcoord.log.level={log_level}",
            "-cp",
            os.pathsep.join(map(str, self.jars)),
            main_class,
            *arguments,
        ]


def find_java() -> Java:
    """Returns the Java of JAVA_HOME or of the PATH. Raises MissingProgramError, which names the package to install."""
    path = _java_path()
    version = _java_version(path)
    major = _major(version)
    if major < OLDEST_JAVA:
        raise MissingProgramError(
            f"Kafka needs Java {OLDEST_JAVA} or newer, and {path} is Java {major}: {INSTALL_JAVA}"
        )
    return Java(path=path, version=version)


def find_maven() -> Path:
    """Returns the path of the mvn on the PATH. Raises MissingProgramError, which names the package to install."""
    if found := shutil.which("mvn"):
        return Path(found)
    raise MissingProgramError(f"Kafka's jars are fetched by Maven, and there is no mvn on the PATH: {INSTALL_MAVEN}")


def _java_path() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        path = Path(home, "bin", "java")
        if not path.is_file():
            raise MissingProgramError(f"JAVA_HOME={home} has no bin/java: correct it or unset it ({INSTALL_JAVA})")
        return path
    if found := shutil.which("java"):
        return Path(found)
    raise MissingProgramError(f"Kafka needs Java {OLDEST_JAVA}, and there is no java on the PATH: {INSTALL_JAVA}")


def _java_version(path: Path) -> str:
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    # macOS has a /usr/bin/java that only prints that there is none.
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingProgramError(f"{path} -version does not answer ({error}): {INSTALL_JAVA}") from error
    return answer.stderr


def _major(version: str) -> int:
    # Java 8 prints "1.8.0_402", later ones print "17.0.15" or "25".
    found = re.search(r'version "(?:1\.)?(\d+)', version)
    return int(found[1]) if found else 0
