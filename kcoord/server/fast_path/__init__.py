"""Answers that are remembered: what a connection can answer without deciding it again, and when that stops."""
