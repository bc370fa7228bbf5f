"""Checks of a custom layer: `check_layer`, its report and the table of checks."""
