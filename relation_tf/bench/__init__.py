"""How methods are compared: suites, runs, their folder and what they gave."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
