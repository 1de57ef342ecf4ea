"""Options for TLS and authentication of a listener: `--tls-…`, `--sasl`, `--users`."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..output.output import echo_err
from .password_files import password_in

if TYPE_CHECKING:
    from kcoord.client.secret import Secret
    from kcoord.security.listener import Listener, ListenerTls, Sasl

_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OF_THE_COMMAND: Final = ("advertise", "sni")  # options of the command itself that also matter to the certificate
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerOptions:
    """The options of the command line for the TLS and SASL of a listener, as given, and the command's options that name
    hosts which the certificate must cover."""

    tls_cert: Path | None
    tls_key: Path | None
    tls_keystore: Path | None
    tls_key_password_file: Path | None
    tls_client_ca: Path | None
    tls_client_auth: str | None
    sasl: tuple[str, ...]
    users: Path | None
    allow_plaintext_passwords: bool
    advertise: str | None
    sni: str | None


def listener_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds the options for a listener's TLS and SASL (--tls-cert, --sasl and so on), and passes the
    command ListenerOptions as `listener`, for `listener_of`."""

    @wraps(command)
    def with_listener(**values: Any) -> Any:
        chosen: dict[str, Any] = {each.name: values.get(each.name) for each in fields(ListenerOptions)}
        others = {name: value for name, value in values.items() if name not in chosen or name in _OF_THE_COMMAND}
        return command(listener=ListenerOptions(**chosen), **others)

    for option in reversed(_OPTIONS):
        with_listener = option(with_listener)
    return with_listener


def listener_of(options: ListenerOptions, host: str) -> "Listener | None":
    """Returns the security settings of the listener from its options: TLS, SASL or both, and None for neither. Raises
    UsageError, BadKeystore, BadUsers."""
    tls, sasl = _tls(options), _sasl(options)
    if tls is None and sasl is None:
        return None
    if sasl is not None and "PLAIN" in sasl.mechanisms and tls is None and not _may_send_plain_passwords(options, host):
        raise click.UsageError(
            f"--sasl PLAIN without TLS would let anybody on the way to {host} read passwords: "
            "give --tls-cert, or --allow-plaintext-passwords"
        )
    from kcoord.security.listener import Listener

    if tls is not None:
        _warn_of_certificate(tls, options, host)
    return Listener(tls=tls, sasl=sasl)


def _may_send_plain_passwords(options: ListenerOptions, host: str) -> bool:
    return options.allow_plaintext_passwords or _is_loopback(host)


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _warn_of_certificate(tls: "ListenerTls", options: ListenerOptions, host: str) -> None:
    """Warns about a certificate that clients may refuse. It is used all the same, as clients may not verify it, or
    may use other names."""
    from datetime import UTC, datetime

    from kcoord.security.certificates import BadCertificate, listener_certificate

    try:
        certificate = listener_certificate(tls.certificate_chain)
    except BadCertificate:
        return  # OpenSSL reports it
    doubts = [certificate.time_problem(datetime.now(UTC))]
    if options.sni is not None:
        doubts.append(certificate.domain_problem(options.sni.strip(".")))
    if options.advertise or options.sni is None:
        doubts.append(certificate.host_problem((options.advertise or host).strip("[]")))
    for doubt in filter(None, doubts):
        echo_err(f"kcoord: the certificate in {options.tls_cert or options.tls_keystore} {doubt}")


def _tls(options: ListenerOptions) -> "ListenerTls | None":
    if options.tls_cert is None and options.tls_keystore is None:
        for name in ("tls_key", "tls_key_password_file", "tls_client_ca", "tls_client_auth"):
            if getattr(options, name) is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --tls-cert or --tls-keystore")
        return None
    if options.tls_keystore is not None and (options.tls_cert or options.tls_key):
        raise click.UsageError("--tls-keystore holds certificate and key: there is no use for --tls-cert or --tls-key")
    if options.tls_client_auth is not None and options.tls_client_ca is None:
        raise click.UsageError("--tls-client-auth needs --tls-client-ca: whose certificates are trusted")
    from kcoord.admin.connecting.keystores import trusted_certificates
    from kcoord.security.listener import ClientAuth, ListenerTls

    entry = _key_entry(options)
    authorities = trusted_certificates(options.tls_client_ca, None) if options.tls_client_ca else None
    return ListenerTls(
        certificate_chain=entry.certificate_chain,
        key=entry.key,
        key_password=entry.key_password,
        client_authorities=authorities,
        client_auth=ClientAuth(options.tls_client_auth or "required") if authorities else ClientAuth.NONE,
    )


def _key_entry(options: ListenerOptions) -> Any:
    from kcoord.admin.connecting.keystores import key_entry, pem_key_entry

    password = _password(options.tls_key_password_file)
    if options.tls_keystore is not None:
        return key_entry(options.tls_keystore, password, password)
    assert options.tls_cert is not None
    # The key may be in the same file as the certificate.
    files = [options.tls_cert, *([options.tls_key] if options.tls_key else [])]
    text = "\n".join(path.read_text(errors="replace") for path in files)
    return pem_key_entry(text, password, name=" and ".join(map(str, files)))


def _password(path: Path | None) -> "Secret | None":
    if path is None:
        return None
    return password_in(path.read_bytes(), option="--tls-key-password-file")


def _sasl(options: ListenerOptions) -> "Sasl | None":
    if not options.sasl:
        if options.users is not None:
            raise click.UsageError(f"--users needs --sasl: by which mechanisms, such as {','.join(_MECHANISMS[1:])}")
        return None
    if options.users is None:
        raise click.UsageError("--sasl needs --users FILE: who may log in; kcoord users add makes it")
    from kcoord.security.listener import Sasl
    from kcoord.security.users import UsersFile, is_open_to_others

    file = UsersFile(options.users)
    if is_open_to_others(options.users):
        click.echo(f"kcoord: others may read {options.users}, and try passwords unseen: chmod 600 it", err=True)
    return Sasl(mechanisms=options.sasl, users=file.current)


def _mechanisms(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    named = tuple(dict.fromkeys(each.strip().upper() for each in text.split(",")))
    for each in named:
        if each not in _MECHANISMS:
            raise click.BadParameter(f"{each!r} is none of {', '.join(_MECHANISMS)}", param_hint="--sasl")
    return named


_OPTIONS: Final = (
    click.option("--tls-cert", type=_FILE, metavar="PEM", help="Speak TLS, with this certificate and its chain."),
    click.option("--tls-key", type=_FILE, metavar="PEM", help="Its private key, if that is in another file."),
    click.option("--tls-keystore", type=_FILE, metavar="FILE", help="Both from a PKCS12 or JKS store instead."),
    click.option("--tls-key-password-file", type=_FILE, metavar="FILE", help="The password of the key or store."),
    click.option(
        "--tls-client-ca", type=_FILE, metavar="FILE", help="Ask clients for certificates of these authorities."
    ),
    click.option(
        "--tls-client-auth",
        type=click.Choice(["required", "requested"]),
        help="Whether a client must have one, or may.  [default: required]",
    ),
    click.option(
        "--sasl", metavar="MECHANISMS", callback=_mechanisms, help=f"Ask for a login: {', '.join(_MECHANISMS)}."
    ),
    click.option("--users", type=_FILE, metavar="FILE", help="Who may log in: see kcoord users."),
    click.option("--allow-plaintext-passwords", is_flag=True, help="Take PLAIN without TLS from other machines, too."),
)
