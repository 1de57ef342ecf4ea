"""Resolves which cluster to connect to, and how: merges all sources into one Connection.

Key by key, the upper source wins:

    -b, --request-timeout        the command line
    -X key=value                 the command line, one setting at a time
    --command-config             a client.properties named on the command line
    KCOORD_BOOTSTRAP_SERVER, KCOORD_COMMAND_CONFIG
    a context                    --context, KCOORD_CONTEXT, or the one of `kcoord context use`

Two rules ensure that credentials go to their own brokers only. A context that is not named on the command line is
ignored as soon as a source above it names the cluster. And --context disables KCOORD_*: whoever names a context means
that one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kcoord.admin.connecting.client_settings import (
    KNOWN,
    SETUP_TIMEOUT,
    BadConnection,
    Layer,
    Setting,
    file_layer,
    merge_layers,
    pairs_layer,
)
from kcoord.admin.connecting.security import SUPPORTED_MECHANISMS, bad_setting, mechanism_of, protocol_of, security_of
from kcoord.client.secret import Secret
from kcoord.client.security import OAuthBearer, Plain, Scram, Security
from kcoord.endpoints import format_endpoint

DEFAULT_TIMEOUT: Final = 30.0
DEFAULT_SETUP_TIMEOUT: Final = 5.0
CLIENT_ID: Final = "kcoord"
_PREFIXES_OF_LIBRDKAFKA: Final = ("sasl.kerberos.", "sasl.oauthbearer.assertion.", "sasl.oauthbearer.grant.")
NO_CLUSTER_MESSAGE: Final = (
    "which cluster? Say -b HOST:PORT, --command-config FILE with bootstrap.servers in it, "
    "or kcoord context add NAME -b HOST:PORT"
)


class NoCluster(BadConnection):
    """An error: no option, file or context names the cluster to connect to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The options of the command line that say how to connect to a cluster."""

    bootstrap: str | None = None
    command_config: Path | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    """The pairs of -X, in their order."""
    context: str | None = None
    request_timeout: float | None = None
    may_be_current_context: bool = True
    """Whether the context of `kcoord context use` applies if no other source names a cluster."""
    bootstrap_option: str = "-b"
    config_option: str = "--command-config"
    """The names of the options in this command, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """All that is needed to connect to a cluster's brokers: bootstrap servers, security, timeouts in seconds."""

    bootstrap: tuple[str, ...]
    """The endpoints of the bootstrap servers, as host:port."""
    security: Security = field(default_factory=Security)
    client_id: str = CLIENT_ID
    request_timeout: float = DEFAULT_TIMEOUT
    setup_timeout: float = DEFAULT_SETUP_TIMEOUT
    """Seconds until a broker must have accepted a connection and sent its versions; never more than for a request."""
    librdkafka: Mapping[str, str | Secret] = field(default_factory=dict)
    """These settings as librdkafka's configuration; librdkafka_configuration() makes it ready for use."""
    needs_librdkafka: str | None = None
    """Why our own client cannot connect to this cluster; None if it can."""
    source: str = "-b"
    """The source that named the cluster, for errors."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user."""
    ignored: tuple[str, ...] = ()
    """Keys of files without effect here, as key (file:line)."""


def resolve_connection(options: ConnectionOptions, environment: Mapping[str, str]) -> Connection:
    """Returns the connection that options, files, contexts and the environment result in together. Raises NoCluster,
    BadConnection and the errors of their files."""
    selected = _select_layers(options, environment)
    settings = merge_layers(selected.layers)
    if "bootstrap.servers" not in settings:
        raise NoCluster(NO_CLUSTER_MESSAGE)
    bootstrap = addresses(settings["bootstrap.servers"])
    timeout = options.request_timeout or _timeout(settings, "request.timeout.ms", DEFAULT_TIMEOUT)
    security = security_of(settings, timeout=timeout)
    passed_on = {key: settings[key] for key in settings if key not in KNOWN and _is_for_librdkafka(key, settings[key])}
    client_id = settings["client.id"].text if "client.id" in settings else CLIENT_ID
    return Connection(
        bootstrap=bootstrap,
        security=security,
        client_id=client_id,
        request_timeout=timeout,
        setup_timeout=_timeout(settings, SETUP_TIMEOUT, DEFAULT_SETUP_TIMEOUT),
        librdkafka=_librdkafka(settings, bootstrap, security, client_id, timeout)
        | {key: setting.value for key, setting in passed_on.items()},
        needs_librdkafka=_why_librdkafka(settings, passed_on),
        source=settings["bootstrap.servers"].origin,
        warnings=(*selected.warnings, *_warnings(settings)),
        ignored=tuple(
            f"{key} ({setting.origin})"
            for key, setting in settings.items()
            if key not in KNOWN and key not in passed_on
        ),
    )


