"""Passwords from files, as options such as --password-file name them."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kcoord.client.secret import Secret


def password_in(content: bytes, *, option: str) -> "Secret":
    """The first line of a file that an option named. What is wrong with it is told without telling any of it."""
    from kcoord.client.secret import Secret

    try:
        return Secret(content.partition(b"\n")[0].rstrip(b"\r").decode())
    except UnicodeDecodeError:
        raise click.BadParameter("the password in it is not UTF-8 text", param_hint=option) from None
