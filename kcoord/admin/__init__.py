"""Live clusters: how to connect to them, their groups and offsets."""
