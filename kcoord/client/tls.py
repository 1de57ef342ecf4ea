"""TLS of a client: trusted authorities, the client's certificate, and errors that an operator understands."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from socket import socket
from typing import Final

from kcoord.client.connect_errors import NotTls, TlsFailed, in_one_line
from kcoord.client.security import Tls
from kcoord.exceptions import InvalidInput

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class BadTlsMaterial(InvalidInput, ValueError):
    """An error: a certificate or private key of the client cannot be used."""


def start_tls(connection: socket, host: str, tls: Tls, *, where: str) -> ssl.SSLSocket:
    """Does the TLS handshake on a connected socket, and returns the encrypted one. Raises TlsFailed, BadTlsMaterial,
    and OSError as sockets do.
    """
    if not _is_host_name(host):
        raise TlsFailed(f"no certificate can be for {in_one_line(where)}: it is no name of a host")
    try:
        return context_of(tls).wrap_socket(connection, server_hostname=host)
    except ssl.SSLError as error:
        raise tls_failure(error, tls, where=where) from None


def _is_host_name(host: str) -> bool:
    """Returns whether TLS can check this name; for other names `ssl` raises ValueError and leaves the
    connection open.
    """
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


@lru_cache(maxsize=16)
def context_of(tls: Tls) -> ssl.SSLContext:
    """Returns the SSL context of a client, cached for all brokers of a cluster: loading authorities takes longer than a
    handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Java checks no more than the settings ask for; Python 3.13 would refuse authorities without key usages.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    allowed = sorted(_VERSIONS[name] for name in tls.versions)
    context.minimum_version, context.maximum_version = allowed[0], allowed[-1]
    context.check_hostname = tls.checks_certificate and tls.checks_host_name
    context.verify_mode = ssl.CERT_REQUIRED if tls.checks_certificate else ssl.CERT_NONE
    if tls.authorities is None:
        context.load_default_certs()
    else:
        _load_authorities(context, tls.authorities)
    if tls.certificate_chain is not None:
        _load_client_certificate(context, tls)
    return context


def tls_failure(error: ssl.SSLError, tls: Tls, *, where: str) -> TlsFailed:
    """Translates an error of OpenSSL to a TlsFailed whose message names what an operator should check."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"the certificate of {where} is not accepted: {_explain_verification_error(error)}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return NotTls(f"{where} closed the connection during the TLS handshake")
    reason = (error.reason or "").upper()
    if any(part in reason for part in _NO_TLS):
        return NotTls(f"{where} does not speak TLS")
    if any(part in reason for part in _CERTIFICATE_ALERTS):
        return TlsFailed(f"{where} {_explain_certificate_alert(reason, tls)}")
    if any(part in reason for part in _VERSION_ALERTS):
        return TlsFailed(f"{where} speaks no TLS version that is allowed here ({', '.join(tls.versions)})")
    return TlsFailed(f"TLS with {where} failed: {in_one_line(error.reason or error)}")


_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_VERSION_ALERTS: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL")
# The alerts that servers send; Java sends "bad certificate" also if there was none.
_CERTIFICATE_ALERTS: Final = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_HANDSHAKE_FAILURE",
)


def _explain_certificate_alert(reason: str, tls: Tls) -> str:
    if tls.certificate_chain is None:
        return "wants a client certificate, and none was given: set ssl.keystore.location"
    alert = reason.partition("ALERT_")[2].replace("_", " ").lower() or reason
    return f"does not accept our client certificate ({alert}): see ssl.keystore.location"


_HAS_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_SELF_SIGNED: Final = (18, 19)
_UNKNOWN_ISSUER: Final = (2, 20, 21)
_OTHER_NAME: Final = (62, 64)


def _explain_verification_error(error: ssl.SSLCertVerificationError) -> str:
    """Explains a refused certificate by OpenSSL's X509_V_ERR code: the texts differ between versions."""
    match error.verify_code:
        case code if code == _HAS_EXPIRED:
            return "it has expired (or another of its chain has)"
        case code if code == _NOT_YET_VALID:
            return "it is not valid yet; is this machine's clock right?"
        case code if code in _SELF_SIGNED or code in _UNKNOWN_ISSUER:
            return "its authority is not trusted here; set ssl.truststore.location (-X ssl.ca.location)"
        case code if code in _OTHER_NAME:
            return (
                "it is for another host name; connect by a name that it holds, "
                "or set ssl.endpoint.identification.algorithm= (empty) to leave the name unchecked"
            )
        case _:
            return in_one_line(error.verify_message)


def _load_authorities(context: ssl.SSLContext, authorities: str) -> None:
    try:
        context.load_verify_locations(cadata=authorities)
        # Java trusts everything in a truststore, not only self-signed authorities.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    except ssl.SSLError as error:
        raise BadTlsMaterial(f"the trusted certificates cannot be read: {error.reason or error}") from None


def _load_client_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    key = tls.key.reveal() if tls.key else ""
    password = tls.key_password.reveal() if tls.key_password else ""
    with as_file(f"{key}\n{tls.certificate_chain}") as path:
        try:
            # A password is always passed: without one OpenSSL would prompt for it on the terminal.
            context.load_cert_chain(path, password=lambda: password)
        except ssl.SSLError as error:
            reason = (error.reason or "").upper()
            if "MISMATCH" in reason:
                raise BadTlsMaterial("the client's private key does not belong to its certificate") from None
            raise BadTlsMaterial(
                "the client's certificate or private key cannot be read; is ssl.key.password right?"
            ) from None


@contextmanager
def as_file(text: str) -> Iterator[str]:
    """Yields the path of a temporary file with this text, because Python's ssl takes a key only from a file. If
    possible it touches no disk.
    """
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with os.fdopen(os.memfd_create("kcoord"), "wb") as file:
            file.write(text.encode())
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.TemporaryDirectory(prefix="kcoord-") as folder:  # mkdtemp makes it readable by its owner only.
        path = Path(folder, "key.pem")
        path.write_text(text)
        yield str(path)
