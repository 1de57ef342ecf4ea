"""Translates a JAAS line to settings: the login modules of Kafka's own clients, and Java's for Kerberos."""

import json

from kcoord.admin.connecting.client_settings import DELEGATION_TOKEN, JAAS, UNSECURED_TOKEN, BadJaas, SecretResolver
from kcoord.admin.connecting.jaas import LoginModule, login_module
from kcoord.client.secret import Secret


def settings_of_jaas(line: Secret, follow: SecretResolver) -> dict[str, str | Secret]:
    """Translates a sasl.jaas.config line to client settings such as sasl.username. Raises BadJaas, BadReference."""
    module = login_module(line.reveal())
    match module.name:
        case "PlainLoginModule" | "ScramLoginModule":
            found: dict[str, str | Secret | None] = {
                "sasl.username": module.option("username"),
                "sasl.password": _secret_option(module, "password", follow),
                DELEGATION_TOKEN: module.option("tokenauth"),
            }
        case "OAuthBearerLoginModule":
            found = {
                "sasl.oauthbearer.client.id": module.option("clientId"),
                "sasl.oauthbearer.client.secret": _secret_option(module, "clientSecret", follow),
                "sasl.oauthbearer.scope": module.option("scope"),
                "sasl.oauthbearer.extensions": _extensions(module, "extension_"),
                "https.ca.location": module.option("ssl.truststore.location"),
                "https.ca.password": _secret_option(module, "ssl.truststore.password", follow),
                UNSECURED_TOKEN: _unsecured(module),
            }
        case "Krb5LoginModule":
            found = {
                "sasl.kerberos.service.name": module.option("serviceName"),
                "sasl.kerberos.keytab": module.option("keyTab"),
                "sasl.kerberos.principal": module.option("principal"),
            }
        case name:
            raise BadJaas(f"sasl.jaas.config: the login module {name} is not known here")
    return {key: value for key, value in found.items() if value is not None}


def _secret_option(module: LoginModule, name: str, follow: SecretResolver) -> Secret | None:
    text = module.option(name)
    return None if text is None else follow(f"{JAAS}, {name}", text)


def _extensions(module: LoginModule, prefix: str) -> str | None:
    found = {
        name.removeprefix(prefix): value.reveal() for name, value in module.options.items() if name.startswith(prefix)
    }
    return ",".join(f"{name}={value}" for name, value in found.items()) or None


def _unsecured(module: LoginModule) -> str | None:
    """Returns the claims of the token that Kafka's OAuthBearerUnsecuredLoginCallbackHandler would create."""
    claims: dict[str, object] = {}
    for option, secret in module.options.items():
        kind, underscore, name = option.partition("_")
        text = secret.reveal()
        if not underscore or not name:
            continue
        if kind == "unsecuredLoginStringClaim":
            claims[name] = text
        elif kind == "unsecuredLoginNumberClaim":
            claims[name] = _number(option, text)
        elif kind == "unsecuredLoginListClaim":
            claims[name] = text[1:].split(text[0]) if text else []
    if not claims:
        return None
    lifetime = _number("unsecuredLoginLifetimeSeconds", module.option("unsecuredLoginLifetimeSeconds") or "3600")
    extensions = _extensions(module, "unsecuredLoginExtension_")
    return json.dumps({"claims": claims, "lifetime": lifetime, "extensions": extensions})


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadJaas(f"sasl.jaas.config: {option} must be a number") from None
