"""What the mechanisms of the Relation paper have in common."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal

import keras
from keras import ops

from relation_tf.layers.masking import zero_masked

Variant = Literal["equations", "released_code"]


class TokenMixer(keras.layers.Layer):
    """A layer that gives each query token a view of the tokens of `value`.

    It owns what all mechanisms share: checked arguments, masks, the weights' initializers and the
    closing projection `y = dropout(relu(y)) W_output` of the Relation paper's released code. A
    mechanism adds its weights in `build_mechanism` and its equation in `mix`.

    `variant="equations"` is the layer as the paper prints it, `variant="released_code"` as its
    released code computes it. A variant is a set of defaults: the class's `presets`.

    Args:
        units: Width of the output, at least 1.
        variant: `"equations"` or `"released_code"`.
        use_bias: If True, the projections have biases. None: by `variant`.
        dropout: Rate in [0, 1), applied in training only. None: 0 for the equations, 0.5 for the
            released code.
        output_projection: If True, `dropout(relu(y)) W_output` closes the layer. None: for the
            released code only.
        algorithm: One of the class's `algorithms`, all equal in result, or `"auto"`, which
            chooses by shape.
        kernel_initializer: Initializer of the matrices.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the matrices.
        bias_regularizer: Regularizer of the biases.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    algorithms: ClassVar[tuple[str, ...]] = ("direct",)
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "equations": {"use_bias": False, "dropout": 0.0, "output_projection": False},
        "released_code": {"use_bias": False, "dropout": 0.5, "output_projection": True},
    }

    units: int
    variant: Variant
    use_bias: bool
    dropout: float
    output_projection: bool
    algorithm: str
    seed: int | None
    kernel_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    bias_regularizer: Any
    seed_generator: Any

    def __init__(
        self,
        units: int,
        *,
        variant: Variant = "equations",
        use_bias: bool | None = None,
        dropout: float | None = None,
        output_projection: bool | None = None,
        algorithm: str = "auto",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(units, bool) or not isinstance(units, Integral) or units < 1:
            raise ValueError(f"`units` must be a positive integer. Received: units={units!r}")
        if variant not in self.presets:
            allowed = " or ".join(map(repr, self.presets))
            raise ValueError(f"`variant` must be {allowed}. Received: {variant!r:.80}")
        self.variant = variant
        dropout = self.preset("dropout", dropout)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout!r}")
        if algorithm not in ("auto", *self.algorithms):
            allowed = ", ".join(map(repr, ("auto", *self.algorithms)))
            raise ValueError(f"`algorithm` must be one of {allowed}. Received: {algorithm!r}")
        self.units = int(units)
        self.use_bias = self.preset("use_bias", use_bias)
        self.dropout = dropout
        self.output_projection = self.preset("output_projection", output_projection)
        self.algorithm = algorithm
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.seed = seed
        if dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

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
        """Call the layer as `call` says."""
        # Keras marks the output with what it finds under `mask`, or else with the mask attached to
        # the query: an explicit query_mask has to travel under that name to win over both.
        if query_mask is not None:
            kwargs["mask"] = query_mask
        return super().__call__(query, value, value_mask=value_mask, **kwargs)

    def build(
        self, query_shape: tuple[int | None, ...], value_shape: tuple[int | None, ...] | None = None
    ) -> None:
        """Create the weights: one 2-D variable for each matrix, in the order of the equations."""
        value_shape = query_shape if value_shape is None else value_shape
        self.build_mechanism(width_of("query", query_shape), width_of("value", value_shape))
        if self.output_projection:
            self.output_kernel = self.add_kernel("output_kernel", self.units)
        self.built = True

    def build_mechanism(self, query_width: int, value_width: int) -> None:
        """Create the mechanism's own weights."""
        raise NotImplementedError

    def mix(self, query: Any, value: Any, value_mask: Any, training: bool) -> Any:
        """The equation: `(batch, queries, width)` and `(batch, tokens, width)` to `units`.

        Masked tokens of `query` and `value` are zero here.
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
            query_mask: Boolean tensor of shape `(batch, queries)`, True where a token is kept.
                The output is zero at masked queries.
            value_mask: The same for `value`, by default the query's where `value` is not given.
                What a masked token holds changes no output.
            mask: The name under which Keras hands over the mask of a single input; it means
                `query_mask`.
            training: Whether to apply dropout.

        Returns:
            Tensor of shape `(batch, queries, units)`.
        """
        # __call__ moves an explicit query_mask into `mask`; what is left in query_mask was
        # attached.
        query_mask = _boolean(query_mask if mask is None else mask)
        shared = value is None and value_mask is None
        value_mask = query_mask if shared else _boolean(value_mask)
        value = zero_masked(query if value is None else value, value_mask)
        query = value if shared else zero_masked(query, query_mask)
        output = self.mix(query, value, value_mask, bool(training))
        return zero_masked(self.project_output(output, bool(training)), query_mask)

    def compute_mask(self, query: Any, previous_mask: Any = None) -> Any:
        """The output keeps the query's mask."""
        return previous_mask

    def compute_output_shape(
        self, query_shape: tuple[int | None, ...], value_shape: tuple[int | None, ...] | None = None
    ) -> tuple[int | None, ...]:
        """`(batch, queries, units)`."""
        return (*query_shape[:-1], self.units)

    def project_output(self, output: Any, training: bool) -> Any:
        """The closing projection, where the layer has one."""
        if not self.output_projection:
            return output
        return ops.matmul(self.drop(ops.relu(output), training), self.output_kernel)

    def drop(self, x: Any, training: bool) -> Any:
        """Dropout, in training only."""
        if not training or self.dropout == 0:
            return x
        return keras.random.dropout(x, self.dropout, seed=self.seed_generator)

    def add_kernel(self, name: str, rows: int) -> Any:
        """A `(rows, units)` matrix."""
        return self.add_weight(
            name=name,
            shape=(rows, self.units),
            # An initializer without a seed draws one when it is made: matrices that shared it
            # would start alike.
            initializer=self.kernel_initializer.clone(),
            regularizer=self.kernel_regularizer,
        )

    def add_bias(self, name: str) -> Any:
        """A `(units,)` bias."""
        return self.add_weight(
            name=name,
            shape=(self.units,),
            initializer=self.bias_initializer.clone(),
            regularizer=self.bias_regularizer,
        )

    def add_projection(self, name: str, rows: int, use_bias: bool | None = None) -> tuple[Any, Any]:
        """A matrix and its bias (None without one), called `<name>_kernel` and `<name>_bias`."""
        use_bias = self.use_bias if use_bias is None else use_bias
        kernel = self.add_kernel(f"{name}_kernel", rows)
        return kernel, self.add_bias(f"{name}_bias") if use_bias else None

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            **super().get_config(),
            "units": self.units,
            "variant": self.variant,
            "use_bias": self.use_bias,
            "dropout": self.dropout,
            "output_projection": self.output_projection,
            "algorithm": self.algorithm,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "seed": self.seed,
        }


def width_of(name: str, shape: tuple[int | None, ...]) -> int:
    """The width of `(batch, tokens, width)`; refuse any other shape."""
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            f"`{name}` must be of shape (batch, tokens, width) with a known width. "
            f"Received: {name}.shape={tuple(shape)}"
        )
    return shape[-1]


def affine(x: Any, kernel: Any, bias: Any) -> Any:
    """`x W + b`; `bias` may be None."""
    y = ops.matmul(x, kernel)
    return y if bias is None else y + bias


def _boolean(mask: Any) -> Any:
    return None if mask is None else ops.cast(mask, "bool")
