"""Generate text with a pre-trained causal encoder. Imports Keras when the generation starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relation_tf.config.layer_source import custom_digest
from relation_tf.config.plugins import load_plugins
from relation_tf.errors import OptionError, SuiteError, in_one_line, join_names
from relation_tf.files import expand_home
from relation_tf.interrupts import interrupts_delayed
from relation_tf.networks.mechanisms import custom_layers
from relation_tf.networks.sampling import next_token_probabilities
from relation_tf.tasks.vocabulary import PADDING, START, UNKNOWN, Vocabulary
from relation_tf.training.generation_settings import GenerationSettings
from relation_tf.training.pretrained import (
    WEIGHTS,
    PretrainedEncoder,
    finished_runs,
    load_pretrained,
)
from relation_tf.training.session import start_tensorflow

if TYPE_CHECKING:
    from relation_tf.networks.language_model import LanguageModel

_INSIDE = "##"  # begins word pieces inside a word
_CLOSING = {*".,;:!?)"}  # no space before them


def generate(
    folder: str | Path,
    prompt: str,
    settings: GenerationSettings | None = None,
    *,
    method: str | None = None,
    encoder_seed: int | None = None,
    plugins: Sequence[str] = (),
    on_text: Callable[[int, str], None] | None = None,
) -> list[str]:
    """Continue a text with a causal encoder from `relation-tf pretrain`.

    Padding and unknown tokens are never generated. A mechanism with `initial_state` and `step`
    reads each token once; others read the whole text again for each token. The draws of a sample
    depend on the seed and the number of the sample only.

    Args:
        folder: The folder `--out` of `relation-tf pretrain`.
        prompt: The beginning of the text.
        settings: How to generate, by default `GenerationSettings()`.
        method: Method of the folder to use. Required if the folder has several.
        encoder_seed: Seed of its run, by default the first finished one.
        plugins: Modules to import first, which may register mechanisms.
        on_text: Called with the number of the sample, from 0, and each new part of its text.

    Returns:
        The texts: each is the prompt and its continuation.

    Raises:
        SuiteError: If the folder, the method, the prompt or a setting cannot be used.

    Example:
        >>> generate("nowhere", "so good", GenerationSettings(tokens=4, greedy=True))
        Traceback (most recent call last):
            ...
        relation_tf.errors.SuiteError: nowhere: must be a folder written by \
