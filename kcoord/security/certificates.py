"""Reads certificates: a client's subject name, and the validity period and hosts of the listener's own.

The subject is formatted as in Kafka's default principal, by Java's X500Principal.getName() (RFC 2253). The last part
comes first: a certificate of C=NL, O=Acme, CN=alice is `CN=alice,O=Acme,C=NL`. An attribute without a short name in the
RFC is written as a number and the bytes of its value: `1.2.840.113549.1.9.1=#1603612e62`.

The hosts are those that clients verify: the names and addresses of subjectAltName. A `*` matches one whole label, the
first (RFC 6125, 6.4.3). If there are none, Java and librdkafka check the CN, too; many other clients do not.
"""

import re
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from kcoord.exceptions import CorruptData
from kcoord.security.der import SEQUENCE, SET, Element, dotted, elements, only, time_of

_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_DNS_NAME: Final = 0x82
_ADDRESS: Final = 0x87
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8, Printable, T61, IA5, General and BMP strings: Java shows these as text, and decodes all of them as UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SPACES: Final = " \r"
_EXPIRES_SOON: Final = timedelta(days=14)
_MAX_SHOWN: Final = 5
_REFUSED: Final = "clients that check it will refuse it"


class BadCertificate(CorruptData, ValueError):
    """An error: bytes that are no X.509 certificate, which OpenSSL would not have accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerCertificate:
    """The parts of a listener's TLS certificate that clients verify: its validity period and its host names."""

    begins_at: datetime
    ends_at: datetime
    hosts: tuple[str, ...]

    def time_problem(self, now: datetime) -> str | None:
        """Describes what is wrong with the validity period now, or soon; None if nothing is."""
        if now < self.begins_at:
            return f"is not valid before {_format_time(self.begins_at)}: {_REFUSED}"
        if now > self.ends_at:
            return f"expired on {_format_time(self.ends_at)}: {_REFUSED}"
        if self.ends_at - now < _EXPIRES_SOON:
            return f"expires on {_format_time(self.ends_at)}"
        return None

    def host_problem(self, host: str) -> str | None:
        """Describes why clients that connect to this host would reject the certificate; None if they would not."""
        is_covered = any(_covers(held.lower(), _normalized(host)) for held in self.hosts)
        return None if is_covered else self._not_for(host)

    def domain_problem(self, domain: str) -> str | None:
        """Describes why clients would reject the certificate for brokers named b0.DOMAIN, b1.DOMAIN and so on; None if
        they would not.

        The broker ids are not known yet, so a certificate for one of these names is enough.
        """
        below = _normalized(domain)
        is_covered = any(_covers_a_broker(held.lower(), below) for held in self.hosts)
        return None if is_covered else self._not_for(f"*.{below} or b<N>.{below}")

    def _not_for(self, name: str) -> str:
        if not self.hosts:
            return f"has no subjectAltName, and many clients look for {name}, which they are told, nowhere else"
        more = len(self.hosts) - _MAX_SHOWN
        held = f"{', '.join(self.hosts[:_MAX_SHOWN])}{f' and {more} more' if more > 0 else ''}"
        return f"is not for {name}, which clients are told: {_REFUSED}; it is for {held}"


def subject_of(certificate: bytes) -> str:
    """Returns the distinguished name of a certificate's subject, formatted as Java does. The certificate is DER. Raises
    BadCertificate.
    """
    try:
        _serial, _algorithm, _issuer, _validity, subject = _fields(certificate)[:5]
        return ",".join(map(_relative_name, reversed(list(elements(subject.content)))))
    except (IndexError, ValueError, StopIteration):
        raise BadCertificate("a certificate that cannot be read") from None


def listener_certificate(chain: str) -> ListenerCertificate:
    """Parses the first certificate of a PEM chain: the listener's own. Raises BadCertificate."""
    end = "-----END CERTIFICATE-----"
    try:
        fields = _fields(ssl.PEM_cert_to_DER_cert(chain.partition(end)[0] + end))
        begins, ends = elements(fields[3].content)
        return ListenerCertificate(begins_at=time_of(begins), ends_at=time_of(ends), hosts=_hosts(fields))
    except (IndexError, ValueError, StopIteration):
        raise BadCertificate("a certificate that cannot be read") from None


def _fields(certificate: bytes) -> list[Element]:
    """Returns a certificate's fields: serial number, algorithm, issuer, validity, subject, and those behind them."""
    to_be_signed = next(elements(only(certificate, SEQUENCE).content))
    return [each for each in elements(to_be_signed.content) if each.tag != _VERSION]


def _hosts(fields: list[Element]) -> tuple[str, ...]:
    """Returns the names and addresses in subjectAltName."""
    hosts: list[str] = []
    for extensions in [each for each in fields if each.tag == _EXTENSIONS]:
        for extension in elements(only(extensions.content, SEQUENCE).content):
            number, *_is_critical, wrapped = elements(extension.content)
            if dotted(number.content) == _ALTERNATIVE_NAMES:
                names = list(elements(only(wrapped.content, SEQUENCE).content))
                hosts += [_host(name) for name in names if name.tag in (_DNS_NAME, _ADDRESS)]
    return tuple(hosts)


def _host(name: Element) -> str:
    if name.tag == _ADDRESS:
        return str(ip_address(name.content))
    text = name.content.decode(errors="replace")
    return f"DNS:{text}" if _address(text) else text  # an address in a DNS name matches no address


def _covers(held: str, host: str) -> bool:
    first, _, rest = host.partition(".")
    return held == host or (bool(first) and "." in rest and held == f"*.{rest}")  # OpenSSL refuses *.com


def _covers_a_broker(held: str, domain: str) -> bool:
    named = re.fullmatch(rf"b\d{{1,10}}\.{re.escape(domain)}", held)
    return named is not None or _covers(held, f"b0.{domain}")


def _normalized(host: str) -> str:
    """Normalizes a host for comparison: lower case, ASCII (IDNA), addresses in canonical form."""
    try:
        return _address(host) or host.encode("idna").decode().lower()
    except UnicodeError:  # it cannot be a host name
        return host.lower()


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _relative_name(element: Element) -> str:
    if element.tag != SET:
        raise ValueError("a part of a name is a set")
    return "+".join(map(_attribute, elements(element.content)))


def _attribute(element: Element) -> str:
    kind, value = elements(element.content)
    number = dotted(kind.content)
    name = _SHORT_NAMES.get(number)
    if name is None or value.tag not in _TEXTS:
        return f"{name or number}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    """Escapes a value as Java does, which escapes = and # everywhere, too."""
    shown = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in text)
    inner = shown.strip(_SPACES)
    before, _, after = shown.partition(inner) if inner else (shown, "", "")
    return "".join(f"\\{char}" for char in before) + inner + "".join(f"\\{char}" for char in after)
