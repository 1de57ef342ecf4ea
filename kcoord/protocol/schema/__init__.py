"""Schemas of messages as data, for APIs that kio imports too slowly, and the readers and writers made from them."""
