"""`kcoord users`: edits the users who may log in to `serve` and `proxy`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from .options.password_files import password_in
from .output.output import Column, Table, echo_err, output_options, show

if TYPE_CHECKING:
    from kcoord.client.secret import Secret

_users_file = click.option(
    "--users", "path", required=True, metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="The file."
)


@click.group()
def users() -> None:
    """Who may log in to a listener with --sasl: names and SCRAM credentials in a file, never passwords.

    \b
    kcoord users add alice --users users.json
    kcoord serve --sasl SCRAM-SHA-512 --users users.json

    A server that runs takes changes up by itself, at the next login.
    """


@users.command("add", short_help="Add a user, or change a password.")
@click.argument("name")
@_users_file
@click.option(
    "--password-file",
    type=click.File("rb"),
    metavar="FILE",
    help="Its first line is the password; - is stdin. Otherwise it is asked for.",
)
@click.option(
    "--iterations",
    default=8192,
    show_default=True,
    type=click.IntRange(4096, 1_000_000),
    help="How hard guessing is, and how long each login takes.",
)
def add(name: str, path: Path, password_file: BinaryIO | None, iterations: int) -> None:
    """Add a user, or give one another password. The file is made if there is none, for its owner only.

    \b
    kcoord users add alice --users users.json
    kcoord users add alice --users users.json --password-file alice.txt
    pass show kafka/alice | kcoord users add alice --users users.json --password-file -
    """
    from kcoord.security.users import editing_users

    password = _password_of(name, password_file)
    with editing_users(path) as current:
        is_new = name not in current[0].by_name
        current[0] = current[0].with_user(name, password, iterations=iterations)
    echo_err(f"{'added' if is_new else 'changed'} {name} in {path}")


@users.command("remove", short_help="Remove users.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_users_file
def remove(names: tuple[str, ...], path: Path) -> None:
    """Remove users: all that are named, or none. Their connections stay until they end.

    \b
    kcoord users remove alice --users users.json
    """
    from kcoord.security.users import editing_users, read_users

    read_users(path)  # raises if the file does not exist
    with editing_users(path) as current:
        for name in names:
            current[0] = current[0].without(name)
    echo_err(f"removed {', '.join(names)} from {path}")


@users.command("list", short_help="Show the users.")
@_users_file
@output_options
@click.pass_context
def list_(ctx: click.Context, path: Path) -> None:
    """Show the users and how their passwords are kept.

    \b
    kcoord users list --users users.json
    """
    from kcoord.security.users import read_users

    found = sorted(read_users(path).by_name.items())
    rows = [(name, mechanism, made.iterations) for name, user in found for mechanism, made in user.items()]
    columns = [Column("USER"), Column("MECHANISM"), Column("ITERATIONS")]
    document = [
        {"name": name, "mechanisms": {each: made.iterations for each, made in user.items()}} for name, user in found
    ]
    if not rows:
        echo_err(f"there are no users in {path}: kcoord users add NAME makes one")
    show(ctx, "users", {"users": document}, [Table(columns=columns, rows=rows)])


def _password_of(name: str, file: BinaryIO | None) -> "Secret":
    from kcoord.client.secret import Secret

    if file is not None:
        return password_in(file.readline(), option="--password-file")
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask for the password: give --password-file FILE, - for stdin")
    return Secret(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))
