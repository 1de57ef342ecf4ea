"""`kcoord proxy`: runs a proxy in front of a real cluster until it is stopped."""

import gc
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .options.guard_options import guard_options
from .options.listen_options import advertised_host, host_and_port
from .options.listener_options import ListenerOptions, listener_of, listener_options
from .options.local_options import LocalOptions, local_options, local_setup
from .options.metrics_options import metrics_options, metrics_socket, metrics_url
from .options.proxy_settings import listener_settings
from .output.output import echo_err

if TYPE_CHECKING:
    from socket import socket

    from kcoord.admin.connecting.connection import Connection
    from kcoord.metrics.listening import Endpoint
    from kcoord.proxy.guards.guard_rules import GuardRules
    from kcoord.proxy.local.coordination import LocalSetup
    from kcoord.proxy.proxy import Proxy
    from kcoord.proxy.setup import ProxySetup

_LAST_PORT: Final = 65535
_MAX_IDS_PER_RANGE: Final = 1000


@click.command()
@click.option("--upstream", metavar="HOST:PORT,…", help="Brokers of the cluster to begin with; a few are enough.")
@click.option(
    "--upstream-config",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Java's client.properties for the connections to the cluster: security, JAAS, stores, bootstrap.servers.",
)
@click.option(
    "--listen",
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="Where clients begin. Port 0: a free one.",
)
@click.option(
    "--port-base",
    type=click.IntRange(0, _LAST_PORT),
    metavar="PORT",
    help="The port of broker 0; broker 7 has this + 7. By default the one after --listen's. 0: free ports.",
)
@click.option(
    "--broker-ids",
    metavar="IDS",
    help="Have the ports of these brokers from the start, such as 1-3,7. For clients that log in at the brokers.",
)
@click.option("--advertise", metavar="HOST", help="The host in Metadata answers, if clients reach it by another.")
@click.option(
    "--sni",
    metavar="DOMAIN",
    help="With TLS: one port for all; broker 7 is b7.DOMAIN, for which the certificate has to be good, too.",
)
@click.option("--wait", "waits", is_flag=True, help="Wait for a cluster that cannot be reached yet.")
@listener_options
@metrics_options
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How it says that it is ready."
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@guard_options
@local_options
def proxy(
    upstream: str | None,
    upstream_config: Path | None,
    listen: str,
    port_base: int | None,
    broker_ids: str | None,
    advertise: str | None,
    sni: str | None,
    waits: bool,
    listener: ListenerOptions,
    metrics: "Endpoint | None",
    output: str,
    verbose: bool,
    guards: "GuardRules",
    local: LocalOptions | None,
    of_listeners: dict[str, str],
) -> None:
    """Stand between clients and a real cluster: they see it at this address.

    Every broker has a port here, by its id. Requests and answers pass as they are, but for the addresses in them.

    \b
    kcoord proxy --upstream broker1:9092,broker2:9092
    kcoord proxy --upstream broker1:9092 --listen 0.0.0.0:9092 --advertise proxy.example
    kcoord proxy --upstream-config client.properties --listen 127.0.0.1:0 --port-base 0 -o json
    kcoord proxy --upstream broker1:9092 --tls-cert proxy.pem --sni kafka.example --listen 0.0.0.0:9093
    kcoord proxy --upstream broker1:9092 --read-only --allow OffsetCommit:reports-.*
    kcoord proxy --upstream broker1:9092 --coordinate local --journal kafka --seed 'payments.*'
    kcoord proxy --upstream broker1:9092 --metrics 0.0.0.0:9464 --set max.connections.per.ip=100

    Ctrl-C stops it.
    """
    gc.disable()  # until it serves (server/process.py), since imports allocate much and free little
    from kcoord.proxy.rewriting.endpoints import Endpoint  # imported here, since --help and usage errors need no proxy
    from kcoord.proxy.setup import ProxySetup

    host, port = host_and_port(listen)
    connection = _upstream(upstream, upstream_config)
    setup = ProxySetup(
        upstream=tuple(Endpoint(*_host_and_port(each)) for each in connection.bootstrap),
        security=connection.security,
        client_id=connection.client_id,
        host=host,
        port=port,
        port_base=_port_base(port, port_base, sni),
        broker_ids=_parse_broker_ids(broker_ids),
        advertised_host=advertised_host(host, advertise),
        sni_domain=_parse_sni_domain(sni, listener),
        listener=listener_of(listener, host),
        settings=listener_settings(of_listeners),
        waits_for_upstream=waits,
    )

    guards = replace(guards, groups_are_local=local is not None)
    coordinate = local_setup(local, connection) if local else None
    with metrics_socket(metrics) as listening:
        format_ready = _json if output == "json" else _text

        def ready(started: "Proxy") -> None:
            click.echo(format_ready(started, metrics_url(listening)))

        _run_proxy(setup, ready, guards, coordinate, listening, verbose=verbose)


