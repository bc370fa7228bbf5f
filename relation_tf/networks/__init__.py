"""Keras models for a sequence or a pair of sequences with any token-mixing mechanism."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
