"""
Title: Replace attention with a linear mechanism in text classification
Author: The relation_tf developers
Date created: 2026/11/25
Last modified: 2026/11/25
Description: Train attention, linear attention and Relation, and test if their scores differ.
Accelerator: None
"""

"""shell
pip install "relation-tf[tensorflow]"
"""

"""
## Introduction

Attention compares each token with each other token, so its time grows with the square of
the number of tokens. Other mechanisms need linear time. This example replaces the
attention layer of a small Transformer encoder by two of them:

- **Linear attention** ([Katharopoulos et al., 2020](https://arxiv.org/abs/2006.16236))
  replaces the softmax by a feature map, so that one sum over the tokens serves all
  queries.
- **Relation** ([Yamada et al., 2022](https://doi.org/10.3389/frai.2022.924688))
  projects each token and the mean of all tokens, and multiplies the two feature by
  feature.

Both are Keras layers of the package `relation_tf` with the call of attention:
`layer(query, value)`. They read the padding mask that Keras attaches to tensors.

One run per mechanism shows little, because other initial weights give other scores. So
each mechanism is trained with several seeds, and statistical tests compare the scores.
"""

"""
## Setup
"""

import keras
import numpy as np

from relation_tf.layers import LinearAttention, Relation, SinePositionEncoding
from relation_tf.stats import non_inferiority, steel_dwass
from relation_tf.tasks import load_task

SEEDS = [1, 2, 3, 4, 5]
EPOCHS = 8
UNITS = 64

"""
## Data

`relation_tf` has built-in text, so the example runs offline. It needs a bit more than a
minute of CPU time. The task is named after CoLA: is the sentence grammatical? A grammar
generates the sentences; they are not the data of GLUE.
"""

TASK = load_task("CoLA", source="miniglue")

"""
To use the IMDb reviews instead, unpack the
[Large Movie Review Dataset](https://ai.stanford.edu/~amaas/data/sentiment/), whose folder
is `aclImdb`, and replace this line by:

```python
TASK = load_task("IMDb", data=".", vocabulary_size=20000, max_length=256)
```

Rows are token ids, padded with 0.
"""


def padded(split):
    ids = split.inputs[0].pad(np.arange(len(split)))
    return ids, split.labels


x_train, y_train = padded(TASK.splits["train"])
x_val, y_val = padded(TASK.splits[TASK.validation])
print("training rows:", x_train.shape, "validation rows:", x_val.shape)

"""
## Model

One Transformer block. `mixer` is the only part that changes. The mask of the embedding
reaches the mixer and the mean over tokens, so padding does not change the output.
"""


def build_model(mixer):
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(TASK.vocabulary.size, UNITS, mask_zero=True)(ids)
    x = SinePositionEncoding()(x)
    x = keras.layers.Add()([x, mixer(x, x)])
    x = keras.layers.LayerNormalization()(x)
    y = keras.layers.Dense(2 * UNITS, activation="relu")(x)
    x = keras.layers.Add()([x, keras.layers.Dense(UNITS)(y)])
    x = keras.layers.LayerNormalization()(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, keras.layers.Dense(2, activation="softmax")(x))


def make_mixer(name):
    if name == "attention":
        return keras.layers.MultiHeadAttention(num_heads=4, key_dim=UNITS // 4)
    if name == "linear-attention":
        return LinearAttention(UNITS, normalization="sum", num_heads=4)
    return Relation(UNITS)


MIXERS = ["attention", "linear-attention", "relation"]

"""
`MultiHeadAttention` has an output projection and biases, the other two have neither, so
the model with attention has more parameters.
"""

for name in MIXERS:
    print(f"{name}: {build_model(make_mixer(name)).count_params():,} parameters")

"""
## Training

All mechanisms have the same budget: width, epochs, batch size, learning rate and seeds.
The score of a run is the validation accuracy after the last epoch. No setting is tuned
for one of the mechanisms.
"""


def train(name, seed):
    keras.utils.set_random_seed(seed)
    model = build_model(make_mixer(name))
    model.compile(
        optimizer=keras.optimizers.Adam(0.003),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(x_train, y_train, batch_size=32, epochs=EPOCHS, verbose=0)
    return model.evaluate(x_val, y_val, verbose=0)[1]


scores = {name: [train(name, seed) for seed in SEEDS] for name in MIXERS}
for name, values in scores.items():
    shown = " ".join(f"{value:.3f}" for value in values)
    mean, spread = np.mean(values), np.std(values, ddof=1)
    print(f"{name}: {shown}; mean {mean:.3f}, SD {spread:.3f}")

"""
## Do the mechanisms differ?

The Steel-Dwass test compares all pairs by the ranks of their scores. Its p-values are
corrected for the number of pairs.
"""

differences = steel_dwass(scores)
print(differences)

"""
A difference that is not significant does not show that two mechanisms are equal: with few
seeds, only large differences are significant.

## Is a linear mechanism no worse than attention?

This is another question, and it needs a margin: the largest decrease of accuracy that you
accept. Choose it before you look at the scores. The verdict follows from the interval of
the difference, in this order: "better" if it is above zero, "no worse" if it excludes a
decrease of the margin or more, "worse" if it is below zero, otherwise "inconclusive".
"""

verdicts = non_inferiority(scores, reference="attention", margin=0.01)
print(verdicts)

"""
## Conclusion

The printed verdicts hold for this model, this budget and this generated text. Another
learning rate, more epochs or another dataset can change the order of the mechanisms.
These sentences are short, so the example says nothing about speed either.

To compare mechanisms on real data, with tuned settings and on several tasks, use the
suites of `relation_tf`: `relation-tf suites` lists them.
"""