def _run_proxy(
    setup: "ProxySetup",
    ready: Callable[["Proxy"], None],
    rules: "GuardRules",
    coordinate: "LocalSetup | None",
    metrics: "socket | None",
    *,
    verbose: bool,
) -> None:
    from kcoord.proxy.guards.wiring import make_guards
    from kcoord.proxy.main import run

    guards = make_guards(rules)
    if coordinate:
        from kcoord.proxy.local.wiring import with_hidden_journal

        coordinate, hiding = with_hidden_journal(coordinate)
        guards = guards._replace(journal=hiding)
    factories = guards.interceptor_factories()
    if metrics is not None:
        from kcoord.proxy.metrics_source import ProxyMetrics  # only with --metrics, since aiohttp is slow to import

        proxy_metrics = ProxyMetrics(metrics, guards)
        factories.append(proxy_metrics.coordination(coordinate) if coordinate else proxy_metrics.commit_counter())
        run(
            setup,
            ready,
            factories=factories,
            metrics=proxy_metrics.counters,
            outer=proxy_metrics.metrics_server,
            verbose=verbose,
        )
        return
    if coordinate:
        from kcoord.proxy.local.wiring import local_coordination

        factories.append(local_coordination(coordinate))
    run(setup, ready, factories=factories, verbose=verbose)


def _upstream(upstream: str | None, config: Path | None) -> "Connection":
    from kcoord.admin.connecting.client_settings import BadConnection
    from kcoord.admin.connecting.connection import ConnectionOptions, NoCluster, resolve_connection

    try:
        # The command line alone names the upstream, so KCOORD_* variables are ignored. The file may refer to others.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KCOORD_")}
        given = ConnectionOptions(
            bootstrap=upstream,
            command_config=config,
            may_be_current_context=False,
            bootstrap_option="--upstream",
            config_option="--upstream-config",
        )
        connection = resolve_connection(given, environment)
    except NoCluster:
        raise click.UsageError(
            "which cluster? Say --upstream HOST:PORT, or --upstream-config FILE with bootstrap.servers in it"
        ) from None
    except BadConnection as error:
        raise click.UsageError(str(error)) from None
    if connection.needs_librdkafka:
        raise click.UsageError(f"the proxy cannot log in upstream with {connection.needs_librdkafka}")
    for warning in connection.warnings:
        echo_err(f"kcoord: {warning}")
    return connection


def _host_and_port(text: str) -> tuple[str, int]:
    from kcoord.admin.connecting.connection import host_and_port

    return host_and_port(text, "--upstream")


def _port_base(port: int, port_base: int | None, sni: str | None) -> int:
    if port_base is not None:
        return port_base
    if port == 0 or sni is not None:
        return 0
    if port == _LAST_PORT:
        raise click.BadParameter(
            f"there is no port behind {port} for brokers: say another, or --port-base", param_hint="--listen"
        )
    return port + 1


def _parse_broker_ids(text: str | None) -> tuple[int, ...]:
    ids: list[int] = []
    for part in text.split(",") if text else ():
        found = re.fullmatch(r"\s*(\d{1,10})(?:-(\d{1,10}))?\s*", part)
        if not found or int(found[2] or found[1]) - int(found[1]) not in range(_MAX_IDS_PER_RANGE):
            raise click.BadParameter(
                f"{part!r} is no broker's id, nor a range of them like 1-3", param_hint="--broker-ids"
            )
        ids += range(int(found[1]), int(found[2] or found[1]) + 1)
    return tuple(dict.fromkeys(ids))


def _parse_sni_domain(sni: str | None, listener: ListenerOptions) -> str | None:
    if sni is None:
        return None
    if listener.tls_cert is None and listener.tls_keystore is None:
        raise click.UsageError("--sni tells brokers apart by the names in TLS: give --tls-cert or --tls-keystore")
    domain = sni.strip(".").lower()
    if not domain or any(not part.isascii() or not part for part in domain.split(".")) or ":" in domain:
        raise click.BadParameter(f"{sni!r} is no domain", param_hint="--sni")
    return domain


def _json(started: "Proxy", metrics: str | None) -> str:
    import json

    facts = {"bootstrap": started.bootstrap, "upstream": ",".join(map(str, started.setup.upstream)), "pid": os.getpid()}
    return json.dumps({"kcoord": "proxy/v1", **facts, **({"metrics": metrics} if metrics else {})})


def _text(started: "Proxy", metrics: str | None) -> str:
    lines = [f"bootstrap   {started.bootstrap}", f"upstream    {','.join(map(str, started.setup.upstream))}"]
    lines += [f"metrics     {metrics}"] if metrics else []
    lines += [
        f"broker {node_id:<4} {started.endpoint_of(node_id)} is {started.brokers.endpoint(node_id)}"
        for node_id in started.brokers.known
    ]
    return "\n".join([*lines, "Ctrl-C stops it."])
