"""Connections of the proxy's own to the brokers, and what it learns over them."""
