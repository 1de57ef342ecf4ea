"""Endpoints, the host and port of a listener, as text."""


def format_endpoint(host: str, port: int) -> str:
    """Formats host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
