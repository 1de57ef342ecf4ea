"""The file of a report is written as a whole or not at all."""

import os
from pathlib import Path

import pytest

from kcoord.pipeline.report.page_file import BadFile, PageFile


def test_a_page_is_written_with_the_rights_that_other_files_get(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    file = PageFile(tmp_path / "report.html")
    file.prepare()
    assert file.write("größe") == 7
    assert file.path.read_bytes() == "größe".encode()
    assert file.path.stat().st_mode == other.stat().st_mode


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    PageFile(tmp_path / "report.html").prepare()
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.html")
    with pytest.raises(BadFile, match="no regular file"):
        PageFile(tmp_path / "report.html").prepare(replaces=True)


def test_who_may_not_write_there_is_told_so_by_the_name_that_was_given() -> None:
    with pytest.raises(OSError, match=r"'/proc/report\.html'$"):
        PageFile(Path("/proc/report.html")).prepare()


def test_what_was_there_stays_if_writing_fails(tmp_path: Path) -> None:
    folder = tmp_path / "report.html"
    folder.mkdir()
    with pytest.raises(OSError, match=r"report\.html"):
        PageFile(folder).write("page")
    assert list(tmp_path.iterdir()) == [folder]