def librdkafka_configuration(connection: Connection) -> dict[str, Any]:
    """Returns the configuration of confluent_kafka's clients for a connection, with secrets revealed and a callback
    that fetches bearer tokens."""
    revealed: dict[str, Any] = {
        key: value.reveal() if isinstance(value, Secret) else value for key, value in connection.librdkafka.items()
    }
    sasl = connection.security.sasl
    if isinstance(sasl, OAuthBearer):
        import time

        def token(_: str) -> tuple[str, float, str, dict[str, str]]:
            # librdkafka calls again in a minute: our own source caches the token while it is valid.
            return sasl.token().reveal(), time.time() + 60, "", dict(sasl.extensions)

        revealed["oauth_cb"] = token
    return revealed


def addresses(setting: Setting) -> tuple[str, ...]:
    """Parses a bootstrap.servers setting to a tuple of host:port. Raises BadConnection."""
    found = tuple(text.strip() for text in setting.text.split(",") if text.strip())
    if not found:
        raise BadConnection(f"{setting.origin}: no address is given: HOST:PORT is expected")
    return tuple(format_endpoint(*host_and_port(each, setting.origin)) for each in found)


def host_and_port(text: str, origin: str = "-b") -> tuple[str, int]:
    """Parses `host:9092`, `[::1]:9092` and, as Java allows it, `SASL_SSL://host:9092`. Raises BadConnection."""
    host, _, port = text.rpartition("://")[2].rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not host or not port.isascii() or not port.isdecimal() or (":" in host and not is_bracketed):
        hint = f"; an IPv6 text is written [{text}]:9092" if text.count(":") > 1 and "[" not in text else ""
        raise BadConnection(f"{origin}: {text!r} is not HOST:PORT{hint}")
    if not 0 < int(port) <= 65535:
        raise BadConnection(f"{origin}: {text!r}: a port is 1 to 65535")
    return host.strip("[]"), int(port)


# Selecting layers


@dataclass(frozen=True, slots=True, kw_only=True)
class _SelectedLayers:
    layers: tuple[Layer, ...]
    """The last layer wins."""
    warnings: tuple[str, ...] = ()


def _select_layers(options: ConnectionOptions, environment: Mapping[str, str]) -> _SelectedLayers:
    command_line = [
        file_layer(options.command_config, options.config_option, environment) if options.command_config else {},
        pairs_layer(options.pairs, "-X", environment),
        pairs_layer([("bootstrap.servers", options.bootstrap)], options.bootstrap_option, environment)
        if options.bootstrap
        else {},
    ]
    if options.context:
        return _with_context(options.context, command_line, environment)
    layers = [*_environment_layers(environment), *command_line]
    if any("bootstrap.servers" in layer for layer in layers) or not options.may_be_current_context:
        return _SelectedLayers(layers=tuple(layers))
    return _with_context(environment.get("KCOORD_CONTEXT"), layers, environment)


def _environment_layers(environment: Mapping[str, str]) -> list[Layer]:
    layers = []
    if path := environment.get("KCOORD_COMMAND_CONFIG"):
        layers.append(file_layer(Path(path), "KCOORD_COMMAND_CONFIG", environment))
    if bootstrap := environment.get("KCOORD_BOOTSTRAP_SERVER"):
        layers.append(pairs_layer([("bootstrap.servers", bootstrap)], "KCOORD_BOOTSTRAP_SERVER", environment))
    return layers


