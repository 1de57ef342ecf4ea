"""Reading certificates. The expected names were formatted by Java's X500Principal.getName() (OpenJDK 17)."""

import datetime
import ssl
from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute as Part
from cryptography.x509 import RelativeDistinguishedName as Parts
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from kcoord.client.tls import as_file
from kcoord.security.certificates import BadCertificate, ListenerCertificate, listener_certificate, subject_of
from tests.support.certificates import authority, signed

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*parts: Any) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(list(parts)))
        .issuer_name(x509.Name([Part(NameOID.COMMON_NAME, "the issuer")]))
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (
            [
                Part(NameOID.COUNTRY_NAME, "NL"),
                Part(NameOID.STATE_OR_PROVINCE_NAME, "Zuid Holland"),
                Part(NameOID.LOCALITY_NAME, "Delft"),
                Part(NameOID.ORGANIZATION_NAME, "Acme, Inc."),
                Part(NameOID.ORGANIZATIONAL_UNIT_NAME, "R+D"),
                Part(NameOID.COMMON_NAME, "alice"),
            ],
            "CN=alice,OU=R\\+D,O=Acme\\, Inc.,L=Delft,ST=Zuid Holland,C=NL",
        ),
        (
            [
                Part(NameOID.DOMAIN_COMPONENT, "example"),
                Part(NameOID.USER_ID, "u1"),
                Part(NameOID.STREET_ADDRESS, "1 Way"),
                Part(NameOID.EMAIL_ADDRESS, "a@b.c"),
                Part(NameOID.SERIAL_NUMBER, "42"),
            ],
            "2.5.4.5=#13023432,1.2.840.113549.1.9.1=#16056140622e63,STREET=1 Way,UID=u1,DC=example",
        ),
        (
            [
                Parts([Part(NameOID.COMMON_NAME, "müller 漢字"), Part(NameOID.USER_ID, "x")]),
                Parts([Part(NameOID.SURNAME, "S")]),
            ],
            "2.5.4.4=#0c0153,UID=x+CN=müller 漢字",
        ),
        (
            [
                Part(NameOID.COMMON_NAME, "bmp é", _type=_ASN1Type.BMPString),
                Part(NameOID.ORGANIZATION_NAME, "t61", _type=_ASN1Type.T61String),
                Part(NameOID.LOCALITY_NAME, "uni", _type=_ASN1Type.UniversalString),
            ],
            "L=#1c0c000000750000006e00000069,O=t61,CN=\\00b\\00m\\00p\\00 \\00\ufffd",
        ),
        ([Part(NameOID.COMMON_NAME, " #lead = trail  ")], "CN=\\ \\#lead \\= trail\\ \\ "),
        ([Part(NameOID.COMMON_NAME, 'q"uo\\te<>;x#y')], 'CN=q\\"uo\\\\te\\<\\>\\;x\\#y'),
        ([Part(NameOID.COMMON_NAME, "   ")], "CN=\\ \\ \\ "),
        ([Part(NameOID.COMMON_NAME, "nul\0x")], "CN=nul\\00x"),
        ([Part(NameOID.COMMON_NAME, "\r a \r")], "CN=\\\r\\ a\\ \\\r"),
        ([Part(NameOID.COMMON_NAME, "a\tb\x01c\u200bd ")], "CN=a\tb\x01c\u200bd\\ "),
        ([], ""),
    ],
)
def test_a_name_is_written_as_java_writes_it(parts: list[Any], name: str) -> None:
    assert subject_of(certificate(*parts)) == name


def test_what_is_cut_off_anywhere_is_no_certificate() -> None:
    whole = certificate(Part(NameOID.COMMON_NAME, "alice"))
    for size in range(len(whole)):
        with pytest.raises(BadCertificate):
            subject_of(whole[:size])


# The listener's own certificate: will clients accept it?

AUTHORITY = authority("own")
DAY = datetime.timedelta(days=1)
REFUSED = "clients that check it will refuse it"


def certificate_for(*hosts: str) -> ListenerCertificate:
    return listener_certificate(signed(AUTHORITY, "server", hosts=hosts).certificate_pem)


def test_what_clients_look_at_is_read_from_the_first_of_a_chain() -> None:
    server = signed(AUTHORITY, "server", hosts=("kafka.example", "*.kafka.example", "10.0.0.7", "fe80::1"))
    read = listener_certificate(server.certificate_pem + AUTHORITY.certificate_pem)
    assert read.hosts == ("kafka.example", "*.kafka.example", "10.0.0.7", "fe80::1")
    assert read.begins_at == server.certificate.not_valid_before_utc
    assert read.ends_at == server.certificate.not_valid_after_utc


