"""Reads certificates and keys from the stores of Java's clients: PEM, PKCS12 and JKS, recognised by their content.

Java does the same: a "JKS" store may be a PKCS12 file since Java 9, so ssl.keystore.type proves little.

JKS, as sun.security.provider.JavaKeyStore writes it (big endian; a text is a 16-bit length and UTF-8):

    magic FEEDFEED, version 1 or 2, number of entries
    entry 1: alias, time (8), protected key (32-bit length), number of certificates, each: type, 32-bit length, DER
    entry 2: alias, time (8), type, 32-bit length, DER
    SHA-1 of the password, "Mighty Aphrodite" and all of the above
"""

import hashlib
import hmac
import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kcoord.client.secret import Secret
from kcoord.exceptions import InvalidInput

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_DER_SEQUENCE: Final = b"\x30"
_WHITENER: Final = b"Mighty Aphrodite"
_JKS_PROTECTION: Final = bytes.fromhex("2b060104012a02110101")  # OID 1.3.6.1.4.1.42.2.17.1.1
_DIGEST_SIZE: Final = 20
_PEM_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PEM_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


class BadKeystore(InvalidInput, ValueError):
    """An error: a keystore or truststore cannot be read. The message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A private key of a keystore and its certificate chain, as PEM text; the key may be encrypted with
    `key_password`."""

    certificate_chain: str
    key: Secret
    """PEM, possibly encrypted."""
    key_password: Secret | None = None


def trusted_certificates(path: Path, password: Secret | None) -> str:
    """Reads all certificates of a truststore (PEM, PKCS12 or JKS), as PEM text. Raises BadKeystore."""
    content = _content(path)
    if content.startswith(_JKS_MAGIC):
        store = _read_jks(path, content, password)
        ders = [*store.trusted, *(der for entry in store.keys for der in entry.chain)]
        certificates = [_pem("CERTIFICATE", der) for der in ders]
    elif content.startswith(_DER_SEQUENCE):
        certificates = [_certificate_pem(each) for each in _pkcs12(path, content, password).certificates]
    else:
        certificates = _PEM_CERTIFICATE.findall(_text(path, content))
    if not certificates:
        raise BadKeystore(f"{path}: there is no certificate in it")
    return "\n".join(certificates) + "\n"


def key_entry(path: Path, password: Secret | None, key_password: Secret | None) -> KeyEntry:
    """Reads the private key and its certificates from a keystore (PEM, PKCS12 or JKS). Raises BadKeystore."""
    content = _content(path)
    if content.startswith(_JKS_MAGIC):
        return _jks_entry(path, _read_jks(path, content, password), key_password or password)
    if content.startswith(_DER_SEQUENCE):
        return _pkcs12_entry(path, _pkcs12(path, content, password))
    return pem_key_entry(_text(path, content), key_password, name=str(path))


def pem_key_entry(text: str, key_password: Secret | None, *, name: str) -> KeyEntry:
    """Reads the private key and its certificates from PEM text; `name` is for errors. Raises BadKeystore."""
    certificates, key = _PEM_CERTIFICATE.findall(text), _PEM_KEY.search(text)
    if not certificates or not key:
        missing = "certificate" if key else "private key"
        raise BadKeystore(f"{name}: there is no {missing} in it")
    return KeyEntry(certificate_chain="\n".join(certificates) + "\n", key=Secret(key[0]), key_password=key_password)


def _content(path: Path) -> bytes:
    try:
        content = path.expanduser().read_bytes()
    except OSError as error:
        raise BadKeystore(f"cannot read {path}: {error.strerror}") from None
    if content.startswith(_JCEKS_MAGIC):
        raise BadKeystore(f"{path} is a JCEKS store, which is not read here: convert it by keytool -importkeystore")
    return content


def _text(path: Path, content: bytes) -> str:
    if b"-----BEGIN " not in content:
        raise BadKeystore(f"{path} is no PEM, PKCS12 or JKS store")
    return content.decode(errors="replace")


def _pem(label: str, der: bytes) -> str:
    from base64 import encodebytes

    body = encodebytes(der).decode().replace("\n", "")
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])


# PKCS12, read with the package cryptography.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pkcs12:
    key: Any
    certificates: list[Any]
    """All certificates; that of the key comes first."""


def _pkcs12(path: Path, content: bytes, password: Secret | None) -> _Pkcs12:
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        store = pkcs12.load_pkcs12(content, password.reveal().encode() if password else None)
    except ValueError:
        raise BadKeystore(f"{path}: {_wrong_password(password)}, or it is damaged") from None
    except Exception as error:  # cryptography's own exceptions, such as for a cipher that OpenSSL no longer supports
        raise BadKeystore(f"{path}: it cannot be read ({type(error).__name__})") from None
    leaf = [store.cert.certificate] if store.cert else []
    return _Pkcs12(key=store.key, certificates=[*leaf, *(each.certificate for each in store.additional_certs)])


