"""Programs that pretend to be Java or Maven, and pytest inside a test."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

RunPython = Callable[..., subprocess.CompletedProcess[str]]


class Programs:
    """A folder that is the whole PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("sh", "sleep", "mkdir"):
            found = shutil.which(name)
            assert found, f"a POSIX system has {name}"
            folder.joinpath(name).symlink_to(found)

    def add(self, name: str, script: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def add_java(self, version: str, *, name: str = "java") -> Path:
        return self.add(name, f"""echo 'openjdk version "{version}" 2025-01-01' >&2""")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(tmp_path / "programs")
    monkeypatch.setenv("PATH", str(programs.folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return programs


@pytest.fixture
def run_python() -> RunPython:
    def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.fixture
def run_pytest(tmp_path: Path) -> RunPython:
    """Runs pytest on one test file, as a user of the plugin would."""

    def run(source: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        tmp_path.joinpath("test_user.py").write_text(source)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "test_user.py"],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
