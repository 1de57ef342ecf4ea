"""The settings of a client under one set of names, whichever names they were given by.

Java's client.properties and librdkafka's -X mean the same things by different names. Here librdkafka's names are used,
since they are finer (sasl.username instead of a line of JAAS), and librdkafka needs them anyway:

    Java                                     here
    sasl.mechanism                           sasl.mechanisms
    sasl.jaas.config                         sasl.username, sasl.password; sasl.oauthbearer.*; sasl.kerberos.*
    ssl.truststore.location, .certificates   ssl.ca.location, ssl.ca.pem        (any kind of store, not only PEM)
    ssl.keystore.certificate.chain, .key     ssl.certificate.pem, ssl.key.pem
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from kcoord.admin.connecting.secrets import BadReference, is_reference, is_secret_key, resolve, resolve_without_commands
from kcoord.client.secret import Secret
from kcoord.exceptions import InvalidInput
from kcoord.java_properties import read_properties_file

_RENAMED: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.password": "ssl.ca.password",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "socket.timeout.ms": "request.timeout.ms",
}

SETUP_TIMEOUT: Final = "socket.connection.setup.timeout.ms"
JAAS: Final = "sasl.jaas.config"
UNSECURED_TOKEN: Final = "kcoord.unsecured.token"  # noqa: S105 - the claims of a JAAS line, as JSON
DELEGATION_TOKEN: Final = "kcoord.delegation.token"  # noqa: S105

KNOWN: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "request.timeout.ms",
        SETUP_TIMEOUT,
        "security.protocol",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.config",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "https.ca.location",
        "https.ca.password",
        "https.ca.pem",
        "ssl.ca.location",
        "ssl.ca.password",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "ssl.enabled.protocols",
        UNSECURED_TOKEN,
        DELEGATION_TOKEN,
    }
)
"""The settings that our own client supports."""

_IGNORED: Final = frozenset({"ssl.truststore.type", "ssl.keystore.type", "ssl.protocol"})
"""Accepted and without effect: the type of a store is detected from its content, and ssl.enabled.protocols names the
versions."""

# The nearest layer with any key of a set replaces the whole set: a truststore of a file does not mix with a PEM of -X.
_EXCLUSIVE: Final = (
    frozenset({"ssl.ca.location", "ssl.ca.pem"}),
    frozenset({"https.ca.location", "https.ca.pem"}),
    frozenset(
        {"ssl.keystore.location", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem"}
    ),
    frozenset({"sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.config", UNSECURED_TOKEN}),
)


class BadConnection(InvalidInput, ValueError):
    """An error: the client settings are invalid, so that no connection can be made. The message says where they were
    given."""


class BadJaas(InvalidInput, ValueError):
    """An error: a sasl.jaas.config line is invalid, for Kafka too. The text is not repeated: it contains the
    password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The value of one client setting such as sasl.username, and where it was given (`origin`: a file and line, -X or a
    context), for errors. `name` is the name that it was given by."""

    value: str | Secret
    origin: str
    """Where it was given, for errors: a file and line, -X, a context."""
    name: str = ""
    """The name that it was given by: Java's if that differs from ours."""
    is_from_file: bool = False
    """Whether it is from a file: Java's files have many settings that are not for kcoord; every -X is."""

    @property
    def text(self) -> str:
        """The value as text, revealed if it is a secret."""
        return self.value.reveal() if isinstance(self.value, Secret) else self.value

    @property
    def secret(self) -> Secret:
        """The value as a Secret."""
        return self.value if isinstance(self.value, Secret) else Secret(self.value)


Layer = dict[str, Setting]
SecretResolver = Callable[[str, str], Secret]
"""Resolves a key and its value, which may be a reference, to the secret. Raises BadReference."""


def file_layer(path: Path, named_by: str, environment: Mapping[str, str]) -> Layer:
    """Reads the settings of a client.properties file by name, with secrets resolved. `named_by` says who named the
    file; it may not run commands. Raises BadConnection."""
    try:
        properties = read_properties_file(path.expanduser())
    except OSError as error:
        raise BadConnection(f"{named_by}: cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise BadConnection(str(error)) from None
    follow = partial(resolve_without_commands, environment=environment)
    layer = _layer(((each.name, each.value, f"{path}:{each.line}") for each in properties), follow, follow)
    return {key: replace(setting, is_from_file=True) for key, setting in layer.items()}


def pairs_layer(pairs: Iterable[tuple[str, str]], origin: str, environment: Mapping[str, str]) -> Layer:
    """Returns the settings of -X pairs or of a context by name, with secrets resolved. Raises BadConnection."""
    follow = partial(resolve, environment=environment)
    follow_within = partial(resolve_without_commands, environment=environment)
    return _layer(((key, value, origin) for key, value in pairs), follow, follow_within)


def merge_layers(layers: Iterable[Layer]) -> Layer:
    """Merges the client settings of several sources; the later ones win key by key."""
    together: Layer = {}
    for layer in layers:
        for rivals in _EXCLUSIVE:
            if rivals & layer.keys():
                together = {key: setting for key, setting in together.items() if key not in rivals}
        together |= layer
    return together


def _layer(given: Iterable[tuple[str, str, str]], follow: SecretResolver, follow_within: SecretResolver) -> Layer:
    """Resolves settings. `follow_within` resolves references in a JAAS line that was itself fetched by a reference."""
    layer: Layer = {}
    for name, text, origin in given:
        key = _RENAMED.get(name, name)
        if key in _IGNORED:
            continue
        try:
            value = follow(name, text) if is_secret_key(key) else text
            parts = (
                _jaas_settings(value, follow_within if is_reference(text) else follow) if key == JAAS else {key: value}
            )
        except (BadReference, BadJaas) as error:
            raise BadConnection(f"{origin}: {error}") from None
        layer |= {part: Setting(value=each, origin=origin, name=name) for part, each in parts.items()}
    return layer


def _jaas_settings(value: str | Secret, follow: SecretResolver) -> Mapping[str, str | Secret]:
    from kcoord.admin.connecting.jaas_settings import settings_of_jaas  # here: many connections have none

    assert isinstance(value, Secret)
    return settings_of_jaas(value, follow)
