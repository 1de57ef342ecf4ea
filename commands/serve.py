"""`kcoord serve`: runs the embedded cluster until it is stopped."""

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcoord.java_properties import BadProperties, read_properties
from kcoord.settings import BadSetting, Settings, known_settings

from .options.listen_options import advertised_host, host_and_port
from .options.listener_options import ListenerOptions, listener_of, listener_options
from .options.metrics_options import metrics_options, metrics_socket, metrics_url
from .options.rules_options import rules_options, warn_if_nobody_logs_in

if TYPE_CHECKING:
    from kcoord.metrics.listening import Endpoint
    from kcoord.server.runtime import Runtime


@click.command()
@click.option("--listen", default="127.0.0.1:9092", show_default=True, metavar="HOST:PORT", help="Port 0: free ports.")
@click.option("--advertise", metavar="HOST", help="The host in Metadata answers, if clients reach it by another.")
@click.option("--brokers", default=1, show_default=True, type=click.IntRange(1, 100), help="On consecutive ports.")
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep topics and groups in this folder: kcoord's own, or a copy of a broker's log.dirs.",
)
@click.option("--fsync", is_flag=True, help="With --data-dir: answer only when the disk has it.")
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="Make a topic. May be repeated.")
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A setting, by Kafka's name. May be repeated."
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A properties file; what kcoord does not know in it is named and left aside.",
)
@listener_options
@rules_options
@metrics_options
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How it says that it is ready."
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@click.option("--settings", "shows_settings", is_flag=True, help="List the settings, then exit.")
def serve(
    listen: str,
    advertise: str | None,
    brokers: int,
    data_dir: Path | None,
    fsync: bool,
    topics: tuple[str, ...],
    pairs: tuple[str, ...],
    config: Path | None,
    listener: ListenerOptions,
    rules: Path | None,
    metrics: "Endpoint | None",
    output: str,
    verbose: bool,
    shows_settings: bool,
) -> None:
    """A local cluster in one process that Kafka's clients use as if it were Kafka.

    Records and groups go when it ends, unless --data-dir says where to keep them.

    \b
    kcoord serve --topic orders:3
    kcoord serve --listen 127.0.0.1:0 --brokers 3 -o json
    kcoord serve --data-dir data --topic orders:3
    kcoord serve --set auto.create.topics.enable=false --set num.partitions=6
    kcoord serve --tls-cert server.pem --sasl SCRAM-SHA-512 --users users.json
    kcoord serve --sasl SCRAM-SHA-512 --users users.json --rules rules.txt
    kcoord serve --metrics 127.0.0.1:9464

    Ctrl-C stops it.
    """
    if shows_settings:
        _show_settings()
        return
    if fsync and data_dir is None:
        raise click.UsageError("--fsync is about the files of --data-dir DIR")
    gc.disable()  # until it serves (server/main.py), since imports allocate much and free little
    from kcoord.server.main import run  # imported here, since --help and usage errors need no server
    from kcoord.server.setup import Setup

    host, port = host_and_port(listen)
    setup = Setup(
        host=host,
        port=port,
        advertised_host=advertised_host(host, advertise),
        brokers=brokers,
        topics=tuple(map(_parse_topic, topics)),
        settings=_settings(pairs, config, data_dir),
        data_dir=data_dir,
        fsync=fsync,
        listener=listener_of(listener, host),
        rules=rules,
    )
    warn_if_nobody_logs_in(rules, setup.listener)

    with metrics_socket(metrics) as listening:
        format_ready = _json if output == "json" else _text

        def ready(runtime: "Runtime") -> None:
            click.echo(format_ready(runtime, metrics_url(listening)))

        run(setup, ready, verbose=verbose, metrics=listening)


def _json(runtime: "Runtime", metrics: str | None) -> str:
    import json

    facts = {"bootstrap": runtime.bootstrap, "cluster_id": runtime.cluster.cluster_id, "pid": os.getpid()}
    return json.dumps({"kcoord": "serve/v1", **facts, **({"metrics": metrics} if metrics else {})})


def _text(runtime: "Runtime", metrics: str | None) -> str:
    lines = [f"bootstrap   {runtime.bootstrap}", f"cluster id  {runtime.cluster.cluster_id}"]
    lines += [f"metrics     {metrics}"] if metrics else []
    topics = runtime.cluster.topics.values()
    lines += [f"topic       {topic.name}: {_partitions(len(topic.partitions))}" for topic in topics]
    return "\n".join([*lines, "Ctrl-C stops it."])


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _parse_topic(text: str) -> tuple[str, int | None]:
    name, _, partitions = text.partition(":")
    if partitions and not partitions.isdecimal():
        raise click.BadParameter(f"{text!r} is not NAME or NAME:PARTITIONS", param_hint="--topic")
    if partitions and int(partitions) == 0:
        raise click.BadParameter(f"{text!r}: a topic has at least 1 partition", param_hint="--topic")
    return name, int(partitions) if partitions else None


def _settings(pairs: tuple[str, ...], config: Path | None, data_dir: Path | None) -> Settings:
    from kcoord.server.setup import settings_of

    properties = _read_known_settings(config) if config else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--set")
        properties[name.strip()] = value.strip()
    try:
        return settings_of(properties, data_dir)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None


def _read_known_settings(config: Path) -> dict[str, str]:
    """Reads a properties file. A broker's file has many settings that kcoord does not know; these are reported, not
    refused."""
    try:
        properties = read_properties(config.read_text())
    except UnicodeDecodeError:
        raise click.BadParameter(f"{config.name} is not a text file", param_hint="--config") from None
    except BadProperties as error:
        raise click.BadParameter(f"{config.name}, {error}", param_hint="--config") from None
    unknown = [name for name in properties if name not in known_settings()]
    if unknown:
        click.echo(f"kcoord: left aside from {config.name}: {', '.join(unknown)}", err=True)
    return {name: value.strip() for name, value in properties.items() if name not in unknown}


def _show_settings() -> None:
    values = Settings().by_name()
    width = max(map(len, values))
    for name, about in known_settings().items():
        value = values[name]
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        click.echo(f"{name:{width}}  {shown:>12}  {about}")
