"""The file of users: what is stored of a password, unknown users that look like known ones, files that change."""

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kcoord.client import scram
from kcoord.client.secret import Secret
from kcoord.security.users import BadUsers, Users, UsersFile, editing_users, is_open_to_others, read_users

FEW = 4096
PASSWORD = Secret("pässword, with = and , in it")


def users_of(**passwords: str) -> Users:
    users = Users.nobody()
    for name, password in passwords.items():
        users = users.with_user(name, Secret(password), iterations=FEW)
    return users


def written(path: Path, users: Users) -> Path:
    with editing_users(path) as current:
        current[0] = users
    return path


def test_a_password_is_known_and_another_is_not() -> None:
    users = Users.nobody().with_user("alice", PASSWORD, iterations=FEW)
    assert users.is_password("alice", PASSWORD)
    assert not users.is_password("alice", Secret("another"))
    assert not users.is_password("nobody", PASSWORD)


def test_what_is_kept_is_what_the_rfc_says_and_salted_anew_each_time() -> None:
    once, again = users_of(alice="secret"), users_of(alice="secret")
    for mechanism in scram.HASHES:
        credential = once.credential("alice", mechanism)
        assert credential == scram.Credential.of(mechanism, "secret", credential.salt, FEW)
        assert credential.salt != again.credential("alice", mechanism).salt


def test_a_name_that_nobody_has_looks_like_one_that_somebody_has() -> None:
    users = users_of(alice="secret")
    for mechanism in scram.HASHES:
        real, decoy = users.credential("alice", mechanism), users.credential("nobody", mechanism)
        assert (len(real.salt), real.iterations) == (len(decoy.salt), decoy.iterations)
        assert decoy == users.credential("nobody", mechanism), "asked twice, it is the same"
        assert decoy.salt != users.credential("somebody else", mechanism).salt


def test_a_decoy_is_the_same_after_a_restart_and_when_others_come_and_go(tmp_path: Path) -> None:
    path = written(tmp_path / "users.json", users_of(alice="secret", bob="hush"))
    before = read_users(path).credential("nobody", "SCRAM-SHA-256")
    with editing_users(path) as current:
        current[0] = current[0].without("bob").with_user("carol", Secret("sssh"), iterations=FEW)
    assert read_users(path).credential("nobody", "SCRAM-SHA-256") == before


