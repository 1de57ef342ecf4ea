"""The response cache: frames that a connection can answer without deciding them again, and their invalidation."""
