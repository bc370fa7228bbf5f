"""Token-mixing layers for Keras 3 on `keras.ops`, for TensorFlow, JAX and PyTorch."""

import lazy_loader

from relation_tf.terminal import start_quietly

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = start_quietly(__getattr__)
