"""Metrics of a server or a proxy, and the HTTP server from which Prometheus scrapes them.

    reasons     why connections are closed: the values of a label
    counts      counters, plain numbers that the hot path adds to
    catalogue   every metric family as data: name, kind, labels, meaning; a test compares docs/metrics.md with it
    collecting  turns samples into Prometheus's families when they are scraped
    listening   the endpoint of the HTTP server, and its socket
    http        /metrics, /healthz and /readyz, over bounded connections (http_connection); pages renders /metrics

This package knows nothing of the sources: server/ and proxy/ provide samples. Only collecting, http, http_connection
and pages import prometheus_client or aiohttp, and they are imported only with --metrics.
"""
