"""JAAS lines. integration/security/test_java_settings.py shows that Java parses them in the same way."""

import json
from functools import partial

import pytest

from kcoord.admin.connecting.client_settings import DELEGATION_TOKEN, UNSECURED_TOKEN, BadJaas
from kcoord.admin.connecting.jaas import login_module
from kcoord.admin.connecting.jaas_settings import settings_of_jaas
from kcoord.admin.connecting.secrets import resolve
from kcoord.client.secret import Secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ('password="secret"', "secret"),
        ("password='secret'", "secret"),
        ("password=secret", "secret"),
        ('password = "a b"', "a b"),
        (r'password="a\"b\\c"', 'a"b\\c'),
        ('password="it\'s"', "it's"),
        (r'password="\t\101\7x"', "\tA\x07x"),
        ('password="a;b=c"', "a;b=c"),
        ('password="//no comment"', "//no comment"),
        ('/* a comment */ password="x" // another\n', "x"),
        ("password=$ome-word_1.2", "$ome-word_1.2"),
        ('password=""', ""),
    ],
)
def test_values_are_quoted_as_java_quotes_them(written: str, password: str) -> None:
    module = login_module(f'{PLAIN} required\n  username="alice" {written};')
    assert module.name == "PlainLoginModule"
    assert (module.option("username"), module.option("password")) == ("alice", password)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "it must begin with the class of a login module"),
        (f"{PLAIN}", "one of required, requisite, sufficient, optional must follow"),
        (f"{PLAIN} needed a=b;", "one of required, requisite, sufficient, optional must follow"),
        (f'{PLAIN} required password="hush"', "it must end with ;"),
        (f"{PLAIN} required password=hush1 more;", "the option more must be followed"),
        (f"{PLAIN} required password;", "the option password must be followed"),
        (f"{PLAIN} required password=123;", "the option password must be followed"),
        (f'{PLAIN} required password="hush;', "a quote that is never closed, at position"),
        (f"{PLAIN} required password=hu§(sh;", "a character that needs quotes, at position"),
        (f"{PLAIN} required; {PLAIN} required;", "exactly one login module"),
    ],
)
def test_what_java_does_not_read_is_told_without_the_secret(line: str, message: str) -> None:
    with pytest.raises(BadJaas) as caught:
        login_module(line)
    assert message in str(caught.value)
    assert "hush" not in str(caught.value)


def test_name_and_password_become_settings() -> None:
    line = f'{SCRAM} required username="a" password="env:PW" tokenauth="true";'
    found = settings_of_jaas(Secret(line), partial(resolve, environment={"PW": "x"}))
    assert found == {"sasl.username": "a", "sasl.password": Secret("x"), DELEGATION_TOKEN: "true"}


def test_the_client_of_an_authorization_server_becomes_settings() -> None:
    line = f'{BEARER} required clientId="me" clientSecret="hush" scope="s" extension_logicalCluster="lkc";'
    assert settings_of_jaas(Secret(line), resolve) == {
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": Secret("hush"),
        "sasl.oauthbearer.scope": "s",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc",
    }


def test_claims_of_an_unsecured_token_become_one_setting() -> None:
    line = (
        f'{BEARER} required unsecuredLoginStringClaim_sub="carol" unsecuredLoginNumberClaim_age="7" '
        'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_x="1";'
    )
    token = settings_of_jaas(Secret(line), resolve)[UNSECURED_TOKEN]
    assert isinstance(token, str)
    assert json.loads(token) == {
        "claims": {"sub": "carol", "age": 7.0, "scope": ["a", "b"]},
        "lifetime": 60.0,
        "extensions": "x=1",
    }


def test_kerberos_is_handed_on() -> None:
    line = 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/k" principal="me@REALM" serviceName="kafka";'
    assert settings_of_jaas(Secret(line), resolve) == {
        "sasl.kerberos.keytab": "/k",
        "sasl.kerberos.principal": "me@REALM",
        "sasl.kerberos.service.name": "kafka",
    }


def test_a_module_that_is_not_known_is_named() -> None:
    with pytest.raises(BadJaas, match="the login module IAMLoginModule is not known here"):
        settings_of_jaas(Secret("software.amazon.msk.auth.iam.IAMLoginModule required;"), resolve)
