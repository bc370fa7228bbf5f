"""Optimizers and learning-rate schedules by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import keras

from relation_tf.errors import SuiteError, UnknownNameError
from relation_tf.optimizers import Adam, FCSRDecay, SumRows
from relation_tf.registry import (
    OPTIMIZERS,
    SCHEDULES,
    Registry,
    make_part,
    register_optimizer,
    register_schedule,
)

_NOTHING: Mapping[str, Any] = {}
_UNSUPPORTED = {"Optimizer", "LossScaleOptimizer", "MultiOptimizer", "LearningRateSchedule"}
_UNSUPPORTED |= {"ScheduleFreeAdamW"}  # its state starts at the weights, which differ by seed

register_optimizer("adam")(Adam)


@register_schedule("constant")
def constant(learning_rate: float, epochs: int, steps_per_epoch: int) -> float:
    """Return the learning rate of all steps."""
    return learning_rate


@register_schedule("fcsr")
def fcsr(learning_rate: float, epochs: int, steps_per_epoch: int) -> FCSRDecay:
    """Return the decay of the FCSR preprint, computed from the initial rate."""
    return FCSRDecay(learning_rate, epochs, steps_per_epoch)


@register_schedule("fcsr-compounding")
def fcsr_compounding(learning_rate: float, epochs: int, steps_per_epoch: int) -> FCSRDecay:
    """Return the decay of the FCSR preprint, computed from the rate of the previous epoch."""
    return FCSRDecay(learning_rate, epochs, steps_per_epoch, compounding=True)


@register_schedule("warmup-cosine")
def warmup_cosine(
    learning_rate: float, epochs: int, steps_per_epoch: int, warmup: float = 0.1
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Return a schedule with linear warmup and cosine decay to 0.

    Args:
        learning_rate: Peak learning rate.
        epochs: Number of epochs.
        steps_per_epoch: Steps per epoch.
        warmup: Share of the steps for warmup, in [0, 1).
    """
    if not isinstance(warmup, Real) or not 0 <= warmup < 1:
        raise ValueError(f"warmup must be a number in [0, 1). Received: {warmup!r}")
    steps = epochs * steps_per_epoch
    rising = int(warmup * steps)
    return keras.optimizers.schedules.CosineDecay(
        0.0 if rising else learning_rate,
        steps - rising,
        warmup_target=learning_rate if rising else None,
        warmup_steps=rising,
    )


def make_schedule(
    name: str,
    learning_rate: float,
    epochs: int,
    steps_per_epoch: int,
    options: Mapping[str, Any] = _NOTHING,
) -> Any:
    """Make a learning-rate schedule.

    Args:
        name: A registered schedule, or a class of `keras.optimizers.schedules`. By default, its
            argument `initial_learning_rate` is the learning rate and `decay_steps` the number of
            steps of the run.
        learning_rate: The suite's learning rate.
        epochs: Maximum number of epochs.
        steps_per_epoch: Steps per epoch.
        options: Other arguments, by name.

    Returns:
        A learning rate or a schedule of Keras.

    Raises:
        SuiteError, UnknownNameError: For an unknown name or wrong options.
    """
    arguments: dict[str, Any] = {"learning_rate": learning_rate, "epochs": epochs,
                                 "steps_per_epoch": steps_per_epoch}  # fmt: skip
    classes = _classes(keras.optimizers.schedules, keras.optimizers.schedules.LearningRateSchedule)
    factory = _find(SCHEDULES, classes, name)
    if name not in SCHEDULES:
        defaults = {"initial_learning_rate": learning_rate, "decay_steps": epochs * steps_per_epoch}
        accepted = inspect.signature(factory).parameters
        arguments = {key: value for key, value in defaults.items() if key in accepted}
    return make_part(SCHEDULES.kind, name, factory, arguments, options)


def make_optimizer(
    name: str,
    learning_rate: Any,
    options: Mapping[str, Any] = _NOTHING,
    *,
    weight_decay: float | None = None,
) -> keras.optimizers.Optimizer:
    """Make an optimizer.

    Args:
        name: A registered optimizer (`"adam"` is `relation_tf.optimizers.Adam`) or a class of
            `keras.optimizers`. On TensorFlow, all of them sum the gradients of repeated tokens
            first, see `relation_tf.optimizers.SumRows`.
        learning_rate: A number or a schedule.
        options: Other arguments, by name.
        weight_decay: Decoupled weight decay of all variables; None for the optimizer's default.

    Raises:
        SuiteError, UnknownNameError: For an unknown name or wrong options, or if the optimizer is
            none of Keras, does not support weight decay, or has an option that only `fit` supports.
    """
    factory = _find(OPTIMIZERS, _classes(keras.optimizers, keras.optimizers.Optimizer), name)
    arguments = {"learning_rate": learning_rate}
    if weight_decay:
        arguments["weight_decay"] = weight_decay
    optimizer = make_part(OPTIMIZERS.kind, name, factory, arguments, options)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise SuiteError(
            f"{OPTIMIZERS.kind} {name!r}: must return an optimizer of Keras. "
            f"Received: {type(optimizer).__name__}"
        )
    _check_trainable(optimizer, f"{OPTIMIZERS.kind} {name!r}")
    if weight_decay == 0:
        optimizer.weight_decay = None
    # Muon has another decay for embeddings and variables that are not matrices.
    if weight_decay is not None and isinstance(optimizer, keras.optimizers.Muon):
        optimizer.adam_weight_decay = options.get("adam_weight_decay", weight_decay or None)
    if not isinstance(optimizer, SumRows):
        # A factory may be a function, so that its class is known only now.
        cls: Any = type(optimizer)
        object.__setattr__(optimizer, "__class__", _with_summed_rows(cls))
    return optimizer


def _check_trainable(optimizer: keras.optimizers.Optimizer, which: str) -> None:
    """Refuse options that need Keras's own training loop."""
    if optimizer.loss_scale_factor is not None:
        raise SuiteError(
            f"{which}: loss_scale_factor must not be set: float32 and bfloat16 need no loss scale"
        )
    if optimizer.use_ema and not optimizer.ema_overwrite_frequency:
        # `fit` applies the averages at its end; here the weights of the best epoch may be kept.
        raise SuiteError(
            f"{which}: use_ema=True needs ema_overwrite_frequency, the number of steps after which "
            "the averages replace the weights"
        )


def _classes(module: Any, base: type) -> dict[str, type]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and name not in _UNSUPPORTED
    }


def _find(registry: Registry[Any], classes: Mapping[str, type], name: str) -> Callable[..., Any]:
    factory = registry[name] if name in registry else classes.get(name)
    if factory is None:
        raise UnknownNameError(registry.kind, name, [*registry, *sorted(classes)])
    return factory


@functools.cache
def _with_summed_rows(cls: type[Any]) -> type[Any]:
    return type(cls.__name__, (SumRows, cls), {})
