"""Networks with a given number of parameters."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import keras

from relation_tf.networks.classifiers import pair_regressor, sequence_classifier
from relation_tf.networks.config import NetworkConfig, configured
from relation_tf.networks.mechanisms import width_step


@dataclass(frozen=True)
class Match:
    """Size of the network with the number of parameters closest to a target.

    Attributes:
        sized_by: Name of the varied argument.
        value: Value of the argument.
        parameters: Number of trainable parameters of the network without its embedding.
        target: Requested number of parameters.

    Example:
        >>> print(Match("rank", 260, 502_402, 500_000))
        rank = 260: 502,402 parameters, 0.5 % above 500,000
    """

    sized_by: str
    value: int
    parameters: int
    target: int

    @property
    def miss(self) -> float:
        """Relative difference from the target: `parameters / target - 1`."""
        return self.parameters / self.target - 1

    def __str__(self) -> str:
        where = f"{100 * abs(self.miss):.1f} % {'above' if self.miss > 0 else 'below'}"
        return (
            f"{self.sized_by} = {self.value}: {self.parameters:,} parameters, "
            f"{where if self.miss else 'exactly'} {self.target:,}"
        )


def match_parameters(
    mechanism: Any,
    target: int,
    sized_by: str = "units",
    config: NetworkConfig | None = None,
    *,
    build: Callable[..., keras.Model] = sequence_classifier,
    num_classes: int = 2,
    **changes: Any,
) -> Match:
    """Find the rank, units or width that gives a network a number of parameters.

    Counts all trainable parameters except the embedding.

    Args:
        mechanism: As in `sequence_classifier`.
        target: Number of parameters.
        sized_by: `"units"`, `"width"` (of both the embedding and the mechanism), or an integer
            option of the mechanism, such as `"rank"` or `"num_layers"`.
        config: Other settings of the network. Default: `NetworkConfig()`.
        build: `sequence_classifier`, `pair_classifier` or `pair_regressor`.
        num_classes: Number of classes of a classifier.
        **changes: Fields of `NetworkConfig`; they override `config`. `vocabulary_size` is ignored.

    Returns:
        The value with the number of parameters closest to the target, the smaller one of a tie.

    Raises:
        ValueError: If the target is below 1 or no value reaches it.

    Example:
        >>> from relation_tf.networks import match_parameters
        >>> settings = {"embedding_dim": 128, "network": "plain"}
        >>> print(match_parameters("contextualizer", 500_000, sized_by="rank", **settings))
        rank = 259: 499,586 parameters, 0.1 % below 500,000
    """
    if target < 1:
        raise ValueError(f"`target` must be 1 or more. Received: target={target}")
    changes.pop("vocabulary_size", None)
    config = replace(configured(config, changes), embeddings=None)
    task = {"vocabulary_size": 2}
    if build is not pair_regressor:
        task["num_classes"] = num_classes
    step = size_step(mechanism, sized_by, config.options)

    @functools.cache
    def parameters(steps: int) -> int:
        sized = replace(config, **_sized(sized_by, steps * step, config.options))
        return count_parameters(build(mechanism, config=sized, **task))["network"]

    highest = 1
    while parameters(highest) < target:
        if highest > 1 and parameters(highest) == parameters(highest // 2):
            raise ValueError(
                "`sized_by` must be an argument that changes the number of parameters "
                f"({parameters(1):,} for all values). Received: sized_by={sized_by!r}"
            )
        highest *= 2
    above = bisect.bisect_left(range(highest + 1), target, lo=1, key=parameters)
    nearest = min(
        (steps for steps in (above - 1, above) if steps),
        key=lambda steps: abs(parameters(steps) - target),
    )
    return Match(sized_by, nearest * step, parameters(nearest), target)


def with_size(match: Match, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a network with the size of a match."""
    return {**settings, **_sized(match.sized_by, match.value, settings.get("options"))}


def count_parameters(model: keras.Model) -> dict[str, int]:
    """Count the trainable parameters of a network of this package.

    Returns:
        The numbers `total`, `embedding`, `mechanism` and `network` (`total - embedding`).
        `mechanism` includes the private mechanisms of multi-task networks. For encoder-decoders it
        includes all layers except the two embeddings and the output layer.
    """
    total, embedding = _count(model), _count(*_named(model, "embedding"))
    network = total - embedding
    if mechanisms := _named(model, "mechanism"):
        mechanism = _count(*mechanisms)
    else:
        mechanism = network - _count(*_named(model, "logits"))
    return {"total": total, "embedding": embedding, "mechanism": mechanism, "network": network}


def _named(model: keras.Model, ending: str) -> list[Any]:
    """Return the layers with a name that ends so."""
    return [layer for layer in model.layers if layer.name.endswith(ending)]


def _count(*layers: Any) -> int:
    variables = [variable for layer in layers for variable in layer.trainable_variables]
    return sum(math.prod(variable.shape) for variable in variables)


def _sized(sized_by: str, value: int, options: Mapping[str, Any] | None) -> dict[str, Any]:
    if sized_by == "units":
        return {"units": value}
    if sized_by == "width":
        return {"units": value, "embedding_dim": value}
    return {"options": {**(options or {}), sized_by: value}}


def size_step(mechanism: Any, sized_by: str, options: Mapping[str, Any] | None) -> int:
    """Return the step between valid sizes, see `width_step`."""
    return width_step(mechanism, options or {}) if sized_by in ("units", "width") else 1
