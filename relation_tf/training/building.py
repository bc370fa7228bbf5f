"""Build the networks of a run from its configuration and task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import keras

from relation_tf import networks
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError, in_one_line
from relation_tf.networks.check.report import TOKEN_READ, Fault
from relation_tf.networks.mechanisms import in_blocks
from relation_tf.networks.precision import dtype_policy
from relation_tf.tasks.encoding import EncodedTask
from relation_tf.tasks.glove import Vectors
from relation_tf.tasks.task import Task
from relation_tf.training.pretrained import PretrainedEncoder, fill, load_pretrained

_FILLED = {"pretrained": "mechanism", "frozen": "contextual"}  # by a pre-trained encoder
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
# Runs name their embeddings; networks get them as an array.
_SETTINGS = tuple(
    field.name
    for field in fields(networks.NetworkConfig)
    if field.name in RunConfig.model_fields and field.name != "embeddings"
)


def build_networks(
    config: RunConfig,
    task: EncodedTask,
    seed: int,
    match: networks.Match | None = None,
    vectors: Vectors | None = None,
) -> list[keras.Model]:
    """Build the network of a task, or one for each task of a group.

    Args:
        config: The run.
        task: The task of the run.
        seed: Seed of the initial weights.
        match: The matched width, if the run has a number of parameters.
        vectors: Word vectors for the embedding.
    """
    keras.utils.set_random_seed(seed)
    settings = _settings(config, task)
    if match is not None:
        settings = networks.with_size(match, settings)
    with dtype_policy(_POLICIES[config.precision]):
        if task.task.members:
            models = networks.multi_task_networks(config.mechanism, **settings)
        elif task.task.written:
            assert task.targets is not None  # the same
            return [_encoder_decoder(config, task.vocabulary.size, task.targets.size)]
        else:
            models = [_builder(task)(config.mechanism, **settings)]
    source = _source(config, seed)
    if source is not None:
        fill(models[0], source, layer=_FILLED[config.encoder_weights])
    if vectors is not None:
        embedding = models[0].get_layer("embedding")
        embedding.set_weights([vectors.fill(embedding.get_weights()[0])])
    return models


def find_match(config: RunConfig, task: EncodedTask) -> networks.Match | None:
    """Return the width for the run's number of parameters, or None."""
    if config.size is None:
        return None
    return networks.match_parameters(
        config.mechanism,
        config.size,
        config.sized_by,
        build=_builder(task),
        **_settings(config, task),
    )


def layer_faults(config: RunConfig, *, all_read: bool) -> list[Fault]:
    """Return the failed checks of a run's custom layers; those in encoder-decoders are not checked.

    Args:
        config: The run.
        all_read: See `faults_of`.

    Raises:
        SuiteError: If an option of a layer is unknown.
    """
    mechanism = config.mechanism
    if networks.find_mechanism(mechanism).output_type == "sequence":
        return []
    small, where = _small_settings(config), f"method {config.method}"
    layer = mechanism, small["units"], config.embedding_dim, small["options"]
    faults = faults_of(*layer, config.precision, where, all_read=all_read)
    return [fault._replace(layer=config.mixer) for fault in faults]


def faults_of(
    mechanism: str,
    units: int,
    width: int,
    options: Mapping[str, Any],
    precision: str,
    where: str,
    *,
    all_read: bool,
) -> list[Fault]:
    """Return the failed checks of a layer.

    Args:
        mechanism: Name of the layer.
        units: Width of the output.
        width: Width of the input.
        options: Further arguments of the layer; causal layers get those of their equations.
        precision: `"float32"` or `"bfloat16"`.
        where: Place of the layer's name, for messages.
        all_read: If True, the network around the layer reads the outputs of all tokens.

    Raises:
        SuiteError: If an option of the layer is unknown.
    """
    if options.get("causal"):
        options = in_blocks(networks.find_mechanism(mechanism), options, equations=True)
    with in_one_line(where):
        report = networks.check_layer(
            mechanism, units, width, options, precision=precision, required_only=True
        )
    failed = [
        check
        for check in report.checks
        if check.status == "failed" and not (all_read and check.name == TOKEN_READ)
    ]
    return [Fault(mechanism, check.name, check.message) for check in failed]


