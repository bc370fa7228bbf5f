"""A KerasHub text encoder with Relation or linear attention instead of attention.

A `keras_hub.models.Backbone` is trained on built-in text, saved and loaded again. Its weights start
from random values: no preset is downloaded. Run it with `python examples/keras_hub_encoder.py`.
"""

import tempfile
from functools import partial
from pathlib import Path

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from relation_tf.layers import Attention, LinearAttention, Relation
from relation_tf.tasks import find_source

MIXERS = {
    "attention": Attention,
    "linear-attention": partial(LinearAttention, normalization="sum"),
    "relation": Relation,
}


@keras.saving.register_keras_serializable(package="examples")
class MixerBackbone(keras_hub.models.Backbone):
    """Transformer encoder with another mechanism instead of attention.

    Inputs: `token_ids` and `padding_mask` (False or 0 at padding), both `(batch, tokens)`.
    Output: `(batch, tokens, hidden_dim)`.
    """

    def __init__(
        self,
        vocabulary_size,
        num_layers,
        hidden_dim,
        intermediate_dim,
        mechanism="relation",
        dropout=0.1,
        max_sequence_length=64,
        dtype=None,
        **kwargs,
    ):
        token_ids = keras.Input((None,), dtype="int32", name="token_ids")
        padding_mask = keras.Input((None,), dtype="bool", name="padding_mask")
        embedding = keras_hub.layers.TokenAndPositionEmbedding(
            vocabulary_size, max_sequence_length, hidden_dim, dtype=dtype, name="embedding"
        )
        x = embedding(token_ids)
        for i in range(num_layers):
            mixer = MIXERS[mechanism](hidden_dim, dtype=dtype, name=f"mixer_{i}")
            y = keras.layers.LayerNormalization(dtype=dtype, name=f"mixer_norm_{i}")(x)
            # `query_mask` also masks the tokens that are mixed; outputs at padding are zero.
            y = mixer(y, query_mask=padding_mask)
            x = x + keras.layers.Dropout(dropout, dtype=dtype, name=f"mixer_dropout_{i}")(y)
            y = keras.layers.LayerNormalization(dtype=dtype, name=f"dense_norm_{i}")(x)
            y = keras.layers.Dense(intermediate_dim, "gelu", dtype=dtype, name=f"wide_{i}")(y)
            y = keras.layers.Dense(hidden_dim, dtype=dtype, name=f"narrow_{i}")(y)
            x = x + keras.layers.Dropout(dropout, dtype=dtype, name=f"dense_dropout_{i}")(y)
        x = keras.layers.LayerNormalization(dtype=dtype, name="norm")(x)
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        super().__init__(inputs=inputs, outputs=x, dtype=dtype, **kwargs)
        self.token_embedding = embedding.token_embedding
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.mechanism = mechanism
        self.dropout = dropout
        self.max_sequence_length = max_sequence_length

    def get_config(self):
        """Return the arguments of the constructor."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "mechanism": self.mechanism,
            "dropout": self.dropout,
            "max_sequence_length": self.max_sequence_length,
        }


def classifier(backbone, num_classes):
    """Return a model with the mean over the unmasked tokens and an output layer on a backbone."""
    inputs = backbone.input
    mean = keras.layers.GlobalAveragePooling1D()(backbone(inputs), mask=inputs["padding_mask"])
    return keras.Model(inputs, keras.layers.Dense(num_classes, "softmax")(mean))


def text_encoder(texts, max_sequence_length):
    """Return the vocabulary of some texts and a function from texts to the backbone's inputs."""
    vocabulary = keras_hub.tokenizers.compute_word_piece_vocabulary(
        tf.data.Dataset.from_tensor_slices(texts),
        vocabulary_size=400,
        lowercase=True,
        reserved_tokens=["[PAD]", "[UNK]"],
    )
    tokenizer = keras_hub.tokenizers.WordPieceTokenizer(
        vocabulary, sequence_length=max_sequence_length, lowercase=True
    )

    def encode(texts):
        token_ids = np.asarray(tokenizer(texts))
        return {"token_ids": token_ids, "padding_mask": token_ids != tokenizer.token_to_id("[PAD]")}

    return vocabulary, encode


def main(mechanism="relation", epochs=10, seed=1):
    """Train, save and load a classifier; return the trained and the loaded accuracy."""
    keras.utils.set_random_seed(seed)
    splits = find_source("SST-2", "miniglue").read().splits
    train, dev = splits["train"], splits["dev"]
    vocabulary, encode = text_encoder(list(train.texts[0]), max_sequence_length=24)
    backbone = MixerBackbone(len(vocabulary), 2, 64, 128, mechanism, max_sequence_length=24)
    model = classifier(backbone, num_classes=2)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(encode(list(train.texts[0])), train.labels, 32, epochs, verbose=0)
    dev_inputs = encode(list(dev.texts[0]))
    _, trained = model.evaluate(dev_inputs, dev.labels, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.keras"
        model.save(path)
        _, loaded = keras.saving.load_model(path).evaluate(dev_inputs, dev.labels, verbose=0)
    print(f"{mechanism}: {model.count_params():,} parameters, dev accuracy {trained:.3f}")
    print(f"after saving and loading: {loaded:.3f}")
    return trained, loaded


if __name__ == "__main__":
    for name in MIXERS:
        main(name)
