"""Stores written by Java's keytool and by other programs, intact and damaged."""

import subprocess
from pathlib import Path

import pytest

from kcoord.admin.connecting.keystores import BadKeystore, KeyEntry, key_entry, pem_key_entry, trusted_certificates
from kcoord.client.secret import Secret
from kcoord.client.security import Tls
from kcoord.client.tls import context_of
from kcoord.testing.jvm.java import find_java
from tests.support.certificates import authority, signed

STORE, KEY = Secret("store password"), Secret("key-password")
AUTHORITY = authority("the authority")
CLIENT = signed(AUTHORITY, "client")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, java_tools: object) -> Path:
    """A folder with client.p12, written here, and client.jks and trust.jks, written by keytool, which `java_tools`
    provides."""
    folder = tmp_path_factory.mktemp("stores")
    CLIENT.write_pkcs12(folder / "client.p12", STORE.reveal())
    (folder / "authority.pem").write_text(AUTHORITY.certificate_pem)
    target = ["-deststoretype", "JKS", "-deststorepass", STORE.reveal(), "-destkeypass", KEY.reveal()]
    source = ["-srckeystore", "client.p12", "-srcstorepass", STORE.reveal(), "-srcalias", "client"]
    _keytool(folder, "-importkeystore", "-destkeystore", "client.jks", *target, *source)
    trusted = ["-noprompt", "-alias", "a", "-file", "authority.pem", "-storepass", STORE.reveal()]
    _keytool(folder, "-importcert", "-keystore", "trust.jks", "-storetype", "JKS", *trusted)
    return folder


def _keytool(folder: Path, *arguments: str) -> None:
    keytool = find_java().path.resolve().parent / "keytool"
    subprocess.run([keytool, *arguments], cwd=folder, capture_output=True, check=True)


def is_usable(entry: KeyEntry) -> bool:
    """Whether OpenSSL accepts the key as that of the certificate."""
    tls = Tls(certificate_chain=entry.certificate_chain, key=entry.key, key_password=entry.key_password)
    return bool(context_of(tls)) and "BEGIN CERTIFICATE" in entry.certificate_chain


def refusal(path: Path, password: Secret | None = None, key_password: Secret | None = None) -> str:
    with pytest.raises(BadKeystore) as caught:
        key_entry(path, password, key_password)
    return str(caught.value)


def test_a_key_of_a_jks_store_is_taken_with_its_own_password(stores: Path) -> None:
    assert is_usable(key_entry(stores / "client.jks", STORE, KEY))


def test_a_key_of_a_pkcs12_store_is_taken(stores: Path) -> None:
    assert is_usable(key_entry(stores / "client.p12", STORE, None))


@pytest.mark.parametrize("password", [STORE, None])
def test_certificates_of_a_jks_store_are_read_also_without_a_password_as_java_does(
    stores: Path, password: Secret | None
) -> None:
    context = context_of(Tls(authorities=trusted_certificates(stores / "trust.jks", password)))
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "the authority"),),)]


def test_a_wrong_password_is_told_with_the_file_and_without_the_password(stores: Path) -> None:
    wrong = Secret("wrong-one")
    message = [
        refusal(stores / "client.jks", wrong, KEY),
        refusal(stores / "client.jks", STORE, wrong),
        refusal(stores / "client.jks", None, None),
        refusal(stores / "client.p12", wrong),
        refusal(stores / "client.p12", None),
    ]
    assert message == [
        f"{stores}/client.jks: the password is wrong, or it is damaged",
        f"{stores}/client.jks: the password of the private key is wrong (ssl.key.password)",
        f"{stores}/client.jks: it needs a password (ssl.keystore.password)",
        f"{stores}/client.p12: the password is wrong, or it is damaged",
        f"{stores}/client.p12: it needs a password, or it is damaged",
    ]


@pytest.mark.parametrize("name", ["client.jks", "client.p12"])
def test_a_store_cut_anywhere_is_one_clear_error(stores: Path, name: str, tmp_path: Path) -> None:
    content = (stores / name).read_bytes()
    for size in range(0, len(content), len(content) // 20):
        torn = tmp_path / name
        torn.write_bytes(content[:size])
        for password in (STORE, None):
            message = refusal(torn, password, KEY)
            assert message.startswith(str(torn))
            assert "\n" not in message


def test_a_store_without_a_key_is_told(stores: Path) -> None:
    assert refusal(stores / "trust.jks", STORE) == f"{stores}/trust.jks: there is no private key in it"
    assert refusal(stores / "authority.pem") == f"{stores}/authority.pem: there is no private key in it"


def test_a_pem_store_holds_key_and_certificates_in_any_order(tmp_path: Path) -> None:
    for text in (CLIENT.key_pem() + CLIENT.certificate_pem, CLIENT.certificate_pem + CLIENT.key_pem()):
        assert is_usable(pem_key_entry(f"Bag Attributes\n{text}", None, name="x"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xce\xce\xce\xce\0\0\0\2", "is a JCEKS store, which is not read here"),
        (b"hello", "is no PEM, PKCS12 or JKS store"),
        (b"", "is no PEM, PKCS12 or JKS store"),
    ],
)
def test_a_file_of_another_kind_is_told(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(content)
    assert message in refusal(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.jks"
    assert refusal(path) == f"cannot read {path}: No such file or directory"
    with pytest.raises(BadKeystore, match="No such file"):
        trusted_certificates(path, None)
