"""Significance tests between methods, effect sizes, and power for a number of seeds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
