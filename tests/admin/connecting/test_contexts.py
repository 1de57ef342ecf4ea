"""The file of contexts: what is stored, what is refused, and who may read it."""

from pathlib import Path

import pytest

from kcoord.admin.connecting.contexts import (
    BadContexts,
    Context,
    Contexts,
    contexts_path,
    holds_plain_secret,
    load,
    permission_warning,
    save,
)

PROD = Context(
    bootstrap="kafka1:9093,[::1]:9093",
    command_config=Path("/etc/kafka/prod client.properties"),
    settings={"sasl.username": 'a "quoted" \\ name\t\x7f ä', "sasl.password": "env:PROD_PASSWORD"},
)


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kcoord" / "contexts.toml"
    contexts = Contexts().with_context("prod", PROD).with_context("a.b-c_d", Context(bootstrap="h:1"))
    save(path, contexts)
    assert load(path) == contexts
    assert contexts.current == "prod"


def test_the_file_and_its_folder_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "kcoord" / "contexts.toml"
    save(path, Contexts())
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert permission_warning(path) is None
    path.chmod(0o644)
    assert permission_warning(path) == f"{path} can be read by others (mode 644): chmod 600 {path}"
    save(path, Contexts())
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["contexts.toml"]


def test_without_a_file_there_are_no_contexts(tmp_path: Path) -> None:
    assert load(tmp_path / "contexts.toml") == Contexts()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('current = "a"\n\n[contexts.a\n', ":3: "),
        ("current =", ":1: "),
        ('a = "1"\na = "2"', ":2: Cannot overwrite a value"),
        ("current = 1", ": current must be the name of a context"),
        ("contexts = 1", ": contexts must be tables"),
        ("[contexts]\na = 1", ": contexts must be tables"),
        ("[contexts.a]\nbootstrap = 9092", ": context a: bootstrap must be a text in quotes"),
        ("[contexts.a]\nsettings = 1", ": context a: settings must be a table"),
        ('[contexts.a.settings]\n"x" = true', ": context a: x must be a text in quotes"),
        ('[contexts.a]\nbootstrapp = "h:1"', ": context a: 'bootstrapp' is not known"),
    ],
)
def test_a_malformed_file_is_told_with_its_name_and_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text(text)
    with pytest.raises(BadContexts) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadContexts, match="is not UTF-8 text"):
        load(path)


@pytest.mark.parametrize(
    ("key", "value", "is_plain"),
    [
        ("sasl.password", "hush", True),
        ("sasl.password", "text:hush", True),
        ("sasl.password", "env:X", False),
        ("ssl.key.password", "file:/x", False),
        ("sasl.oauthbearer.client.secret", "hush", True),
        ("sasl.username", "hush", False),
        ("sasl.jaas.config", 'a.PlainLoginModule required username="u" password="hush";', True),
        ("sasl.jaas.config", 'a.PlainLoginModule required username="u" password="env:X";', False),
        ("sasl.jaas.config", 'a.OAuthBearerLoginModule required clientId="u" clientSecret="hush";', True),
        ("sasl.jaas.config", "file:/x", False),
        ("sasl.jaas.config", "what?", True),
    ],
)
def test_a_secret_itself_is_told_from_a_reference(key: str, value: str, is_plain: bool) -> None:
    assert holds_plain_secret(key, value) is is_plain


def test_a_plain_secret_is_refused_with_advice_and_not_repeated() -> None:
    with pytest.raises(BadContexts) as caught:
        Contexts().with_context("prod", Context(bootstrap="h:1", settings={"sasl.password": "hush"}))
    assert str(caught.value) == (
        "sasl.password is a secret, which a context holds only by reference: "
        "say env:NAME, file:PATH or command:… instead"
    )


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "ä", "a\n"])
def test_a_name_that_shells_would_trip_over_is_refused(name: str) -> None:
    with pytest.raises(BadContexts, match="cannot be the name of a context"):
        Contexts().with_context(name, Context(bootstrap="h:1"))


def test_the_first_context_is_used_and_a_removed_one_is_not() -> None:
    contexts = Contexts().with_context("a", PROD).with_context("b", PROD)
    assert contexts.current == "a"
    assert contexts.with_current("b").current == "b"
    assert contexts.without("a") == Contexts(by_name={"b": PROD}, current=None)
    for change in (contexts.with_current, contexts.without, contexts.named):
        with pytest.raises(BadContexts, match="there is no context 'c' \\(a, b\\)"):
            change("c")


def test_the_folder_is_the_users() -> None:
    assert contexts_path({"KCOORD_CONFIG_DIR": "/k", "XDG_CONFIG_HOME": "/x"}) == Path("/k/contexts.toml")
    assert contexts_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/kcoord/contexts.toml")
    assert contexts_path({}) == Path.home() / ".config" / "kcoord" / "contexts.toml"
