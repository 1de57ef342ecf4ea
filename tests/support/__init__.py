"""Helpers that the tests of several folders use; those of one folder are next to its tests."""
