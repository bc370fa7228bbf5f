"""Checks of custom layers: `check_layer`, its report and the list of checks."""
