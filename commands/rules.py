"""`kcoord rules`: checks a file of authorization rules, and shows what it allows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .output.output import Column, Table, echo_err, output_options, show

if TYPE_CHECKING:
    from kcoord.security.rules import Kind, Rules

_COLUMNS: Final = [Column("OPERATION"), Column("ALLOWED"), Column("LINE"), Column("RULE")]
_NO_RULE: Final = "no rule allows it"


@click.group()
def rules() -> None:
    """Who may do what with which groups and topics of `kcoord serve --rules FILE`.

    \b
    kcoord rules check --rules rules.txt
    kcoord rules check --rules rules.txt --principal User:alice --group orders
    """


@rules.command("check", short_help="Whether a file is sound, and what it allows to whom.")
@click.option(
    "--rules",
    "path",
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file.",
)
@click.option("--principal", metavar="User:NAME", help="Who asks.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where from.")
@click.option("--operation", metavar="OPERATION", help="The operation, such as read; all of them by default.")
@click.option("--topic", metavar="NAME", help="Of which topic.")
@click.option("--group", metavar="NAME", help="Of which group.")
@click.option("--cluster", is_flag=True, help="Of the cluster.")
@output_options
@click.pass_context
def check(
    ctx: click.Context,
    path: Path,
    principal: str | None,
    host: str,
    operation: str | None,
    topic: str | None,
    group: str | None,
    cluster: bool,
) -> None:
    """Say whether a file of rules can be used; with a principal, what it may do, and which line says so.

    \b
    kcoord rules check --rules rules.txt
    kcoord rules check --rules rules.txt --principal User:alice --operation read --group orders
    kcoord rules check --rules rules.txt --principal User:alice --topic orders

    Exit 1 if the operation that was asked for is denied.
    """
    from kcoord.security.rules_file import read_rules, rules_text

    text = rules_text(path)
    found = read_rules(text, str(path))
    if principal is None:
        if operation or topic or group or cluster:
            raise click.UsageError("whose rights? Give --principal User:NAME")
        echo_err(f"{path} is sound: rules {len(found.rules)}, super users {len(found.super_users)}")
        return
    kind, name = _resource(topic, group, cluster)
    decisions = _decisions(found, text, _principal(principal), _host(host), operation, kind, name)
    rows = [tuple(verdict.values()) for verdict in decisions]
    resource = {"principal": principal, "host": host, "resource": kind.name.lower(), "name": name}
    table = Table(columns=_COLUMNS, rows=[(each, "yes" if may else "no", line, rule) for each, may, line, rule in rows])
    show(ctx, "rules", {**resource, "operations": decisions}, [table])
    if operation and not decisions[0]["allowed"]:
        ctx.exit(1)


def _principal(text: str) -> str:
    if not text.startswith("User:") or text == "User:":
        raise click.BadParameter(f"{text!r} is not User:NAME", param_hint="--principal")
    return text


def _host(text: str) -> str:
    from kcoord.security.rules_file import address_of

    try:
        return address_of(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no address", param_hint="--host") from None


def _resource(topic: str | None, group: str | None, cluster: bool) -> "tuple[Kind, str]":
    from kcoord.security.rules import CLUSTER_NAME, Kind

    if (topic is not None) + (group is not None) + cluster != 1:
        raise click.UsageError("of what? Give one of --topic NAME, --group NAME and --cluster")
    if topic is not None:
        return Kind.TOPIC, topic
    return (Kind.GROUP, group) if group is not None else (Kind.CLUSTER, CLUSTER_NAME)


def _decisions(
    found: "Rules", text: str, principal: str, host: str, operation: str | None, kind: "Kind", name: str
) -> list[dict[str, Any]]:
    from kcoord.security.rules_file import BadRules, operation_named, possible_operations, word_of

    possible = possible_operations(kind)
    try:
        asked = [operation_named(operation)] if operation else possible
    except BadRules as error:
        raise click.BadParameter(str(error), param_hint="--operation") from None
    if asked[0] not in possible:
        listed = ", ".join(map(word_of, possible))
        raise click.BadParameter(
            f"{operation} means nothing of a {kind.name.lower()}; there are {listed}", param_hint="--operation"
        )
    rights, lines = found.rights_of(principal, host), text.split("\n")
    decisions = []
    for each in asked:
        is_allowed, line = rights.verdict(each, kind, name)
        rule = lines[line - 1].strip() if line else _NO_RULE
        decisions.append({"operation": word_of(each), "allowed": is_allowed, "line": line, "rule": rule})
    return decisions
