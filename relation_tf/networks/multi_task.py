"""Multi-task networks with shared and private layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import keras
from keras import ops

from relation_tf.layers.arguments import non_negative_number, one_of
from relation_tf.layers.base import BaseLayer
from relation_tf.networks.classifiers import TextEncoder
from relation_tf.networks.config import NetworkConfig, configured
from relation_tf.networks.feature_projection import GradientReversal
from relation_tf.networks.mechanisms import Sharing


class TaskHead(NamedTuple):
    """Inputs and outputs of a task.

    Attributes:
        name: Name of the task.
        inputs: 1 for one text, 2 for a pair.
        num_classes: Number of classes, or None for a score in [0, 1].
    """

    name: str
    inputs: int = 1
    num_classes: int | None = 2


def multi_task_networks(
    mechanism: Any,
    vocabulary_size: int,
    heads: Sequence[TaskHead],
    sharing: Sharing = "shared",
    config: NetworkConfig | None = None,
    *,
    adversary_weight: float = 0.05,
    orthogonality_weight: float = 0.01,
    **changes: Any,
) -> list[keras.Model]:
    """Build one network per task, with shared layers and variables.

    `E` is the embedding, `s` the shared encoder (the mechanism and, in the benchmark network, its
    hidden Dense layer), `p_k` a private encoder of task k. The output of task k is
    `softmax(W_k v + b_k)` with:

    - `"shared"`: `v = s(E(x))`;
    - `"shared-private"`: `v = [s(E(x)), p_k(E(x))]`;
    - `"adversarial"`: the same `v`, with two additional training losses. The first is the loss of a
      discriminator of tasks, `adversary_weight * cross_entropy(softmax(U s + c), k)`, with a
      reversed gradient for `s`. The second is `orthogonality_weight * mean((S^T P)^2)`; the rows of
      `S` and `P` are the shared and private vectors of a batch, centred and scaled to length 1;
    - `"single-channel"`: as `"shared"`, with `s` and `E` frozen: their weights are those of other
      tasks, see `frozen_layers`;
    - `"bi-channel"`: as `"shared-private"`, with `s` and `E` frozen.

    `feature_projection=True` needs `"shared"`: the tasks share both branches.

    Args:
        mechanism: As in `sequence_classifier`.
        vocabulary_size: Number of token ids, including 0 (padding), shared by all tasks.
        heads: The tasks.
        sharing: One of the names above.
        config: Settings of the networks, with `contextual=None`. Default: `NetworkConfig()`.
        adversary_weight: Weight of the discriminator's loss.
        orthogonality_weight: Weight of the orthogonality penalty.
        **changes: Fields of `NetworkConfig`; they override `config`.

    Returns:
        A model per task, as from `sequence_classifier`, `pair_classifier` or `pair_regressor`.

    Raises:
        ValueError: If an argument is invalid.

    Example:
        >>> import numpy as np
        >>> from relation_tf.networks import TaskHead, multi_task_networks
        >>> tasks = [TaskHead("books"), TaskHead("entailment", inputs=2, num_classes=3)]
        >>> books, entailment = multi_task_networks("relation", 1000, tasks, "shared-private")
        >>> ids = np.array([[5, 8, 13, 0]])
        >>> books(ids).shape == (1, 2), entailment([ids, ids]).shape == (1, 3)
        (True, True)

    References:
        Liu, Qiu and Huang 2017, "Adversarial Multi-task Learning for Text Classification" (ACL),
        with the channels in section 5.5; the penalty has the form of Bousmalis et al. 2016,
        "Domain Separation Networks".
    """
    one_of("sharing", sharing, get_args(Sharing))
    names = [head.name for head in heads]
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"`heads` must have one or more tasks, without repetition. Received: {names}"
        )
    non_negative_number("adversary_weight", adversary_weight)
    non_negative_number("orthogonality_weight", orthogonality_weight)
    config = configured(config, changes)
    if config.contextual is not None:
        raise ValueError(
            "`contextual` must be None for several tasks. "
            f"Received: contextual={config.contextual.name!r}"
        )
    if config.feature_projection and sharing != "shared":
        raise ValueError(
            "`feature_projection` must be False with private or frozen layers. "
            f"Received: feature_projection=True, sharing={sharing!r}"
        )
    shared = TextEncoder(mechanism, vocabulary_size, config)
    discriminator = shared.dense("discriminator", len(heads))
    models = []
    for number, head in enumerate(heads):
        texts = shared.inputs(head.inputs, f"_{head.name}")
        name = f"output_{head.name}"
        if sharing in ("shared", "single-channel"):
            outputs = shared.outputs(texts, name, head.num_classes)
        else:
            vector = shared.vector(texts)
            private = TextEncoder(
                mechanism,
                vocabulary_size,
                config,
                prefix=f"{head.name}_",
                embedding=shared.embedding,
            ).vector(texts)
            if sharing == "adversarial":
                logits = discriminator(GradientReversal(name=f"{head.name}_reversal")(vector))
                adversary = TaskAdversary(number, adversary_weight, name=f"{head.name}_adversary")
                penalty = Orthogonality(orthogonality_weight, name=f"{head.name}_orthogonality")
                vector = penalty([adversary([vector, logits]), private])
            vector = keras.layers.Concatenate(name=f"{head.name}_vector")([vector, private])
            outputs = shared.output_layer(name, head.num_classes)(vector)
        models.append(keras.Model(texts[0] if len(texts) == 1 else texts, outputs))
    if sharing in ("single-channel", "bi-channel"):
        for layer in (*vars(shared).values(), *shared.layers.values()):
            if isinstance(layer, keras.layers.Layer):
                layer.trainable = False
    return models


def frozen_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Return the layers with frozen weights, such as those of `"single-channel"`.

    Example:
        >>> from relation_tf.networks import TaskHead, multi_task_networks
        >>> others = [TaskHead("books"), TaskHead("music")]
        >>> source, _ = multi_task_networks("relation", 1000, others, "adversarial")
        >>> (toys,) = multi_task_networks("relation", 1000, [TaskHead("toys")], "single-channel")
        >>> for layer in frozen_layers(toys):
        ...     layer.set_weights(source.get_layer(layer.name).get_weights())
        >>> [layer.name for layer in frozen_layers(toys)]
        ['embedding', 'mechanism', 'hidden']
    """
    return [layer for layer in model.layers if layer.weights and not layer.trainable]


