"""What results mean: tests between methods, effect sizes, and what a number of seeds can show."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
