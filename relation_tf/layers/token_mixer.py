"""Base class of the token mixers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import keras
from keras import ops

from relation_tf.layers.arguments import (
    check_width,
    differ,
    one_of,
    positive_integer,
    rate,
    seed_or_none,
    true_or_false,
    width_of,
)
from relation_tf.layers.base import WeightedLayer
from relation_tf.layers.dropout import dropout
from relation_tf.layers.masking import as_floats, boolean, zero_masked

Variant = Literal["equations", "released_code"]


class TokenMixer(WeightedLayer):
    """Base class of layers that compute each query token from the tokens of `value`.

    It checks arguments, applies masks and adds the output projection
    `y = dropout(relu(y)) W_output` of the Relation paper's released code. A subclass creates its
    weights in `build_mechanism` and computes its equation in `mix`.

    `variant="equations"` follows the paper's equations, `variant="released_code"` its released
    code. A variant is a set of default arguments, defined in the class attribute `presets`.

    Args:
        units: Width of the output, at least 1.
        variant: `"equations"` or `"released_code"`.
        use_bias: If True, the projections have biases. None: the variant's default.
        dropout: Dropout rate in [0, 1), in training only. None: 0 for the equations, 0.5 for the
            released code.
        output_projection: If True, the layer ends with `dropout(relu(y)) W_output`. None: True for
            the released code, else False.
        algorithm: Name from the class attribute `algorithms`, or `"auto"` to select by shape. All
            algorithms compute the same output.
        seed: Random seed of the dropout.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    algorithms: ClassVar[tuple[str, ...]] = ("direct",)
    # If True, an output depends on the queries before it, through a convolution.
    convolves_queries: ClassVar[bool] = False
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "equations": {"use_bias": False, "dropout": 0.0, "output_projection": False},
        "released_code": {"use_bias": False, "dropout": 0.5, "output_projection": True},
    }

    def __init__(
        self,
        units: int,
        *,
        variant: Variant = "equations",
        use_bias: bool | None = None,
        dropout: float | None = None,
        output_projection: bool | None = None,
        algorithm: str = "auto",
        seed: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        if causal := kwargs.pop("causal", False):
            name = type(self).__name__
            raise ValueError(f"{name} has no causal form. Received: causal={causal!r}")
        super().__init__(
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            **kwargs,
        )
        self.units = positive_integer("units", units)
        self.variant = one_of("variant", variant, self.presets)
        self.use_bias = true_or_false("use_bias", self.preset("use_bias", use_bias))
        self.dropout = rate("dropout", self.preset("dropout", dropout))
        self.output_projection = true_or_false(
            "output_projection", self.preset("output_projection", output_projection)
        )
        self.algorithm = one_of("algorithm", algorithm, ("auto", *self.algorithms))
        self.seed = seed_or_none("seed", seed)
        if self.dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)

    def preset(self, name: str, value: Any) -> Any:
        """Return the value of an argument, or the variant's default if it is None."""
        return self.presets[self.variant][name] if value is None else value

    def __call__(
        self,
        query: Any,
        value: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Call the layer; the arguments are those of `call`."""
        # Keras attaches to the output the argument `mask`, or else the mask attached to the query.
        # So an explicit query_mask must be passed as `mask`.
        if query_mask is not None:
            kwargs["mask"] = query_mask
        return super().__call__(query, value, value_mask=value_mask, **kwargs)

    def build(
        self, query_shape: tuple[int | None, ...], value_shape: tuple[int | None, ...] | None = None
    ) -> None:
        """Create the weights: one 2-D variable for each matrix, in the order of the equations."""
        value_shape = query_shape if value_shape is None else value_shape
        self.query_width = width_of("query", query_shape)
        self.value_width = width_of("value", value_shape)
        self.build_mechanism(self.query_width, self.value_width)
        if self.output_projection:
            self.output_kernel = self.add_kernel("output_kernel", self.units, self.units)
        self.built = True

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create the weights of the mechanism."""
        raise NotImplementedError

    def mix_masked(
        self, query: Any, value: Any, query_mask: Any, value_mask: Any, training: bool
    ) -> Any:
        """Call `mix`. A layer in which queries depend on other queries overrides this method."""
        return self.mix(query, value, value_mask, training)

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """Compute the equation: `(batch, queries, units)` from `query` and `value`.

        Masked tokens of `query` and `value` are already zero. A layer that overrides `mix_masked`
        does not need this method.
        """
        raise NotImplementedError

    def call(
        self,
        query: Any,
        value: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Mix the tokens.

        Args:
            query: Tensor of shape `(batch, queries, width)`.
            value: Tensor of shape `(batch, tokens, width)`, by default `query`.
            query_mask: Boolean tensor of shape `(batch, queries)`, True for unmasked tokens. The
                output is zero at masked queries.
            value_mask: Boolean tensor of shape `(batch, tokens)`, True for unmasked tokens. Masked
                tokens have no effect on the output. Default: `query_mask` if `value` is None.
            mask: Alias of `query_mask`: Keras passes the mask of a single input by this name.
            training: If True, apply dropout.

        Returns:
            Tensor of shape `(batch, queries, units)`.

        Raises:
            ValueError: If an input has another rank or width than in `build`, if `value` has
                another batch size than `query`, or if a mask has not the shape of its input.
        """
        self._check(query.shape, None if value is None else value.shape)
        # __call__ passes an explicit query_mask as `mask`; query_mask is then the attached mask.
        query_mask = boolean(query_mask if mask is None else mask, query, "query_mask")
        shared = value is None and value_mask is None
        is_query = value is None or value is query
        query = as_floats(query, self.compute_dtype)
        value = query if is_query else as_floats(value, self.compute_dtype)
        value_mask = query_mask if shared else boolean(value_mask, value, "value_mask")
        value = zero_masked(value, value_mask)
        query = value if shared else zero_masked(query, query_mask)
        output = self.mix_masked(query, value, query_mask, value_mask, bool(training))
        output = ops.cast(self.project_output(output, bool(training)), self.compute_dtype)
        return zero_masked(output, query_mask)

    def compute_output_shape(
        self, query_shape: tuple[int | None, ...], value_shape: tuple[int | None, ...] | None = None
    ) -> tuple[int | None, ...]:
        """Return `(batch, queries, units)`."""
        if self.built:  # Keras computes the output of symbolic inputs with this method only.
            self._check(query_shape, value_shape)
        return (*query_shape[:-1], self.units)

    def _check(self, query_shape: Any, value_shape: Any) -> None:
        """Raise a ValueError for other widths than in `build`, or different batch sizes."""
        check_width("query", query_shape, self.query_width)
        if value_shape is not None:
            check_width("value", value_shape, self.value_width)
            if differ(value_shape[0], query_shape[0]):
                raise ValueError(
                    "`value` must have the batch size of `query`. Received: "
                    f"value.shape={tuple(value_shape)}, query.shape={tuple(query_shape)}"
                )

    def project_output(self, output: Any, training: bool) -> Any:
        """Apply the output projection, if the layer has one."""
        if not self.output_projection:
            return output
        return ops.matmul(self.drop(ops.relu(output), training), self.output_kernel)

    def drop(self, x: Any, training: bool) -> Any:
        """Apply dropout, in training only."""
        return dropout(x, self.dropout, self.seed_generator) if self.drops(training) else x

    def drops(self, training: bool) -> bool:
        """Return True if dropout is applied."""
        return training and self.dropout > 0

    def add_projection(
        self, name: str, rows: int, use_bias: bool | None = None, width: int | None = None
    ) -> tuple[Any, Any]:
        """Add the weights `<name>_kernel` and `<name>_bias` (None without a bias).

        The default of `use_bias` is that of the layer, the default of `width` is `units`.
        """
        use_bias = self.use_bias if use_bias is None else use_bias
        width = self.units if width is None else width
        kernel = self.add_kernel(f"{name}_kernel", rows, width)
        return kernel, self.add_bias(f"{name}_bias", width) if use_bias else None

    def add_query_key_value(self, query_width: int, value_width: int) -> None:
        """Add W_Q, W_K and W_V."""
        self.query_kernel, self.query_bias = self.add_projection("query", query_width)
        self.key_kernel, self.key_bias = self.add_projection("key", value_width)
        self.value_kernel, self.value_bias = self.add_projection("value", value_width)


def affine(x: Any, kernel: Any, bias: Any) -> Any:
    """Compute `x W + b`; `bias` may be None."""
    y = ops.matmul(x, kernel)
    return y if bias is None else y + bias
