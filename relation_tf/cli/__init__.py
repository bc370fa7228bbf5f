"""The command `relation-tf`. Commands import their dependencies late, so that `--help` is fast."""

from relation_tf.cli import listing, reports, runs  # noqa: F401  # they register the commands
from relation_tf.cli.application import app, main

__all__ = ["app", "main"]