def _pkcs12_entry(path: Path, store: _Pkcs12) -> KeyEntry:
    if store.key is None:
        raise BadKeystore(f"{path}: there is no private key in it")
    chain = "\n".join(map(_certificate_pem, store.certificates))
    return KeyEntry(certificate_chain=chain, key=_key_pem(store.key))


def _certificate_pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return str(certificate.public_bytes(Encoding.PEM).decode())


def _key_pem(key: Any) -> Secret:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def _wrong_password(password: Secret | None) -> str:
    return "the password is wrong" if password else "it needs a password"


# JKS


@dataclass(frozen=True, slots=True, kw_only=True)
class _JksKey:
    protected: bytes
    chain: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Jks:
    keys: list[_JksKey] = field(default_factory=list)
    trusted: list[bytes] = field(default_factory=list)


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def sized(self, layout: str) -> bytes:
        return self.take(self.number(layout))

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._content):
            raise ValueError("it ends too early")
        taken, self._position = self._content[self._position : end], end
        return taken

    def rest(self) -> bytes:
        return self._content[self._position :]


def _read_jks(path: Path, content: bytes, password: Secret | None) -> _Jks:
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    if password is not None:  # without a password Java also reads certificates unchecked
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()  # noqa: S324 - the format's own
        if not hmac.compare_digest(digest, expected):
            raise BadKeystore(f"{path}: the password is wrong, or it is damaged")
    try:
        return _jks_entries(_Reader(body[len(_JKS_MAGIC) :]))
    except (ValueError, struct.error) as error:
        raise BadKeystore(f"{path}: it is damaged: {error}") from None


def _jks_entries(reader: _Reader) -> _Jks:
    version = reader.number(">I")
    if version not in (1, 2):
        raise ValueError(f"version {version} is not known")
    store = _Jks()
    for _ in range(reader.number(">I")):
        kind = reader.number(">I")
        reader.sized(">H")  # the alias
        reader.number(">Q")  # the creation time
        if kind == 1:
            protected = reader.sized(">I")
            chain = [_jks_certificate(reader, version) for _ in range(reader.number(">I"))]
            store.keys.append(_JksKey(protected=protected, chain=chain))
        elif kind == 2:
            store.trusted.append(_jks_certificate(reader, version))
        else:
            raise ValueError(f"an entry of kind {kind} is not known")
    return store


def _jks_certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:
        reader.sized(">H")  # the type, X.509
    return reader.sized(">I")


def _jks_entry(path: Path, store: _Jks, key_password: Secret | None) -> KeyEntry:
    if not store.keys:
        raise BadKeystore(f"{path}: there is no private key in it")
    if key_password is None:
        raise BadKeystore(f"{path}: it needs a password (ssl.keystore.password)")
    first = store.keys[0]
    try:
        key = _unprotected(_protected_bytes(first.protected), _utf16(key_password))
    except ValueError as error:
        raise BadKeystore(f"{path}: {error}") from None
    chain = "\n".join(_pem("CERTIFICATE", der) for der in first.chain)
    return KeyEntry(certificate_chain=chain, key=Secret(_pem("PRIVATE KEY", key)))


def _unprotected(protected: bytes, password: bytes) -> bytes:
    """Decrypts a key of JKS: salt, the key XORed with a chain of SHA-1 digests, and a digest of password and key."""
    salt, check = protected[:_DIGEST_SIZE], protected[-_DIGEST_SIZE:]
    hidden = protected[_DIGEST_SIZE:-_DIGEST_SIZE]
    pad = itertools.islice(itertools.chain.from_iterable(_digests(password, salt)), len(hidden))
    key = bytes(a ^ b for a, b in zip(hidden, pad, strict=True))
    if not hmac.compare_digest(check, hashlib.sha1(password + key).digest()):  # noqa: S324
        raise ValueError("the password of the private key is wrong (ssl.key.password)")
    return key


def _digests(password: bytes, salt: bytes) -> Iterator[bytes]:
    digest = salt
    while True:
        digest = hashlib.sha1(password + digest).digest()  # noqa: S324
        yield digest


def _protected_bytes(der: bytes) -> bytes:
    """Returns the octets of an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { OID, NULL }, OCTET STRING }."""
    algorithm, rest = _der(_der(der, 0x30)[0], 0x30)
    if _der(algorithm, 0x06)[0] != _JKS_PROTECTION:
        raise ValueError("the private key is protected in a way that is not known here")
    return _der(rest, 0x04)[0]


def _der(content: bytes, tag: int) -> tuple[bytes, bytes]:
    """Returns the first element, which must have this tag, and the bytes after it."""
    reader = _Reader(content)
    if reader.number(">B") != tag:
        raise ValueError("the private key is damaged")
    size = reader.number(">B")
    if size & 0x80:
        size = int.from_bytes(reader.take(size & 0x7F))
    return reader.take(size), reader.rest()


def _utf16(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be")