def as_one(models: Sequence[keras.Model]) -> keras.Model:
    """Combine the networks of several tasks in one model with all inputs, outputs and weights."""
    if len(models) == 1:
        return models[0]
    return keras.Model([model.inputs for model in models], [model.output for model in models])


class _Penalty(BaseLayer):
    """Base class of layers that return the first of two tensors and add a training loss of both."""

    def __init__(self, weight: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = weight


@keras.saving.register_keras_serializable(package="relation_tf")
class TaskAdversary(_Penalty):
    """Identity layer that adds the loss of a discriminator of tasks.

    Args:
        task: Index of the task.
        weight: Weight of the loss, the mean cross-entropy of the batch.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: The vector, `(batch, width)`, and the discriminator's logits, `(batch, tasks)`.

    Returns:
        The vector.
    """

    def __init__(self, task: int, weight: float, **kwargs: Any) -> None:
        super().__init__(weight, **kwargs)
        self.task = task

    def call(self, inputs: list[Any], training: bool | None = None) -> Any:
        """Return the vector and add the loss in training."""
        vector, logits = inputs
        if training:
            likelihoods = ops.log_softmax(ops.cast(logits, "float32"))[:, self.task]
            self.add_loss(-self.weight * ops.mean(likelihoods))
        return vector


@keras.saving.register_keras_serializable(package="relation_tf")
class Orthogonality(_Penalty):
    """Identity layer that adds a penalty on correlated shared and private features.

    Args:
        weight: Weight of the penalty, the mean square of the products of features.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: The shared and the private vectors, `(batch, width)` each.

    Returns:
        The shared vectors.
    """

    def call(self, inputs: list[Any], training: bool | None = None) -> Any:
        """Return the shared vectors and add the penalty in training."""
        if training:
            shared, private = (_unit(ops.cast(x, "float32")) for x in inputs)
            products = ops.matmul(ops.transpose(shared), private)
            self.add_loss(self.weight * ops.mean(ops.square(products)))
        return inputs[0]


def _unit(rows: Any) -> Any:
    """Centre the rows and scale each to length 1; a row equal to the mean becomes zero."""
    rows = rows - ops.mean(rows, axis=0, keepdims=True)
    squares = ops.sum(ops.square(rows), axis=1, keepdims=True)
    return rows * ops.rsqrt(ops.maximum(squares, 1e-12))
