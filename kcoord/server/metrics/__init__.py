"""Instrumentation of a running cluster for `--metrics`. Without that option nothing here is imported."""
