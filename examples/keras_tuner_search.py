"""A KerasTuner search over mechanism, width and learning rate on built-in text.

Run it with `python examples/keras_tuner_search.py`. Trials are written to a temporary folder.
"""

import tempfile

import keras
import keras_tuner
import numpy as np

from relation_tf.layers import Attention, LinearAttention, Relation
from relation_tf.tasks import load_task

TASK = load_task("SST-2", source="miniglue")
TRAIN, DEV = TASK.splits["train"], TASK.splits["dev"]


def build(hp):
    """Return a compiled classifier for the hyperparameters of a trial."""
    units = hp.Choice("units", [16, 32, 64])
    mechanism = hp.Choice("mechanism", ["attention", "linear-attention", "relation"])
    mixer = {
        "attention": Attention(units),
        "linear-attention": LinearAttention(units, normalization="sum"),
        "relation": Relation(units),
    }[mechanism]
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            # The mask of the embedding reaches the mixer and the mean: padding changes nothing.
            keras.layers.Embedding(TASK.vocabulary.size, units, mask_zero=True),
            mixer,
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2, "softmax"),
        ]
    )
    rate = hp.Float("learning_rate", 1e-3, 1e-1, sampling="log")
    optimizer = keras.optimizers.Adam(rate)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def padded(split):
    """Return the token ids of a split, padded with 0, and its labels."""
    return split.inputs[0].pad(np.arange(len(split))), split.labels


def main(max_trials=6, epochs=5, seed=1):
    """Search, print the trials from best to worst and return them."""
    with tempfile.TemporaryDirectory() as folder:
        tuner = keras_tuner.RandomSearch(
            build, "val_accuracy", max_trials, seed=seed, directory=folder, project_name="search"
        )
        tuner.search(
            *padded(TRAIN), validation_data=padded(DEV), epochs=epochs, batch_size=32, verbose=0
        )
        trials = tuner.oracle.get_best_trials(max_trials)
    for trial in trials:
        print(f"{trial.score:.3f}", trial.hyperparameters.values)
    return trials


if __name__ == "__main__":
    main()
