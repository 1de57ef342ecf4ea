"""Sockets that accept clients: how many, over TLS or not, and the login before a client may send requests."""
