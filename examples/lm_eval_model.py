"""Evaluate a causal encoder of `relation-tf pretrain` with lm_eval (`pip install lm_eval`).

Run it with the options of lm_eval:

    python lm_eval_model.py --model relation_tf --model_args folder=causal,method=relation \
        --tasks valid.yaml
"""

import numpy as np
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from scipy.special import log_softmax
from tokenizers.decoders import WordPiece

from relation_tf.training import load_pretrained, make_language_model


@register_model("relation_tf")
class CausalEncoder(LM):
    """A causal encoder as a model of lm_eval.

    Texts longer than the training sequences are scored in windows, each token once. The first token
    of a text has no context: its logits are the bias of the output layer.
    """

    def __init__(self, folder, method, seed=None, **others):  # others: batch_size, device
        super().__init__()
        pretrained = load_pretrained(folder, method, seed)
        self.network = make_language_model(pretrained)
        self.length = pretrained.settings["length"]
        self.vocabulary = pretrained.vocabulary
        self.pieces = {i: piece for piece, i in self.vocabulary.words.items()}

    def loglikelihood(self, requests):
        """Return the log-probability of each continuation, and if all of its tokens are greedy."""
        return [self._score(*request.args) for request in requests]

    def loglikelihood_rolling(self, requests):
        """Return the log-probability of each text."""
        return [self._score("", *request.args)[0] for request in requests]

    def generate_until(self, requests):
        """Return the greedy continuation of each context, up to a stop sequence in lower case."""
        return [self._continue(*request.args) for request in requests]

    def _encode(self, text):
        return self.vocabulary.encode([text]).ids.tolist()

    def _logits(self, ids):
        """Return the logits of each token and of the next one: row i has read i tokens."""
        bias = self.network.bias.numpy()[None]
        return np.concatenate([bias, self.network(np.array([ids]))[0]]) if ids else bias

    def _score(self, context, continuation):
        before, ids = self._encode(context), self._encode(context + continuation)
        same = np.cumprod([a == b for a, b in zip(before, ids, strict=False)])
        start = int(same.sum())  # a word may begin in the context and end in the continuation
        total, greedy = 0.0, True
        while start < len(ids):
            end = min(len(ids), max(start + self.length - 1, self.length))
            begin = max(0, end - self.length)
            logits = self._logits(ids[begin : end - 1])[start - begin :]
            scored = np.array(ids[start:end])
            total += log_softmax(logits, axis=1)[np.arange(len(scored)), scored].sum()
            greedy &= bool((logits.argmax(axis=1) == scored).all())
            start = end
        return float(total), greedy

    def _continue(self, context, options):
        if options.get("do_sample"):
            raise NotImplementedError("this model decodes greedily")
        until = options.get("until", [])
        ids, new, text = self._encode(context), [], ""
        for _ in range(options.get("max_gen_toks", 256)):
            logits = self._logits([*ids, *new][-(self.length - 1) :])[-1]
            logits[:2] = -np.inf  # padding and unknown tokens
            new.append(int(logits.argmax()))
            text = WordPiece(cleanup=False).decode(["", *(self.pieces[i] for i in new)])
            found = [text.index(stop) for stop in until if stop and stop in text]
            if found:
                return text[: min(found)]
        return text


if __name__ == "__main__":
    cli_evaluate()
