"""Any causal mechanism in both directions of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relation_tf.layers import TwoDirections
from relation_tf.layers.two_directions import Merge
from relation_tf.networks.mechanisms import in_blocks, make_layer
from relation_tf.networks.mixing import entry_of, is_layer


def two_directions(
    units: int = 64,
    mechanism: Any = "mamba2",
    merge: Merge = "sum",
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    *,
    name: str | None = None,
    dtype: Any = None,
) -> TwoDirections:
    """Build a `TwoDirections` layer around a mechanism of this package.

    Args:
        units: Width of the output; with `merge="concatenate"`, an odd number is rounded up.
        mechanism: Name of a mechanism with a causal form.
        merge: `"sum"`, or `"concatenate"` with half of the units for each direction.
        options: Further arguments of the mechanism.
        seed: Random seed of the dropout, default: that in `options`.
        name: Name of the layer.
        dtype: Dtype policy of both directions and of the sum.

    Raises:
        ValueError: If the mechanism has no causal form or rejects an option.

    Example:
        >>> from relation_tf.networks.two_directions import two_directions
        >>> layer = two_directions(units=8, mechanism="relation", merge="concatenate")
        >>> layer.units, layer.layer.units
        (8, 4)
    """
    if is_layer(mechanism):
        raise ValueError(
            "`mechanism` must be a name or a class; for a layer, use TwoDirections(layer). "
            f"Received: {type(mechanism).__name__}"
        )
    if merge == "concatenate":
        units = (units + 1) // 2
    entry = entry_of(mechanism)
    own = {"dtype": dtype, **in_blocks(entry, options, equations=True), "causal": True}
    own |= {} if seed is None else {"seed": seed}
    forward = make_layer(entry, units, 0.0, own, name="forward")
    return TwoDirections(forward, merge, name=name, dtype=dtype)
