"""Feature projection: removal of the features that do not help to classify (FP-Net).

Two branches read the same embedding. The main branch (P-net) has features `f_p`. The common branch
(C-net) has features `f_c`; its own classifier reads their direction through a reversed gradient, so
that they become useless for classification. The network classifies the part of `f_p` that is
orthogonal to `f_c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relation_tf.layers.base import BaseLayer
from relation_tf.layers.masking import to_float32


@keras.saving.register_keras_serializable(package="relation_tf")
class GradientReversal(BaseLayer):
    """Identity layer with a reversed gradient: forward `x`, backward `-weight * gradient`.

    Args:
        weight: Factor of the reversed gradient.
        **kwargs: Arguments of `keras.layers.Layer`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.feature_projection import GradientReversal
        >>> np.array(GradientReversal()(np.array([[1.0, 2.0]]))).tolist()
        [[1.0, 2.0]]

    References:
        Ganin and Lempitsky 2015, "Unsupervised Domain Adaptation by Backpropagation".
    """

    def __init__(self, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = weight

    def call(self, x: Any) -> Any:
        """Return `x`."""
        scaled = self.weight * x
        return ops.stop_gradient(x) + (ops.stop_gradient(scaled) - scaled)


@keras.saving.register_keras_serializable(package="relation_tf")
class OrthogonalProjection(BaseLayer):
    """Projection of features on the orthogonal complement of other features.

    `f_p* = (f_p . f_c / |f_c|^2) f_c` is the projection of `f_p` on `f_c`, and `f_p - f_p*` the
    output. The paper projects `f_p` on `f_p - f_p*` again, which does not change it. If `f_c` is
    zero, the output is `f_p`. Computed in float32 or wider.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        features: `f_p` and `f_c`, each `(batch, width)`.

    Returns:
        Tensor of shape `(batch, width)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.feature_projection import OrthogonalProjection
        >>> f_p, f_c = np.array([[3.0, 4.0]]), np.array([[2.0, 0.0]])
        >>> np.array(OrthogonalProjection()([f_p, f_c])).tolist()
        [[0.0, 4.0]]

    References:
        Qin, Hu and Liu 2020, "Feature Projection for Improved Text Classification" (ACL).
    """

    def call(self, features: Sequence[Any]) -> Any:
        """Return `f_p` without its part in the direction of `f_c`."""
        main, common = (to_float32(x) for x in features)
        common, square = _scaled(common)
        share = ops.sum(main * common, axis=-1, keepdims=True) / square
        return ops.cast(main - share * common, features[0].dtype)

    def compute_output_shape(self, shapes: Sequence[Any]) -> Any:
        """Return the shape of `f_p`."""
        return shapes[0]


def _scaled(x: Any) -> tuple[Any, Any]:
    """Return features divided by the largest one, and the sum of their squares.

    The caller's result must not depend on the length of the features. Features of any size then
    have squares; the sum is 1 for zeros.
    """
    longest = ops.stop_gradient(ops.max(ops.abs(x), axis=-1, keepdims=True))
    x = x / ops.where(longest > 0, longest, 1.0)
    square = ops.sum(ops.square(x), axis=-1, keepdims=True)
    # The square is at least 1 or 0. `maximum` would halve its gradient at 1 on JAX and PyTorch.
    return x, ops.where(square > 0, square, 1.0)


@keras.saving.register_keras_serializable(package="relation_tf")
class Direction(BaseLayer):
    """Layer that divides features by their Euclidean norm; zeros stay zeros.

    Keras's `UnitNormalization` has NaN gradients at zeros, and NaN outputs in float16.

    Call arguments:
        features: Tensor of shape `(batch, width)`.

    Returns:
        Tensor of shape `(batch, width)`.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks.feature_projection import Direction
        >>> [round(float(x), 1) for x in Direction()(np.array([[3.0, 4.0]]))[0]]
        [0.6, 0.8]
    """

    def call(self, features: Any) -> Any:
        """Return the features divided by their norm."""
        scaled, square = _scaled(to_float32(features))
        return ops.cast(scaled / ops.sqrt(square), features.dtype)

    def compute_output_shape(self, shape: Any) -> Any:
        """Return the shape of the features."""
        return shape


@keras.saving.register_keras_serializable(package="relation_tf")
class MainBranch(BaseLayer):
    """Layer that returns the first of two outputs; `training_branches` finds both.

    Call arguments:
        outputs: The outputs of the main and of the common branch.

    Returns:
        The output of the main branch.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"autocast": False, **kwargs})  # probabilities stay in float32

    def call(self, outputs: Sequence[Any]) -> Any:
        """Return the first output."""
        return outputs[0]

    def compute_output_shape(self, shapes: Sequence[Any]) -> Any:
        """Return the shape of the first output."""
        return shapes[0]


def projected_output(encoder: Any, texts: Sequence[Any], name: str, num_classes: int) -> Any:
    """Return the class probabilities from the projected features of texts.

    Args:
        encoder: The main branch, a `TextEncoder`; its `common` encoder is the other branch.
        texts: One text or a pair.
        name: Name of the output layer.
        num_classes: Number of classes.
    """
    main, common = encoder.features(texts), encoder.common.features(texts)
    projected = OrthogonalProjection(name=f"{name}_projection")([main, common])
    output = encoder.output_layer(name, num_classes)(encoder.before_output(projected))
    # Only the direction of f_c matters to the projection. With features of any length the reversed
    # gradient would increase the loss of the common classifier without limit.
    direction = Direction(name=f"{name}_direction")(common)
    reversed_ = GradientReversal(encoder.config.reversal_weight, name=f"{name}_reversal")(direction)
    common_output = encoder.output_layer(f"common_{name}", num_classes)(
        encoder.common.before_output(reversed_)
    )
    return MainBranch(name=f"{name}_branches")([output, common_output])


def training_branches(model: keras.Model) -> keras.Model | None:
    """Return a model of both branches for training, or None without feature projection.

    Both share their layers with the network, which outputs only the main branch. The training loss
    is the sum of the classification losses of both outputs.

    Args:
        model: A network of one task, as from `sequence_classifier`.

    Returns:
        A model from the inputs of the network to the probabilities of both branches.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import sequence_classifier, training_branches
        >>> model = sequence_classifier("fcsr", 1000, 2, feature_projection=True)
        >>> both = training_branches(model)
        >>> both.compile(loss="sparse_categorical_crossentropy")
        >>> ids, labels = np.array([[5, 8, 13], [5, 2, 0]]), np.array([0, 1])
        >>> history = both.fit(ids, [labels, labels], verbose=0)
        >>> model(ids).shape == (2, 2)
        True
    """
    for layer in model.layers:
        if isinstance(layer, MainBranch):
            return keras.Model(model.input, layer.input)
    return None
