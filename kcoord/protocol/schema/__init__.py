"""Schemas of messages as data, for what kio brings too slowly, and the readers and writers made from them."""
