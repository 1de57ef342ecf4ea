"""Passwords from files that options such as --password-file name."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kcoord.client.secret import Secret


def password_in(content: bytes, *, option: str) -> "Secret":
    """Returns the first line of a password file's content as the password. `option` names the file in errors, which
    never show any of its content."""
    from kcoord.client.secret import Secret

    try:
        return Secret(content.partition(b"\n")[0].rstrip(b"\r").decode())
    except UnicodeDecodeError:
        raise click.BadParameter("the password in it is not UTF-8 text", param_hint=option) from None
