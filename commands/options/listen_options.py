"""The options --listen and --advertise of commands that serve clients."""

import click


def host_and_port(listen: str) -> tuple[str, int]:
    """Parses the HOST:PORT of --listen. Raises BadParameter."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or "//" in host:
        raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    if int(port) > 65535:
        raise click.BadParameter(f"port {port} is above 65535", param_hint="--listen")
    return host.strip("[]"), int(port)


def advertised_host(host: str, advertise: str | None) -> str | None:
    """Returns the host that the brokers of Metadata responses have, by --listen and --advertise, or None if it is the
    host that is listened on. Raises UsageError for 0.0.0.0, to which no client can connect."""
    advertised = (advertise or host).strip("[]")
    if advertised in ("0.0.0.0", "::"):  # noqa: S104 - it is refused
        raise click.UsageError(
            f"clients cannot connect to {advertised!r}: give a host that they can reach by --advertise HOST"
        )
    if advertised.count(":") == 1:
        raise click.BadParameter(
            f"{advertised!r} is not a host; the port is that of --listen", param_hint="--advertise"
        )
    return advertised if advertise else None
