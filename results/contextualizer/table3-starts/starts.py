"""Contextualizers with other uses of the uniform initial context."""

from typing import Any

import keras
from keras import ops

from relation_tf.layers import Contextualizer
from relation_tf.registry import register_mechanism

_READ = {"output_type": "vector", "head": "vector", "positions": "softmax", "size": "rank"}


@register_mechanism("one-fixed-start", **_READ)
@keras.saving.register_keras_serializable(package="starts")
class FixedStart(Contextualizer):
    """Contextualizer with one uniform initial context for all documents, not trained."""

    trained = False

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        """Create the weights and draw the initial context."""
        initializer = keras.initializers.RandomUniform(-1.0, 1.0)
        self.drawn = self.add_weight(
            name="drawn", shape=(x_shape[-1],), initializer=initializer, trainable=self.trained
        )
        super().build(x_shape)

    def _start(self, x: Any) -> Any:
        """Return the initial context, `(1, width)`."""
        return self.drawn[None]


@register_mechanism("one-trained-start", **_READ)
@keras.saving.register_keras_serializable(package="starts")
class TrainedStart(FixedStart):
    """Contextualizer with one uniform initial context for all documents, which is trained."""

    trained = True


@register_mechanism("start-of-batch", **_READ)
@keras.saving.register_keras_serializable(package="starts")
class BatchStart(Contextualizer):
    """Contextualizer with a new uniform initial context for each batch."""

    def __init__(self, rank: int, **kwargs: Any) -> None:
        super().__init__(rank, **{**kwargs, "initial_context": "uniform"})

    def _start(self, x: Any) -> Any:
        """Return the initial context, `(1, width)`."""
        return keras.random.uniform((1, x.shape[-1]), -1.0, 1.0, seed=self.seed_generator)


@register_mechanism("start-in-training", **_READ)
@keras.saving.register_keras_serializable(package="starts")
class TrainingStart(Contextualizer):
    """Contextualizer with a uniform initial context in training, and its mean, 0, in inference."""

    def __init__(self, rank: int, **kwargs: Any) -> None:
        super().__init__(rank, **{**kwargs, "initial_context": "uniform"})

    def call(self, x: Any, mask: Any = None, training: bool = False) -> Any:
        """Return the refined context."""
        self.training = training
        return super().call(x, mask=mask)

    def _start(self, x: Any) -> Any:
        """Return the initial context, `(batch, width)`."""
        start = super()._start(x)
        return start if self.training else ops.zeros_like(start)


@register_mechanism("no-positions", **{**_READ, "positions": None})
def without_positions(**options: Any) -> Contextualizer:
    """Return a Contextualizer for tokens without positions."""
    return Contextualizer(**options)
