"""The TLS of a listener: its context, the principals of its clients, and the reasons of failed handshakes."""

import ssl
from typing import Any, Final

from kcoord.client.connect_errors import in_one_line
from kcoord.client.tls import as_file
from kcoord.exceptions import InvalidInput
from kcoord.security.certificates import subject_of
from kcoord.security.listener import ANONYMOUS, ClientAuth, ListenerTls
from kcoord.security.refusals import Refusal, Refused

_ALERT: Final = "kcoord_alert"
_CLIENT_AUTH: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class BadListenerTls(InvalidInput, ValueError):
    """An error: a certificate or private key that a listener cannot use."""


class _Handshake(ssl.SSLObject):
    """Attaches the TLS alert to the error of a failed handshake, since neither asyncio nor uvloop sends it."""

    outgoing: ssl.MemoryBIO | None = None
    asked_for: str | None = None  # the server name that the client sent (SNI)

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if self.outgoing is not None:
                setattr(error, _ALERT, self.outgoing.read())
            raise


class _Context(ssl.SSLContext):
    sslobject_class = _Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *given: Any, **named: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *given, **named)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made


def server_context(tls: ListenerTls) -> ssl.SSLContext:
    """Makes the SSL context of a listener, for the server's side of TLS. Raises BadListenerTls."""
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sni_callback = _store_server_name
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_certificate(context, tls)
    if tls.client_auth is not ClientAuth.NONE:
        _load_authorities(context, tls.client_authorities)
        context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    return context


def principal_of(transport: Any) -> str:
    """Returns the principal of a TLS client, such as `User:CN=app`: the subject of its certificate, or ANONYMOUS if it
    presented none.
    """
    connection = transport.get_extra_info("ssl_object")
    certificate = connection.getpeercert(binary_form=True) if connection else None
    return f"User:{subject_of(certificate)}" if certificate else ANONYMOUS


def server_name_of(transport: Any) -> str | None:
    """Returns the server name that the client sent (SNI); None if it sent none."""
    connection = transport.get_extra_info("ssl_object")
    return connection.asked_for if isinstance(connection, _Handshake) else None


def handshake_refusal(error: BaseException) -> Refused | None:
    """Returns why a listener's TLS handshake failed; None if the client merely disconnected, as a port scan does."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate_refusal(error)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if isinstance(error, ssl.SSLError):
        return _tls_refusal((error.reason or str(error)).upper())
    # On a timeout asyncio and uvloop abort the connection; a client that disconnects resets it.
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return Refused(Refusal.TIMEOUT, "no TLS handshake in time")
    return None


def tls_alert(error: BaseException) -> bytes:
    """Returns the bytes of the TLS alert of a failed handshake, to be sent to the client; empty if there is none."""
    alert: bytes = getattr(error, _ALERT, b"")
    return alert


_EXPIRED: Final = 10  # OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED
_HTTP: Final = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST")
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER")


def _certificate_refusal(error: ssl.SSLCertVerificationError) -> Refused:
    why = Refusal.EXPIRED_CERTIFICATE if error.verify_code == _EXPIRED else Refusal.UNTRUSTED_CERTIFICATE
    return Refused(why, f"a client certificate that is not accepted: {in_one_line(error.verify_message)}")


def _tls_refusal(reason: str) -> Refused:
    if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
        return Refused(Refusal.NO_CERTIFICATE, "no client certificate, where one is required")
    if any(part in reason for part in _HTTP):
        return Refused(Refusal.NOT_TLS, "an HTTP request, where TLS and Kafka's protocol are required")
    if any(part in reason for part in _NOT_TLS):
        return Refused(Refusal.NOT_TLS, "no TLS, where it is required")
    if "ALERT" in reason:
        alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return Refused(Refusal.TLS, f"the client does not accept us: {in_one_line(alert or reason)}")
    return Refused(Refusal.TLS, f"no TLS handshake: {in_one_line(reason.replace('_', ' ').lower())}")


def _store_server_name(connection: Any, name: str | None, context: ssl.SSLContext) -> None:
    connection.asked_for = name


def _load_certificate(context: ssl.SSLContext, tls: ListenerTls) -> None:
    password = tls.key_password.reveal() if tls.key_password else ""
    with as_file(f"{tls.key.reveal()}\n{tls.certificate_chain}") as path:
        try:
            # A password is always given: without one OpenSSL would ask for it on the terminal.
            context.load_cert_chain(path, password=lambda: password)
        except ssl.SSLError as error:
            if "MISMATCH" in (error.reason or "").upper():
                raise BadListenerTls("the private key of the listener does not belong to its certificate") from None
            advice = "is its password right?" if tls.key_password else "does the key need a password?"
            raise BadListenerTls(f"the listener's certificate or private key cannot be read; {advice}") from None


def _load_authorities(context: ssl.SSLContext, authorities: str | None) -> None:
    if authorities is None:
        raise BadListenerTls("whose certificates of clients are trusted must be said")
    try:
        context.load_verify_locations(cadata=authorities)
    except ssl.SSLError as error:
        raise BadListenerTls(
            f"the authorities of clients cannot be read: {in_one_line(error.reason or error)}"
        ) from None
    # As in a Java truststore, every certificate in it is trusted, not only self-signed authorities.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