`relation-tf pretrain`, with pretraining.json
    """
    settings = settings or GenerationSettings()
    load_plugins(plugins)
    folder = expand_home(folder)
    pretrained = read_encoder(folder, method, encoder_seed, "encoder_seed")
    ids = pretrained.vocabulary.encode([prompt]).ids.tolist()
    if not ids:
        raise OptionError("prompt", "must contain at least one token. Received: an empty text")
    excluded = special_ids(pretrained.vocabulary)
    allowed = pretrained.vocabulary.size - len(excluded)
    if settings.top_k is not None and settings.top_k > allowed:
        raise OptionError(
            "top_k",
            f"must be at most {allowed:,}, the number of tokens that can be generated. "
            f"Received: {settings.top_k}",
        )
    start_tensorflow(Path(os.devnull), pretrained.settings["threads"])
    with interrupts_delayed():
        model = make_language_model(pretrained)
        reader = _Reader(model, ids, settings.tokens)
    words = {i: word for word, i in pretrained.vocabulary.words.items()}
    texts = []
    for sample in range(settings.samples):
        parts = []
        for part in _parts(reader, prompt.strip(), words, excluded, settings, sample):
            parts.append(part)
            if on_text is not None:
                on_text(sample, part)
        texts.append("".join(parts))
    return texts


def read_encoder(
    folder: Path, method: str | None, seed: int | None, seed_option: str
) -> PretrainedEncoder:
    """Read the encoder of a folder that a user names.

    Args:
        folder: The folder `--out` of `relation-tf pretrain`.
        method: The method; None for the only one.
        seed: Seed of its run; None for the first finished one.
        seed_option: Name of the option with the seed, for messages.

    Raises:
        SuiteError, DataError: If there is no such run, or it is broken.
    """
    pretrained = load_pretrained(folder, method or _only_method(folder), seed)
    # A suite uses the only run of a mechanism for all of its seeds; here the user named the seed.
    if seed not in (None, pretrained.seed):
        raise OptionError(
            seed_option, f"must be that of a run: {pretrained.seed}. Received: {seed}"
        )
    return pretrained


def make_language_model(pretrained: PretrainedEncoder) -> LanguageModel:
    """Build the language model of a pre-trained causal encoder, with its weights.

    Args:
        pretrained: The encoder.

    Raises:
        SuiteError: If it is not causal, has no output layer, or its mechanism has changed or has
            other weights.
    """
    from relation_tf.networks.language_model import language_model

    settings, path = pretrained.settings, pretrained.folder / WEIGHTS
    if settings["objective"] != "causal":
        raise SuiteError(
            f"{pretrained.folder}: must be pre-trained with --objective causal to generate or "
            f"score text. Received: {settings['objective']}"
        )
    layers = custom_layers(pretrained.mechanism, {})
    if custom_digest(layers, "mechanism") != settings.get("mechanism_digest"):
        raise SuiteError(
            f"{pretrained.folder}: its layer {pretrained.mechanism} has changed since the "
            "pre-training. Restore the layer, or pre-train again with another --out"
        )
    if pretrained.bias is None:
        raise SuiteError(
            f"{path}: has no output layer, because an earlier version wrote it. Run "
            "`relation-tf pretrain` again with another --out"
        )
    with in_one_line(f"{path}: mechanism {pretrained.mechanism}"):
        model = language_model(
            pretrained.mechanism,
            pretrained.vocabulary.size,
            "causal",
            settings["embedding_dim"],
            settings["num_layers"],
            settings["units"],
            settings["norm"],
        )
        words = pretrained.embedding / np.float32(model.embedding_scale)
        model.embedding.set_weights([words])
        model.encoder.set_weights(list(pretrained.weights))
        model.bias.assign(pretrained.bias)
        if model.projection is not None:
            model.projection.set_weights([pretrained.projection])
    return model


def _only_method(folder: Path) -> str:
    """Return the only method of a folder."""
    methods = [*dict.fromkeys(str(run["method"]) for run in finished_runs(folder))]
    if len(methods) > 1:
        raise OptionError("method", f"must be one of {join_names(methods)}. Received: none")
    return methods[0] if methods else "any method"  # then the folder has no runs: an error


def special_ids(vocabulary: Vocabulary) -> list[int]:
    """Return the ids that are not words."""
    return [vocabulary.words[name] for name in (PADDING, UNKNOWN, START)
            if name in vocabulary.words]  # fmt: skip


class _Reader:
    """Model that has read the prompt: logits of the next token after more tokens.

    Args:
        model: A causal language model.
        ids: Ids of the prompt.
        tokens: Maximum number of further tokens.

    Raises:
        SuiteError: If the state of a custom mechanism has no constant shape.
    """

    def __init__(self, model: LanguageModel, ids: list[int], tokens: int) -> None:
        from relation_tf.networks.next_token import state_change

        self.model = model
        mixer = model.encoder.blocks[0].mixer
        self._steps = hasattr(mixer, "initial_state") and hasattr(mixer, "step")
        state: Any = ids[:-1]
        if self._steps:
            assert model.encoder.units is not None  # of any language model
            if changed := state_change(mixer, model.encoder.units):
                raise SuiteError(f"the encoder cannot generate text: {changed}")
            state = model.initial_state(1, len(ids) + tokens)
            self._step = _compiled(model, state)
            for token in ids[:-1]:
                _, state = self._step(np.array([token], np.int32), state)
        self.logits, self.state = self.read(ids[-1], state)

    def read(self, token: int, state: Any) -> tuple[np.ndarray, Any]:
        """Read a token; return the logits of the next token and the new state."""
        with interrupts_delayed():
            if self._steps:
                logits, state = self._step(np.array([token], np.int32), state)
                return np.asarray(logits)[0], state
            state = [*state, token]
            logits = self.model(np.array([state]), at=np.array([[len(state) - 1]]))
            return np.asarray(logits)[0, 0], state


def _compiled(model: LanguageModel, state: Any) -> Any:
    """Return `model.step` for one text, compiled."""
    import tensorflow as tf

    from relation_tf.training.trainer import trace

    spec = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), state)
    return trace(model.step, tf.TensorSpec((1,), tf.int32), spec)


def _parts(
    reader: _Reader,
    prompt: str,
    words: dict[int, str],
    excluded: list[int],
    settings: GenerationSettings,
    sample: int,
) -> Iterator[str]:
    """Yield the prompt, then each new part of a text."""
    yield prompt
    generator = np.random.default_rng([settings.seed, sample])
    logits, state = reader.logits, reader.state
    for i in range(settings.tokens):
        token = choose_token(logits, settings, excluded, generator)
        yield spaced(words[token])
        if i + 1 < settings.tokens:
            logits, state = reader.read(token, state)


def choose_token(
    logits: np.ndarray,
    settings: GenerationSettings,
    excluded: Sequence[int],
    generator: np.random.Generator,
) -> int:
    """Return the id of the next token: the most probable one if greedy, else a random draw."""
    p = next_token_probabilities(
        logits, settings.temperature, settings.top_k, settings.top_p, excluded
    )
    return int(p.argmax() if settings.greedy else generator.choice(len(p), p=p))


def spaced(piece: str) -> str:
    """Return a word piece as text that continues other text."""
    if piece.startswith(_INSIDE):
        return piece.removeprefix(_INSIDE)
    return piece if piece in _CLOSING else f" {piece}"