@pytest.mark.parametrize("year", [1999, 2049, 2050, 9999])
def test_years_are_read_in_both_forms(year: int) -> None:
    ends_at = datetime.datetime(year, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(x509.Name([]), x509.Name([]), KEY.public_key(), 7).not_valid_before(ends_at - DAY)
    made = builder.not_valid_after(ends_at).sign(KEY, hashes.SHA256())
    assert listener_certificate(made.public_bytes(Encoding.PEM).decode()).ends_at == ends_at


def test_one_that_is_too_old_too_young_or_about_to_expire_is_doubted() -> None:
    begins_at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    certificate = ListenerCertificate(begins_at=begins_at, ends_at=begins_at + 90 * DAY, hosts=())
    second = datetime.timedelta(seconds=1)
    assert certificate.time_problem(begins_at - second) == f"is not valid before 2026-01-01 00:00 UTC: {REFUSED}"
    assert certificate.time_problem(begins_at) is None
    assert certificate.time_problem(begins_at + 76 * DAY) is None
    assert certificate.time_problem(begins_at + 76 * DAY + second) == "expires on 2026-04-01 00:00 UTC"
    assert certificate.time_problem(begins_at + 90 * DAY) == "expires on 2026-04-01 00:00 UTC"
    assert certificate.time_problem(begins_at + 90 * DAY + second) == f"expired on 2026-04-01 00:00 UTC: {REFUSED}"


HELD_AND_ASKED = [
    ("kafka.example", "kafka.example", True),
    ("kafka.example", "KAFKA.Example", True),
    ("kafka.example", "b1.kafka.example", False),
    ("*.kafka.example", "b1.kafka.example", True),
    ("*.kafka.example", "kafka.example", False),
    ("*.kafka.example", "a.b1.kafka.example", False),
    ("*.example", "kafka.example", False),
    ("xn--bcher-kva.example", "bücher.example", True),
    ("127.0.0.1", "127.0.0.1", True),
    ("127.0.0.1", "127.0.0.2", False),
    ("127.0.0.1", "localhost", False),
    ("::1", "0:0:0:0:0:0:0:1", True),
]


@pytest.mark.parametrize(("held", "asked", "is_for_it"), HELD_AND_ASKED)
def test_a_host_is_looked_for_as_openssl_looks_for_it(held: str, asked: str, is_for_it: bool) -> None:
    assert (certificate_for(held).host_problem(asked) is None) is is_for_it
    assert is_taken_by_openssl(held, asked) is is_for_it


def is_taken_by_openssl(held: str, asked: str) -> bool:
    server, shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), signed(AUTHORITY, "server", hosts=(held,))
    with as_file(shown.key_pem() + shown.certificate_pem) as path:
        server.load_cert_chain(path)
    client = ssl.create_default_context(cadata=AUTHORITY.certificate_pem)
    client.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=asked)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    try:
        asking.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return error.verify_code not in (62, 64)  # host mismatch, IP address mismatch
    return True


def test_what_it_is_for_is_told_where_it_is_not_for_what_clients_are_told() -> None:
    problem = certificate_for("localhost", "127.0.0.1").host_problem("elsewhere.example")
    assert problem == f"is not for elsewhere.example, which clients are told: {REFUSED}; it is for localhost, 127.0.0.1"
    problem = certificate_for(*(f"b{number}.example" for number in range(9))).host_problem("b9.example")
    assert problem is not None
    assert problem.endswith("; it is for b0.example, b1.example, b2.example, b3.example, b4.example and 4 more")


def test_an_address_that_is_held_as_a_name_is_none() -> None:
    names = x509.SubjectAlternativeName([x509.DNSName("127.0.0.1")])
    builder = x509.CertificateBuilder(x509.Name([]), x509.Name([]), KEY.public_key(), 7)
    now = datetime.datetime.now(datetime.UTC)
    dated = builder.not_valid_before(now).not_valid_after(now + DAY).add_extension(names, critical=True)
    made = listener_certificate(dated.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode())
    problem = made.host_problem("127.0.0.1")
    assert problem == f"is not for 127.0.0.1, which clients are told: {REFUSED}; it is for DNS:127.0.0.1"


def test_one_without_names_is_doubted_as_few_clients_look_elsewhere() -> None:
    problem = "has no subjectAltName, and many clients look for own, which they are told, nowhere else"
    assert listener_certificate(AUTHORITY.certificate_pem).host_problem("own") == problem


@pytest.mark.parametrize(
    ("held", "is_for_it"),
    [
        ("*.x.example", True),
        ("*.X.Example", True),
        ("b7.x.example", True),
        ("x.example", False),
        ("*.example", False),
        ("broker.x.example", False),
        ("b7.xxexample", False),
        ("b7.b7.x.example", False),
    ],
)
def test_below_a_domain_brokers_have_names_of_their_own(held: str, is_for_it: bool) -> None:
    problem = certificate_for(held).domain_problem("x.example")
    expected = f"is not for *.x.example or b<N>.x.example, which clients are told: {REFUSED}; it is for {held}"
    assert problem == (None if is_for_it else expected)


def test_what_is_cut_off_anywhere_is_no_certificate_of_ours() -> None:
    whole = signed(AUTHORITY, "server").certificate.public_bytes(Encoding.DER)
    for size in range(len(whole)):
        with pytest.raises(BadCertificate):
            listener_certificate(ssl.DER_cert_to_PEM_cert(whole[:size]))
    for text in ("", "no PEM", "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----"):
        with pytest.raises(BadCertificate):
            listener_certificate(text)
