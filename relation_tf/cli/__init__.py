"""The command `relation-tf`. Commands import what they need when they run: help is quick."""

from relation_tf.cli import listing, reports, runs  # noqa: F401  # they register the commands
from relation_tf.cli.application import app, main

__all__ = ["app", "main"]
