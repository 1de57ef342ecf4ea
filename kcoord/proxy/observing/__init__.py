"""Interceptors that only observe groups and commits in forwarded requests and responses."""
