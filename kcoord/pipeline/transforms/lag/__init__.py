"""The table `lag`, and findings in lag."""
