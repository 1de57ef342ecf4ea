"""The offsets of a group, of any kind: commit, fetch, delete, expire."""
