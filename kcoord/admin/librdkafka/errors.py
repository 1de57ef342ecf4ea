"""Translates librdkafka's errors: to an error of the protocol, or to a message of one clear line."""

import re
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from kcoord.admin.connecting.client_settings import BadConnection
from kcoord.admin.connecting.secrets import is_secret_key
from kcoord.client.connect_errors import CannotConnect, LoginFailed, NoAnswer, TlsFailed, Unreachable, in_one_line
from kcoord.client.secret import HIDDEN
from kcoord.errors import ErrorCode

_KNOWN_CODES: Final = {code.value for code in ErrorCode}

# librdkafka's internal errors are negative. These concern only a part of the request and become that part's error.
_PARTIAL_ERRORS: Final = {
    KafkaError._UNKNOWN_TOPIC: ErrorCode.unknown_topic_or_partition,
    KafkaError._UNKNOWN_PARTITION: ErrorCode.unknown_topic_or_partition,
    KafkaError._UNKNOWN_GROUP: ErrorCode.group_id_not_found,
    KafkaError._AUTO_OFFSET_RESET: ErrorCode.offset_out_of_range,
    KafkaError._TIMED_OUT: ErrorCode.request_timed_out,
    KafkaError._TIMED_OUT_QUEUE: ErrorCode.request_timed_out,
    KafkaError._TRANSPORT: ErrorCode.network_exception,
    KafkaError._WAIT_COORD: ErrorCode.coordinator_not_available,
    KafkaError._UNSUPPORTED_FEATURE: ErrorCode.unsupported_version,
}

# Matches " (after 12ms in state CONNECT, 3 identical error(s) suppressed)" or " (after 12 ms)". _BROKER matches the
# name of the client's thread before the endpoint.
_NOISE: Final = re.compile(r"\s*\(after \d+ ?ms(?: in state [^)]*)?\)(?:, \d+ identical error\(s\) suppressed)?")
_BROKER: Final = re.compile(r"^(?:\[thrd:[^\]]*\]: )?(?:[a-z_]+://)?(\S+?)/(?:bootstrap|\d+): ")


def protocol_error(error: KafkaError) -> tuple[ErrorCode, str]:
    """Translates an error of librdkafka to Kafka's error code and a message. The message is empty if the error came
    from the broker."""
    code = error.code()
    if code in _KNOWN_CODES:
        return ErrorCode(code), ""
    return _PARTIAL_ERRORS.get(code, ErrorCode.unknown_server_error), f"librdkafka: {clean_message(error.str())}"


def clean_message(text: str) -> str:
    """Removes details of librdkafka's internals from an error message: "127.0.0.1:9092: Connection refused" remains."""
    return in_one_line(_BROKER.sub(r"\1: ", _NOISE.sub("", text)).strip())


def cannot_connect(error: KafkaError | None, bootstrap: str, timeout: float) -> CannotConnect:
    """Returns an error that explains why no broker answers, by the last error that librdkafka reported of its
    connections. `timeout` is in seconds."""
    if error is None:
        return NoAnswer(f"{bootstrap}: no broker has answered within {timeout:g} s")
    text = clean_message(error.str())
    match error.code():
        case KafkaError._AUTHENTICATION:
            return LoginFailed(f"{text}; check the user, the password and sasl.mechanism")
        case KafkaError._SSL:
            return TlsFailed(f"{text}; check security.protocol and the certificates")
        case KafkaError._RESOLVE:
            return Unreachable(f"{text}; check the name of the host")
        case _:
            return Unreachable(f"{text}; check the address, and security.protocol")


def bad_settings(error: KafkaException, configuration: Mapping[str, Any]) -> BadConnection:
    """Returns an error that explains why librdkafka creates no client from a configuration."""
    text = without_secrets(clean_message(error.args[0].str()), configuration)
    return BadConnection(f"librdkafka cannot use these settings: {text}")


def without_secrets(text: str, configuration: Mapping[str, Any]) -> str:
    """Hides every secret of the configuration in a text such as an error message, should librdkafka ever quote one."""
    secrets = [value for key, value in configuration.items() if is_secret_key(key) and isinstance(value, str)]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
