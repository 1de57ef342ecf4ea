"""A secret is shown to nobody by accident."""

import json
import pickle

import pytest

from kcoord.client.secret import Secret


def test_every_way_to_show_it_gives_stars() -> None:
    secret = Secret("hush")
    assert {repr(secret), str(secret), f"{secret}", f"{secret:>9}", format(secret), f"{[secret]}"[1:-1]} == {"***"}


def test_only_who_asks_gets_it() -> None:
    assert Secret("hush").reveal() == "hush"


def test_equal_secrets_are_equal_and_no_text_is() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


def test_it_does_not_get_into_files_by_way_of_json_or_pickle() -> None:
    with pytest.raises(TypeError):
        json.dumps({"password": Secret("hush")})
    with pytest.raises(TypeError):
        pickle.dumps(Secret("hush"))
