"""Fingerprints of files, to detect that an operator has changed one while it is in use."""

from pathlib import Path

FileFingerprint = tuple[int, int, int]


def fingerprint_of(path: Path) -> FileFingerprint | None:
    """Returns a value (from the file's time, size and inode) that changes when the file does; None if it does not
    exist. Take it before reading the file.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
