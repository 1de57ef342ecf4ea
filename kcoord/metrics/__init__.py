"""What is counted of a server or a proxy, and how it is told to Prometheus.

    reasons     why connections end: the words that labels may have
    counts      plain numbers, as cheap as can be: what the hot path adds to
    catalogue   every family of metrics as data: name, kind, labels, meaning; docs/metrics.md is held against it
    collecting  samples into Prometheus' families, when they are asked for
    http        /metrics, /healthz and /readyz; over connections with bounds (http_connection), and the pages made in
                turn (pages)

Nothing is known here of who counts: server/ and upstream/ give samples. prometheus_client and aiohttp are imported by
collecting and http with its two alone, and these by nobody who was not told --metrics.
"""