def _with_context(name: str | None, above: list[Layer], environment: Mapping[str, str]) -> _SelectedLayers:
    """Adds the layers of a context, or of the current one, below the others; none if there is no context."""
    from kcoord.admin.connecting.contexts import contexts_path, load, permission_warning

    path = contexts_path(environment)
    contexts = load(path)
    name = name or contexts.current
    if name is None:
        return _SelectedLayers(layers=tuple(above))
    context = contexts.named(name)
    origin = f"context {name}"
    layers = [
        file_layer(context.command_config, origin, environment) if context.command_config else {},
        pairs_layer(context.settings.items(), origin, environment),
        pairs_layer([("bootstrap.servers", context.bootstrap)], origin, environment) if context.bootstrap else {},
    ]
    warning = permission_warning(path)
    return _SelectedLayers(layers=(*layers, *above), warnings=(warning,) if warning else ())


# From layers to the connection


def _timeout(settings: Layer, key: str, default: float) -> float:
    """Returns a setting in milliseconds as seconds."""
    if key not in settings:
        return default
    text = settings[key].text.strip()
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise bad_setting(settings, key, f"{text!r} is no number of milliseconds")
    return int(text) / 1000


def _is_for_librdkafka(key: str, setting: Setting) -> bool:
    """Whether librdkafka gets a setting that our own client does not support: all of -X and contexts; of Java's files
    only what both have."""
    return not setting.is_from_file or key.startswith(_PREFIXES_OF_LIBRDKAFKA)


def _why_librdkafka(settings: Layer, passed_on: Mapping[str, Setting]) -> str | None:
    if protocol_of(settings).startswith("SASL") and (mechanism := mechanism_of(settings)) not in SUPPORTED_MECHANISMS:
        return f"sasl.mechanism={mechanism}"
    librdkafka_settings = sorted(key for key, setting in passed_on.items() if not setting.is_from_file)
    return f"{', '.join(librdkafka_settings)}: only librdkafka knows that setting" if librdkafka_settings else None


def _warnings(settings: Layer) -> list[str]:
    protocol = protocol_of(settings)
    unused = [key for key in ("sasl.mechanisms", "sasl.username") if key in settings and "SASL" not in protocol]
    first = [settings[key] for key in unused[:1]]
    warnings = [f"{each.name} has no effect with security.protocol={protocol} ({each.origin})" for each in first]
    is_blind = "enable.ssl.certificate.verification" in settings and "SSL" in protocol
    if is_blind and settings["enable.ssl.certificate.verification"].text.strip().lower() == "false":
        warnings.append("the certificates of brokers are not checked: anybody may stand between")
    return warnings


def _librdkafka(
    settings: Layer, bootstrap: tuple[str, ...], security: Security, client_id: str, timeout: float
) -> dict[str, str | Secret]:
    protocol = protocol_of(settings)
    made: dict[str, str | Secret | None] = {
        "bootstrap.servers": ",".join(bootstrap),
        "client.id": client_id,
        "security.protocol": protocol,
        "socket.timeout.ms": str(round(timeout * 1000)),
    }
    if SETUP_TIMEOUT in settings:
        made[SETUP_TIMEOUT] = settings[SETUP_TIMEOUT].text.strip()
    if tls := security.tls:
        made |= {
            "ssl.ca.pem": tls.authorities,
            "ssl.certificate.pem": tls.certificate_chain,
            "ssl.key.pem": tls.key,
            "ssl.key.password": tls.key_password,
            "enable.ssl.certificate.verification": str(tls.checks_certificate).lower(),
            "ssl.endpoint.identification.algorithm": "https" if tls.checks_host_name else "none",
        }
    if protocol.startswith("SASL"):
        made["sasl.mechanisms"] = mechanism_of(settings)
    if isinstance(security.sasl, Plain | Scram):
        made |= {"sasl.username": security.sasl.username, "sasl.password": security.sasl.password}
    return {key: value for key, value in made.items() if value is not None}
