"""How results are shown: a report as one HTML page, Markdown and CSV tables. Free of Keras."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
