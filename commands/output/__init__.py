"""Output of commands: tables, JSON, YAML, CSV, progress, and text that is safe for a terminal."""
