"""Forwards frames between a client's connection and its broker connection, and rewrites broker addresses in answers."""