def _small_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a network, with a small width if its size is not known yet."""
    settings = _run_settings(config)
    if config.size is None:
        return settings
    value = 8 * networks.size_step(config.mechanism, config.sized_by, config.options)
    return networks.with_size(networks.Match(config.sized_by, value, 0, config.size), settings)


def build_small_network(config: RunConfig) -> None:
    """Build a small network of a run's method.

    Raises:
        SuiteError: If it cannot be built; the message names the method, argument and value.
    """
    try:
        with in_one_line(f"method {config.method}"):
            settings = _small_settings(config)
            if networks.find_mechanism(config.mechanism).output_type == "sequence":
                _encoder_decoder(config, 4, 4)
                return
            source = _source(config, config.seed_of("init"))
            with dtype_policy(_POLICIES[config.precision]):
                model = networks.sequence_classifier(
                    config.mechanism,
                    vocabulary_size=2 if source is None else source.vocabulary.size,
                    num_classes=2,
                    **settings,
                    **_contextual(config, source),
                )
            if source is not None:
                fill(model, source, layer=_FILLED[config.encoder_weights])
    finally:
        keras.backend.clear_session()


def _builder(encoded: EncodedTask) -> Callable[..., keras.Model]:
    task = encoded.task
    if task.from_last_token:
        longest = max(int(split.lengths.max()) for split in encoded.splits.values())
        return partial(networks.token_classifier, from_last_token=longest)
    if task.token_labels:
        return networks.token_classifier
    if len(task.inputs) == 1:
        return networks.sequence_classifier
    return networks.pair_regressor if task.labels is None else networks.pair_classifier


def _run_settings(config: RunConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in _SETTINGS}


def _settings(config: RunConfig, encoded: EncodedTask) -> dict[str, Any]:
    task = encoded.task
    settings = {
        **_run_settings(config),
        "vocabulary_size": encoded.vocabulary.size,
        **_contextual(config, _source(config, config.seed_of("init"))),
    }
    if task.members:
        settings |= {
            "heads": [_head(member) for member in task.members],
            "sharing": config.sharing,
            "adversary_weight": config.adversary_weight,
            "orthogonality_weight": config.orthogonality_weight,
        }
    elif task.token_labels:
        assert encoded.targets is not None  # of token classification
        settings["num_classes"] = encoded.targets.size - 1
    elif task.labels is not None:
        settings["num_classes"] = len(task.labels)
    return settings


def _head(task: Task) -> networks.TaskHead:
    classes = None if task.labels is None else len(task.labels)
    return networks.TaskHead(task.name, len(task.inputs), classes)


def _encoder_decoder(config: RunConfig, sources: int, targets: int) -> keras.Model:
    options = {
        "source_vocabulary": sources,
        "target_vocabulary": targets,
        "dropout": config.dropout,
        **config.options,
    }
    entry = networks.find_mechanism(config.mechanism)
    model = networks.make_layer(entry, config.units, config.dropout, options)
    model.build()
    return model


def _source(config: RunConfig, seed: int) -> PretrainedEncoder | None:
    """Return the pre-trained encoder for a seed of the run, or None."""
    if config.encoder_weights == "random":
        return None
    source = load_pretrained(str(config.pretrained), config.block_mechanism, seed)
    learned = source.settings.get("mechanism_digest")
    if config.custom_layers and learned != config.mechanism_digest:
        raise SuiteError(
            f"{source.folder}: {config.block_mechanism} has changed since it was pre-trained. "
            f"Received: source {config.mechanism_digest}, pre-trained with {learned}"
        )
    return source


def _contextual(config: RunConfig, source: PretrainedEncoder | None) -> dict[str, Any]:
    """Return the network settings for contextual embeddings, or an empty table."""
    if source is None or config.encoder_weights != "frozen":
        return {}
    encoder = source.network
    if config.embedding_dim != encoder["embedding_dim"]:
        raise SuiteError(
            f"key 'embedding_dim': must be {encoder['embedding_dim']}, as in {config.pretrained}. "
            f"Received: {config.embedding_dim}"
        )
    with dtype_policy(_POLICIES[config.precision]):
        return {"contextual": networks.encoder(units=encoder["units"], **encoder["options"])}
