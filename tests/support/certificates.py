"""Certificates for tests: an authority, and certificates that it or another authority has signed."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A key and its certificate."""

    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        protection = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """Writes key and certificate into one file, as Kafka's PEM stores have it."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                self.name.encode(), self.key, self.certificate, None, BestAvailableEncryption(password.encode())
            )
        )
        return path


def authority(name: str, *, by: Identity | None = None) -> Identity:
    """Returns an authority that signed itself, or that another authority signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = by.name if by else name
    builder = _builder(name, issuer, key, days=30).add_extension(x509.BasicConstraints(True, None), critical=True)
    return Identity(name=name, key=key, certificate=builder.sign(by.key if by else key, hashes.SHA256()))


def signed(by: Identity, name: str, *, hosts: tuple[str, ...] = LOOPBACK, days: int = 30) -> Identity:
    """Returns an identity for these hosts; with negative days it has expired."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    builder = _builder(name, by.name, key, days=days).add_extension(names, critical=False)
    return Identity(name=name, key=key, certificate=builder.sign(by.key, hashes.SHA256()))


def _builder(name: str, issuer: str, key: ec.EllipticCurvePrivateKey, *, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_distinguished(name))
        .issuer_name(_distinguished(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _distinguished(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
