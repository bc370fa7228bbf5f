"""Two causal layers, one for each direction of the text."""

from __future__ import annotations

from typing import Any, Literal, get_args

import keras
from keras import ops

from relation_tf.layers.arguments import one_of
from relation_tf.layers.base import second_seed
from relation_tf.layers.masking import pad_tokens, part, reversed_tokens
from relation_tf.layers.token_mixer import CausalMixer, TokenMixer

Merge = Literal["concatenate", "sum"]


@keras.saving.register_keras_serializable(package="relation_tf")
class TwoDirections(TokenMixer):
    """A causal layer over the text, and another with its own weights over the reversed text.

    The output of query i is merged from the layer that sees tokens 1 to i and the one that sees
    tokens i to the last. A recurrent layer without `causal=True` also reads both directions, with
    the same weights, and adds them.

    A convolution over queries (`Mamba2`, `DeltaNet`, `GatedDeltaNet`) also sees later queries here:
    outputs change if later queries are left out.

    Args:
        layer: A causal layer of this package. The layer of the other direction is created from its
            configuration, with another seed of the dropout; an initializer with a seed gives both
            the same initial weights.
        merge: `"concatenate"`: the output has twice the units of `layer`; `"sum"`: the same units.
        seed: Random seed of the dropout of both, default: that of `layer`.
        name: Name of the layer.
        dtype: Dtype policy of the layer; `layer` keeps its own.
        trainable: If False, the weights are not trained.

    Call arguments:
        query: Tensor of shape `(batch, queries, width)`.
        value: Tensor of shape `(batch, tokens, width)`, by default `query`.
        query_mask: Boolean, `(batch, queries)`; outputs at masked queries are zero.
        value_mask: Boolean, `(batch, tokens)`; masked tokens are absent.

    Returns:
        Tensor of shape `(batch, queries, units)`, with `units` as for `merge`.

    Raises:
        ValueError: If `layer` is not a causal layer of this package.

    Example:
        >>> import numpy as np
        >>> from relation_tf.layers import Mamba2, TwoDirections
        >>> layer = TwoDirections(Mamba2(units=4, causal=True))
        >>> layer(np.ones((2, 5, 3), "float32")).shape == (2, 5, 8)
        True

    References:
        - Schuster, Paliwal 1997, "Bidirectional Recurrent Neural Networks", for two recurrences.
    """

    def __init__(
        self,
        layer: Any,
        merge: Merge = "concatenate",
        seed: int | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        if not isinstance(layer, CausalMixer) or not layer.causal:
            raise ValueError(
                "`layer` must be a CausalMixer of relation_tf.layers with causal=True, such as "
                f"Mamba2(64, causal=True). Received: a layer of type {type(layer).__name__}"
            )
        one_of("merge", merge, get_args(Merge))
        units = layer.units * (2 if merge == "concatenate" else 1)
        super().__init__(units, seed=seed, name=name, dtype=dtype, trainable=trainable)
        if self.seed not in (None, layer.seed):
            if layer.built:
                raise ValueError("`seed` must be that of `layer`, which is already built")
            layer = type(layer).from_config({**layer.get_config(), "seed": self.seed})
        self.layer, self.merge = layer, merge
        seed, name = second_seed(layer.seed), f"{layer.name}_backward"
        self.backward = type(layer).from_config({**layer.get_config(), "seed": seed, "name": name})

    @property
    def reads_later_queries(self) -> bool:
        """If True, outputs depend on later queries, so a network computes all tokens for one."""
        return bool(self.layer.convolves_queries)

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create the weights of both layers."""
        for layer in (self.layer, self.backward):
            if not layer.built:  # a loaded layer is
                layer.build((None, None, query_width), (None, None, value_width))
            if not (self.trainable and layer.trainable):
                layer.trainable = False  # also its weights, which a model would train

    def mix_masked(
        self, query: Any, value: Any, query_mask: Any, value_mask: Any, training: bool
    ) -> Any:
        """Compute both directions."""
        length = ops.shape(query)[1]
        forward = _mixed(self.layer, query, value, query_mask, value_mask, training)
        if query is not value:
            # Of equal lengths, so that query i is at position length - 1 - i of the reversed text.
            missing = ops.shape(value)[1] - length
            query, query_mask = _padded(query, query_mask, missing)
            value, value_mask = _padded(value, value_mask, -missing)
        reversed_query = reversed_tokens(query)
        reversed_value = reversed_query if query is value else reversed_tokens(value)
        query_mask, value_mask = reversed_tokens(query_mask), reversed_tokens(value_mask)
        backward = _mixed(
            self.backward, reversed_query, reversed_value, query_mask, value_mask, training
        )
        both = forward, part(reversed_tokens(backward), 0, length)
        return ops.concatenate(both, axis=-1) if self.merge == "concatenate" else ops.add(*both)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        layer = keras.saving.serialize_keras_object(self.layer)
        arguments = {"layer": layer, "merge": self.merge, "seed": self.layer.seed}
        return {**keras.layers.Layer.get_config(self), **arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TwoDirections:
        """Create the layer from its configuration."""
        layer = config["layer"]
        if isinstance(layer, dict):
            layer = {**layer, "config": {**layer["config"], "seed": config["seed"]}}
            layer = keras.saving.deserialize_keras_object(layer)
        return cls(**{**config, "layer": layer})


def _mixed(
    layer: Any, query: Any, value: Any, query_mask: Any, value_mask: Any, training: bool
) -> Any:
    if query is value:
        return layer(query, query_mask=query_mask, training=training)
    return layer(query, value, query_mask, value_mask, training=training)


def _padded(x: Any, mask: Any, missing: Any) -> tuple[Any, Any]:
    """Pad tokens and their mask at the end, if the number of missing tokens is positive."""
    mask = ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask
    return pad_tokens(x, missing), ops.cast(pad_tokens(ops.cast(mask, "int32"), missing), "bool")
