"""Language models of pre-trained causal encoders, and text from them."""

from __future__ import annotations

import numpy as np
from keras import ops
from scipy.special import softmax
from tokenizers.decoders import WordPiece

from relation_tf.config.layer_source import custom_digest
from relation_tf.errors import SuiteError, in_one_line
from relation_tf.networks.language_model import LanguageModel, language_model
from relation_tf.networks.mechanisms import custom_layers
from relation_tf.tasks.rows import PADDING, START, UNKNOWN
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.pretrained import WEIGHTS, PretrainedEncoder


def generate(
    model: LanguageModel,
    prompt: str,
    vocabulary: Vocabulary,
    tokens: int = 50,
    *,
    temperature: float = 1.0,
    seed: int = 1,
) -> str:
    """Continue a text with a causal language model. Padding and unknown tokens are not generated.

    Args:
        model: The model, such as that of `make_language_model`.
        prompt: The beginning of the text.
        vocabulary: The word pieces of the model.
        tokens: Number of tokens to generate.
        temperature: Each token is drawn from `softmax(logits / temperature)`; 0 takes the most
            probable token (greedy decoding).
        seed: Seed of the draws.

    Returns:
        The prompt and its continuation.

    Raises:
        ValueError: If the prompt has no token, or `temperature` is negative or not finite.

    Example:
        >>> from relation_tf.networks import language_model
        >>> from relation_tf.tasks import Vocabulary
        >>> vocabulary = Vocabulary.train(["so good so bad"], tokens="wordpiece")
        >>> model = language_model("relation", vocabulary.size, "causal", num_layers=1, units=8)
        >>> generate(model, "so good", vocabulary, tokens=5).startswith("so good")
        True
    """
    if not 0 <= temperature < np.inf:
        raise ValueError(f"`temperature` must be 0 or more. Received: temperature={temperature}")
    ids = vocabulary.encode([prompt]).ids.tolist()
    if not ids:
        raise ValueError(f"`prompt` must contain at least one token. Received: prompt={prompt!r}")
    read = len(ids)
    pieces = {i: piece for piece, i in vocabulary.words.items()}
    special = [i for i, piece in pieces.items() if piece in (PADDING, UNKNOWN, START)]
    generator = np.random.default_rng(seed)
    for _ in range(tokens):
        outputs = model(np.array([ids]), at=np.array([[-1]]))
        logits = ops.convert_to_numpy(outputs)[0, 0].astype(float)
        logits[special] = -np.inf
        best = logits.argmax()
        if temperature:
            best = generator.choice(len(logits), p=softmax((logits - logits[best]) / temperature))
        ids.append(int(best))
    continuation = WordPiece(cleanup=False).decode(["", *(pieces[i] for i in ids[read:])])
    return f"{prompt.strip()}{continuation}"


def make_language_model(pretrained: PretrainedEncoder) -> LanguageModel:
    """Build the language model of a pre-trained causal encoder, with its weights.

    Args:
        pretrained: The encoder.

    Raises:
        SuiteError: If it is not causal, or its mechanism has changed or has other weights.
    """
    settings, path = pretrained.settings, pretrained.folder / WEIGHTS
    if settings["objective"] != "causal":
        raise SuiteError(
            f"{pretrained.folder}: must be pre-trained with --objective causal to generate "
            f"text. Received: {settings['objective']}"
        )
    layers = custom_layers(pretrained.mechanism, {})
    if custom_digest(layers, "mechanism") != settings.get("mechanism_digest"):
        raise SuiteError(
            f"{pretrained.folder}: its layer {pretrained.mechanism} has changed since the "
            "pre-training. Restore the layer, or pre-train again with another --out"
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