def test_the_file_is_for_its_owner_only_and_holds_no_password(tmp_path: Path) -> None:
    path = written(tmp_path / "users.json", users_of(alice="a-secret", bob="b-secret"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not is_open_to_others(path)
    assert "secret" not in path.read_text()
    assert read_users(path).is_password("bob", Secret("b-secret"))
    path.chmod(0o640)
    assert is_open_to_others(path)


def test_a_changed_file_is_open_to_who_could_read_it_before(tmp_path: Path) -> None:
    path = written(tmp_path / "users.json", users_of(alice="secret"))
    path.chmod(0o640)
    written(path, users_of(bob="hush"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


ADDING = r"""
from pathlib import Path
from kcoord.security.users import editing_users
from kcoord.client.secret import Secret
with editing_users(Path("users.json")) as current:
    current[0] = current[0].with_user("\xe4lice", Secret("secret"), iterations=4096)
"""


def test_names_are_the_same_whatever_the_locale(tmp_path: Path) -> None:
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", ADDING], cwd=tmp_path, env={**os.environ, **ascii_alone}, check=True)
    assert read_users(tmp_path / "users.json").is_password("älice", Secret("secret"))


def test_a_change_leaves_nothing_beside_the_file_and_follows_a_link(tmp_path: Path) -> None:
    path = written(tmp_path / "users.json", users_of(alice="secret"))
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with editing_users(link) as current:
        current[0] = current[0].without("alice")
    assert read_users(path).by_name == {}
    assert link.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.json", "users.json"]


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path / "users.json", users_of(alice="secret"))
    before = path.read_bytes()
    with pytest.raises(BadUsers, match="there is no user 'bob'"), editing_users(path) as current:
        current[0] = current[0].without("alice").without("bob")
    assert path.read_bytes() == before


def test_changes_at_the_same_time_are_all_there_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    names = [f"user-{number}" for number in range(8)]

    def add(name: str) -> None:
        with editing_users(path) as current:
            current[0] = current[0].with_user(name, Secret("secret"), iterations=FEW)

    threads = [threading.Thread(target=add, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_users(path).by_name) == names


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "x" * 256])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(BadUsers, match="a user's name has 1 to 255 printable characters"):
        Users.nobody().with_user(name, PASSWORD)


@pytest.mark.parametrize(("password", "expected"), [("", "is empty"), ("a\0b", "is not one that PLAIN can carry")])
def test_a_password_that_cannot_be_is_refused_without_being_told(password: str, expected: str) -> None:
    with pytest.raises(BadUsers) as caught:
        Users.nobody().with_user("alice", Secret(password))
    assert str(caught.value) == f"the password of alice {expected}"


def test_a_file_that_changed_is_read_again_and_one_that_broke_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kcoord.security")
    path = written(tmp_path / "users.json", users_of(alice="secret"))
    file = UsersFile(path)
    assert file.current() is file.current()
    written(path, users_of(bob="hush"))
    assert set(file.current().by_name) == {"bob"}
    path.write_text("{")
    assert set(file.current().by_name) == {"bob"}
    path.unlink()
    assert set(file.current().by_name) == {"bob"}
    assert set(file.current().by_name) == {"bob"}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "users file=users.json users=1",
        f"users unchanged why='{path} is no file of users",
        f"users unchanged why='cannot read the users in {path}",
    ]


def change(document: Any, at: list[str], value: Any) -> Any:
    inner = document
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return document


OF_ALICE = ["users", "alice", "SCRAM-SHA-256"]
AT_ALICE = "user 'alice', SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (["kcoord"], "users/v2", "its format is not users/v1"),
        (["decoy"], "AAAA", "'decoy' has not the 32 bytes that it must have"),
        (["users"], ["alice"], "'users' is not an object in braces"),
        (["users", "alice"], {}, "user 'alice': 'SCRAM-SHA-256' is missing"),
        (["users", "alice"], "secret", "user 'alice' is not an object in braces"),
        (["users", "a\nb"], {}, "user 'a\\\\nb': 'SCRAM-SHA-256' is missing"),
        (OF_ALICE, {}, "user 'alice', SCRAM-SHA-256: 'iterations' is missing"),
        (OF_ALICE, {"iterations": FEW}, "user 'alice', SCRAM-SHA-256: 'salt' is missing"),
        ([*OF_ALICE, "iterations"], 1, f"{AT_ALICE}: 'iterations' is not a number from 4096 to 10000000"),
        ([*OF_ALICE, "iterations"], "4096", f"{AT_ALICE}: 'iterations' is not a number from 4096 to 10000000"),
        ([*OF_ALICE, "stored_key"], "AAAA", f"{AT_ALICE}: 'stored_key' has not the 32 bytes that it must have"),
        ([*OF_ALICE, "salt"], "not base64!", f"{AT_ALICE}: 'salt' is not base64"),
        ([*OF_ALICE, "salt"], "", f"{AT_ALICE}: 'salt' is empty"),
        ([*OF_ALICE, "server_key"], None, f"{AT_ALICE}: 'server_key' is not base64"),
    ],
)
def test_a_damaged_file_is_told_in_one_line_without_what_is_in_it(
    tmp_path: Path, at: list[str], value: Any, expected: str
) -> None:
    path = written(tmp_path / "users.json", users_of(alice="secret"))
    path.write_text(json.dumps(change(json.loads(path.read_text()), at, value)))
    with pytest.raises(BadUsers) as caught:
        read_users(path)
    assert str(caught.value) == f"{path} is no file of users: {expected}"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "it is not JSON: expecting value at line 1, column 1"),
        (b'{\n  "decoy": "c2VjcmV0"\n  "users": {}}', "it is not JSON: expecting ',' delimiter at line 3, column 3"),
        (b'{"decoy": "c2VjcmV0', "it is not JSON: unterminated string starting at line 1, column 11"),
        (b'{\n"decoy": "c2VjcmV0\xff"}', "line 2 is not UTF-8 text"),
        (b"[]", "it is not an object in braces"),
        (b"{}", "'kcoord' is missing"),
        (b'{"kcoord": "users/v1"}', "'users' is missing"),
        (b'{"kcoord": "users/v1", "users": {}}', "'decoy' is missing"),
        (b"1" * 5000, "a number in it is too long, or it is nested too deeply"),
        (b"[" * 100_000, "a number in it is too long, or it is nested too deeply"),
    ],
)
def test_what_is_not_even_a_document_is_told_with_its_place(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "users.json"
    path.write_bytes(content)
    with pytest.raises(BadUsers) as caught:
        read_users(path)
    assert str(caught.value) == f"{path} is no file of users: {expected}"


def test_a_file_that_is_not_there_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(BadUsers, match=r"No such file or directory; kcoord users add makes it"):
        UsersFile(tmp_path / "users.json")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none" / "users.json"
    with pytest.raises(BadUsers) as caught:
        written(path, Users.nobody())
    assert str(caught.value) == f"cannot write {path}: No such file or directory"


def test_no_credential_shows_itself() -> None:
    users = users_of(alice="secret")
    credential = users.credential("alice", "SCRAM-SHA-256")
    shown = f"{users!r}{credential!r}"
    assert credential.stored.hex() not in shown
    assert repr(credential.stored) not in shown
    assert repr(credential.server) not in shown
    assert repr(users.decoy) not in shown
