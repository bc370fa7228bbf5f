"""Significance tests between methods, effect sizes, and power for a number of seeds."""

import lazy_loader

__getattr__, _, _names = lazy_loader.attach_stub(__name__, __file__)

# Results are what functions return: they come last, and `dir`, which sorts them first, omits them.
__all__ = sorted(_names, key=str.swapcase)


def __dir__() -> list[str]:
    return [name for name in __all__ if name.islower()]
