"""The charts of the report, as SVG."""
