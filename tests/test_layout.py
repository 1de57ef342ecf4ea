"""The repository as pyproject.toml and the docs describe it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from kcoord.api.__main__ import protocol_page
from kcoord.api.contract import ApiModule
from kcoord.api.table import SERVED
from kcoord.protocol.codec import codec

_root = Path(__file__).parent.parent
_project = tomllib.loads((_root / "pyproject.toml").read_text())
_MOST_FILES = 16
_pages = sorted(f"docs/{path.name}" for path in (_root / "docs").glob("*.md"))


def test_every_package_on_disk_is_shipped() -> None:
    setuptools = _project["tool"]["setuptools"]
    roots = {"kcoord": "kcoord", **setuptools["package-dir"]}
    on_disk = [".".join((name, *below)) for name, folder in roots.items() for below in _packages_below(folder)]
    assert sorted(setuptools["packages"]) == sorted(on_disk)


def _packages_below(folder: str) -> list[tuple[str, ...]]:
    """Returns the packages of a folder, each as its path below the folder; the folder itself is the empty path."""
    return [path.parent.relative_to(_root / folder).parts for path in (_root / folder).rglob("__init__.py")]


def test_no_folder_has_more_files_than_can_be_surveyed() -> None:
    """Counts the modules of each folder. kcoord/api is exempt: it has one file for each API."""
    exempt = {"__init__.py", "conftest.py"}
    files = [path for root in ("kcoord", "commands", "tests") for path in (_root / root).rglob("*.py")]
    counts = Counter(str(path.parent.relative_to(_root)) for path in files if path.name not in exempt)
    del counts["kcoord/api"]
    assert {folder: count for folder, count in counts.items() if count > _MOST_FILES} == {}, "part it by story"


def test_no_module_has_the_name_of_a_folder_beside_it() -> None:
    """Python would import the folder, and the module would be dead code that looks alive."""
    files = [path for root in ("kcoord", "commands", "tests") for path in (_root / root).rglob("*.py")]
    assert [str(path) for path in files if (path.with_suffix("") / "__init__.py").exists()] == []


def test_the_map_names_every_package() -> None:
    import kcoord

    assert kcoord.__doc__ is not None
    folders = {path.parent.name for path in (_root / "kcoord").glob("*/__init__.py")}
    files = {path.stem for path in (_root / "kcoord").glob("*.py")} - {"__init__"}
    missing = [name for name in folders | files if name not in kcoord.__doc__]
    assert not missing


def test_every_function_that_the_map_names_exists() -> None:
    """The road names a module by its path below kcoord, and behind it functions of that module or of its classes."""
    import kcoord

    assert kcoord.__doc__ is not None
    named = set(re.findall(r"\b([A-Z]\w+)\.(_?[a-z]\w+)", kcoord.__doc__))
    assert len(named) > 15
    sources = [path.read_text() for path in (_root / "kcoord").rglob("*.py")]
    defined = {
        (node.name, each.name)
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert named - defined == set()
    folders = "server|proxy|broker|groups|connection|dispatch|authorization|offsets_log|storage"
    modules = re.findall(rf"\b((?:{folders})/[a-z_/]+)\b", kcoord.__doc__)
    missing = [name for name in modules if not _is_module(name)]
    assert missing == []


def _is_module(name: str) -> bool:
    """Returns whether a path below kcoord, or below kcoord/server, is a module or a package."""
    bases = (_root / "kcoord", _root / "kcoord" / "server")
    return any((base / f"{name.rstrip('/')}.py").exists() or (base / name).is_dir() for base in bases)


def test_the_page_of_the_protocol_is_what_the_table_says() -> None:
    assert (_root / "docs" / "protocol.md").read_text() == protocol_page(), "run make docs"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *_pages])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    text = (_root / page).read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    missing = [link for link in links if not (_root / page).parent.joinpath(link).exists()]
    assert not missing


@pytest.mark.parametrize("key", SERVED)
def test_every_served_version_has_a_codec_and_a_file(key: int) -> None:
    api = SERVED[key]
    assert all(codec(key, version) for version in api.versions)
    assert isinstance(api.served, ApiModule)


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "mypy", "lint-imports"])
def test_the_house_is_clean(command: str) -> None:
    tool, *arguments = command.split()
    tool_path = Path(sys.executable).parent / tool
    done = subprocess.run([tool_path, *arguments], cwd=_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
