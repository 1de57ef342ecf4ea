"""`kcoord completion`, and the names that a shell completes."""
