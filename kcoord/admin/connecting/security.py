"""Translates settings to the TLS and login of our own client and of librdkafka, and decides which of the two is
used."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kcoord.admin.connecting.client_settings import DELEGATION_TOKEN, UNSECURED_TOKEN, BadConnection, Layer
from kcoord.client.secret import Secret
from kcoord.client.security import TLS_VERSIONS, OAuthBearer, Plain, Sasl, Scram, Security, Tls

if TYPE_CHECKING:  # and at call time: most connections need neither a store nor a token
    from kcoord.admin.connecting.keystores import KeyEntry
    from kcoord.admin.connecting.oauth import ClientCredentials

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SUPPORTED_MECHANISMS: Final = ("PLAIN", *_SCRAM, "OAUTHBEARER")
"""The mechanisms of our own client."""


def security_of(settings: Layer, *, timeout: float) -> Security:
    """Returns the TLS and SASL settings of a client's security. There is no login in it if only librdkafka supports the
    mechanism. Raises BadConnection with the setting and its source."""
    protocol = protocol_of(settings)
    tls = _tls(settings) if protocol.endswith("SSL") else None
    sasl = _sasl(settings, timeout) if protocol.startswith("SASL") else None
    return Security(tls=tls, sasl=sasl)


def protocol_of(settings: Layer) -> str:
    """Returns the security.protocol, PLAINTEXT if none is given. Raises BadConnection for an unknown one."""
    given = settings.get("security.protocol")
    if given is None:
        return "PLAINTEXT"
    protocol = given.text.strip().upper()
    if protocol not in PROTOCOLS:
        raise bad_setting(settings, "security.protocol", f"{given.text!r} is none of {', '.join(PROTOCOLS)}")
    return protocol


def mechanism_of(settings: Layer) -> str:
    """Returns the SASL mechanism. Java uses GSSAPI if none is given. That is rarely meant, so that a name and password
    without a mechanism are rejected with BadConnection."""
    given = settings.get("sasl.mechanisms")
    if given is not None and given.text.strip():
        return given.text.strip()
    if "sasl.username" in settings:
        raise bad_setting(
            settings, "sasl.username", "sasl.mechanism is missing: say PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        )
    return "GSSAPI"


def bad_setting(settings: Layer, key: str, what: str) -> BadConnection:
    """Returns an error about this client setting, with its name and its source."""
    given = settings[key]
    return BadConnection(f"{given.origin}: {given.name or key}: {what}")


def boolean_setting(settings: Layer, key: str, *, default: bool) -> bool:
    """Returns the value of a client setting that is true or false. Raises BadConnection for another text."""
    if key not in settings:
        return default
    text = settings[key].text.strip().lower()
    if text not in ("true", "false"):
        raise bad_setting(settings, key, f"{text!r} is neither true nor false")
    return text == "true"


# TLS


def _tls(settings: Layer) -> Tls:
    entry = _key_entry(settings)
    return Tls(
        authorities=_authorities(settings, "ssl.ca"),
        certificate_chain=entry.certificate_chain if entry else None,
        key=entry.key if entry else None,
        key_password=entry.key_password if entry else None,
        checks_certificate=boolean_setting(settings, "enable.ssl.certificate.verification", default=True),
        checks_host_name=_checks_host_name(settings),
        versions=_versions(settings),
    )


def _checks_host_name(settings: Layer) -> bool:
    """Whether host names are checked. Java's "" and librdkafka's "none" turn it off."""
    given = settings.get("ssl.endpoint.identification.algorithm")
    algorithm = "https" if given is None else given.text.strip().lower()
    if algorithm not in ("https", "", "none"):
        raise bad_setting(
            settings, "ssl.endpoint.identification.algorithm", f"{algorithm!r} is neither https nor empty"
        )
    return algorithm == "https"


def _versions(settings: Layer) -> tuple[str, ...]:
    given = settings.get("ssl.enabled.protocols")
    if given is None:
        return TLS_VERSIONS
    wanted = [name.strip() for name in given.text.split(",")]
    usable = tuple(name for name in TLS_VERSIONS if name in wanted)
    if not usable:
        raise bad_setting(settings, "ssl.enabled.protocols", f"none of {', '.join(TLS_VERSIONS)} is in it")
    return usable


def _authorities(settings: Layer, stem: str) -> str | None:
    """Returns the certificate authorities of brokers ("ssl.ca") or of the authorization server ("https.ca"), which
    rarely are the same."""
    if f"{stem}.pem" in settings:
        return settings[f"{stem}.pem"].text
    location = settings.get(f"{stem}.location")
    if location is None or location.text == "probe":  # librdkafka's word for the system's authorities
        return None
    from kcoord.admin.connecting.keystores import BadKeystore, trusted_certificates

    password = settings.get(f"{stem}.password")
    try:
        return trusted_certificates(Path(location.text), password.secret if password else None)
    except BadKeystore as error:
        raise bad_setting(settings, f"{stem}.location", str(error)) from None


def _key_entry(settings: Layer) -> "KeyEntry | None":
    from kcoord.admin.connecting.keystores import BadKeystore, key_entry, pem_key_entry

    key_password = settings["ssl.key.password"].secret if "ssl.key.password" in settings else None
    try:
        if "ssl.keystore.location" in settings:
            password = settings.get("ssl.keystore.password")
            store = Path(settings["ssl.keystore.location"].text)
            return key_entry(store, password.secret if password else None, key_password)
        texts = [_text_of(settings, "ssl.key"), _text_of(settings, "ssl.certificate")]
        found = [text for text in texts if text is not None]
        if not found:
            return None
        # One file may contain both; Java's and librdkafka's users do this.
        return pem_key_entry("\n".join(found), key_password, name="ssl.certificate and ssl.key")
    except BadKeystore as error:
        given = next(key for key in ("ssl.keystore.location", *_PEM_KEYS) if key in settings)
        raise bad_setting(settings, given, str(error)) from None


_PEM_KEYS: Final = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem")


def _text_of(settings: Layer, stem: str) -> str | None:
    if f"{stem}.pem" in settings:
        return settings[f"{stem}.pem"].text
    if f"{stem}.location" not in settings:
        return None
    path = Path(settings[f"{stem}.location"].text)
    try:
        return path.expanduser().read_text(errors="replace")
    except OSError as error:
        raise bad_setting(settings, f"{stem}.location", f"cannot read {path}: {error.strerror}") from None


# The login


def _sasl(settings: Layer, timeout: float) -> Sasl | None:
    mechanism = mechanism_of(settings)
    match mechanism:
        case "PLAIN":
            return Plain(username=_required(settings, "sasl.username"), password=_required_password(settings))
        case "SCRAM-SHA-256" | "SCRAM-SHA-512":
            return Scram(
                mechanism=mechanism,
                username=_required(settings, "sasl.username"),
                password=_required_password(settings),
                is_delegation_token=boolean_setting(settings, DELEGATION_TOKEN, default=False),
            )
        case "OAUTHBEARER":
            return _bearer(settings, timeout)
        case _:
            return None


def _required(settings: Layer, key: str) -> str:
    if key not in settings:
        raise BadConnection(f"{key} is missing: sasl.mechanism={mechanism_of(settings)} needs it (or sasl.jaas.config)")
    return settings[key].text


def _required_password(settings: Layer) -> Secret:
    _required(settings, "sasl.password")
    return settings["sasl.password"].secret


def _bearer(settings: Layer, timeout: float) -> OAuthBearer:
    from urllib.parse import unquote, urlsplit

    from kcoord.admin.connecting.oauth import TokenSource, from_file, from_server

    extensions = (
        _pairs(settings["sasl.oauthbearer.extensions"].text) if "sasl.oauthbearer.extensions" in settings else {}
    )
    if "sasl.oauthbearer.token.endpoint.url" not in settings:
        return _unsecured_bearer(settings, extensions)
    url = urlsplit(settings["sasl.oauthbearer.token.endpoint.url"].text.strip())
    if url.scheme == "file":
        return OAuthBearer(token=TokenSource(partial(from_file, Path(unquote(url.path)))), extensions=extensions)
    if url.scheme not in ("http", "https"):
        raise bad_setting(settings, "sasl.oauthbearer.token.endpoint.url", "it must begin with https:, http: or file:")
    return OAuthBearer(token=TokenSource(partial(from_server, _grant(settings, timeout))), extensions=extensions)


def _grant(settings: Layer, timeout: float) -> "ClientCredentials":
    from kcoord.admin.connecting.oauth import ClientCredentials

    scope = settings.get("sasl.oauthbearer.scope")
    _required(settings, "sasl.oauthbearer.client.secret")
    return ClientCredentials(
        endpoint=settings["sasl.oauthbearer.token.endpoint.url"].text.strip(),
        client_id=_required(settings, "sasl.oauthbearer.client.id"),
        client_secret=settings["sasl.oauthbearer.client.secret"].secret,
        scope=scope.text if scope else None,
        authorities=_authorities(settings, "https.ca"),
        timeout=timeout,
    )


def _unsecured_bearer(settings: Layer, extensions: dict[str, str]) -> OAuthBearer:
    from kcoord.admin.connecting.oauth import TokenSource, unsecured_now

    if UNSECURED_TOKEN in settings:
        token = json.loads(settings[UNSECURED_TOKEN].text)
        claims, lifetime = token["claims"], token["lifetime"]
        extensions = extensions | _pairs(token["extensions"] or "")
    elif "sasl.oauthbearer.config" in settings:
        claims, lifetime = _librdkafka_claims(settings)
    else:
        raise BadConnection(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url (https: or file:), "
            "or unsecuredLoginStringClaim_sub in sasl.jaas.config"
        )
    return OAuthBearer(token=TokenSource(partial(unsecured_now, claims, lifetime)), extensions=extensions)


def _librdkafka_claims(settings: Layer) -> tuple[dict[str, Any], float]:
    """Parses librdkafka's `principal=alice scope=a,b lifeSeconds=60`."""
    options = dict(word.partition("=")[::2] for word in settings["sasl.oauthbearer.config"].text.split())
    if "principal" not in options:
        raise bad_setting(settings, "sasl.oauthbearer.config", "principal=NAME is missing")
    claims: dict[str, Any] = {options.get("principalClaimName", "sub"): options["principal"]}
    if "scope" in options:
        claims[options.get("scopeClaimName", "scope")] = options["scope"].split(",")
    try:
        return claims, float(options.get("lifeSeconds", "3600"))
    except ValueError:
        raise bad_setting(settings, "sasl.oauthbearer.config", "lifeSeconds must be a number") from None


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in text.split(",") if pair)
