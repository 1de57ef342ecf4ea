"""What a running cluster counts about itself for `--metrics`. Without that option nothing here is imported."""
