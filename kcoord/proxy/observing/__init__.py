"""Interceptors that only observe: groups and commits as requests and responses pass by."""
