"""Pre-trained causal encoders as models of lm_eval, the Language Model Evaluation Harness.

Imports lm_eval, which is in the extra `harness`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import lm_eval.models  # noqa: F401  # it registers the models of lm_eval
import numpy as np
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import model_registry
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import simple_parse_args_string
from tqdm import tqdm

from relation_tf.config.plugins import load_plugins
from relation_tf.errors import OptionError, SuiteError, UnknownNameError, without_breaks
from relation_tf.files import expand_home
from relation_tf.tasks.vocabulary import Vocabulary
from relation_tf.training.generation import choose_token, read_encoder, spaced, special_ids
from relation_tf.training.generation_settings import GenerationSettings
from relation_tf.training.scoring import Scorer

NAME = "relation_tf"
"""Name of the model in lm_eval: `--model relation_tf`."""

_ARGUMENTS = ("pretrained", "method", "seed", "batch_size", "plugins")
_TOKENS = 256  # most generated tokens if the task gives no number, as in lm_eval's models
_GENERATION = ("until", "max_gen_toks", "do_sample", "temperature", "top_k", "top_p")


class PretrainedLM(LM):
    """A causal encoder from `relation-tf pretrain` as a model of lm_eval.

    Texts longer than the model's `length` are scored in windows; each token is scored once. The
    first token of a text without context is scored by the bias of the output layer.

    Args:
        pretrained: The folder `--out` of `relation-tf pretrain`.
        method: Method of the folder to use. Required if the folder has several.
        seed: Seed of its run, by default the first finished one.
        batch_size: Texts per batch. Results do not depend on it, except for rounding.
        plugins: Module to import first, or several, which may register mechanisms.
        **others: Refused.

    Raises:
        SuiteError: If the folder, the method or an argument cannot be used.

    Example:
        >>> PretrainedLM("nowhere")
        Traceback (most recent call last):
            ...
        relation_tf.errors.SuiteError: nowhere: must be a folder written by \
`relation-tf pretrain`, with pretraining.json
    """

    def __init__(
        self,
        pretrained: str = "",
        method: str | None = None,
        seed: int | None = None,
        batch_size: int | str = 1,
        plugins: str | Sequence[str] = (),
        **others: Any,
    ) -> None:
        super().__init__()
        for name in others:
            raise UnknownNameError("model argument", name, _ARGUMENTS)
        if not pretrained:
            raise OptionError("pretrained", "must be a folder. Received: none")
        load_plugins([plugins] if isinstance(plugins, str) else plugins)
        encoder = read_encoder(expand_home(str(pretrained)), method, seed, "seed")
        self._vocabulary = encoder.vocabulary
        self._words = {i: word for word, i in encoder.vocabulary.words.items()}
        self._excluded = special_ids(encoder.vocabulary)
        self._scorer = Scorer(encoder, _size(batch_size))

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None
    ) -> Self:
        """Create the model from the arguments of lm_eval.

        Args:
            arg_dict: `--model_args`.
            additional_config: `--batch_size`, used if it is not among the arguments, and
                `--max_batch_size` and `--device`, which are for PyTorch.
        """
        batch_size = (additional_config or {}).get("batch_size")
        given = {} if batch_size is None else {"batch_size": batch_size}
        return cls(**{**given, **arg_dict})

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> Self:
        """Create the model from arguments such as `"pretrained=causal,method=relation"`."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    def loglikelihood(self, requests: Iterable[Any]) -> list[tuple[float, bool]]:
        """Return the log-probability of each continuation, and if all of its tokens are greedy."""
        texts = [self._split(*request.args) for request in requests]
        return [(each.log_probability, each.greedy) for each in self._scorer.score(texts, tqdm)]

    def loglikelihood_rolling(self, requests: Iterable[Any]) -> list[float]:
        """Return the log-probability of each text."""
        texts = [(self._encode(*request.args), 0) for request in requests]
        return [each.log_probability for each in self._scorer.score(texts, tqdm)]

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Return the continuation of each context, up to a stop sequence.

        Raises:
            SuiteError: If a generation option of the task is not supported.
        """
        texts = [
            _Continuation(self._encode(context), options, self._vocabulary, number)
            for number, (context, options) in enumerate(request.args for request in requests)
        ]
        size = self._scorer.batch_size
        for i in tqdm(range(0, len(texts), size)):
            active = texts[i : i + size]
            while active:
                logits = self._scorer.next_logits([text.ids for text in active])
                for text, row in zip(active, logits, strict=True):
                    text.add(row, self._excluded, self._words)
                active = [text for text in active if not text.is_complete]
        return [text.text for text in texts]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._vocabulary.encode([text]).ids.tolist()
        return ids

    def _split(self, context: str, continuation: str) -> tuple[list[int], int]:
        """Return the ids of both texts together, and the number of them that are context.

        If a word begins in the context and ends in the continuation, its pieces are scored that
        are not pieces of the context alone.
        """
        before, ids = self._encode(context), self._encode(context + continuation)
        same = 0
        while same < min(len(before), len(ids)) and before[same] == ids[same]:
            same += 1
        return ids, same


class _Continuation:
    """Text that is being generated.

    Args:
        ids: Ids of the context.
        options: Generation options of the task.
        vocabulary: The vocabulary of the ids.
        number: Number of the request; each has its own random draws.
    """

    def __init__(
        self, ids: list[int], options: Mapping[str, Any], vocabulary: Vocabulary, number: int
    ) -> None:
        given = normalize_gen_kwargs(dict(options), _TOKENS)
        for name in given:
            if name not in _GENERATION:
                raise UnknownNameError("generation option", name, _GENERATION)
        self._stops = [_stop_pattern(str(stop), vocabulary) for stop in given["until"] if stop]
        drawn = {name: given[name] for name in ("temperature", "top_k", "top_p")
                 if given["do_sample"] and name in given}  # fmt: skip
        self._settings = GenerationSettings(
            tokens=given["max_gen_toks"], greedy=not given["do_sample"], **drawn
        )
        self._generator = np.random.default_rng(number)
        self.ids, self.text, self._generated, self.is_complete = [*ids], "", 0, False

    def add(self, logits: np.ndarray, excluded: Sequence[int], words: Mapping[int, str]) -> None:
        """Add the next token; the text ends before the first stop sequence."""
        token = choose_token(logits, self._settings, excluded, self._generator)
        self.ids.append(token)
        self._generated += 1
        self.text += spaced(words[token])
        found = [match.start() for stop in self._stops if (match := stop.search(self.text))]
        if found:
            self.text = self.text[: min(found)]
        self.is_complete = bool(found) or self._generated == self._settings.tokens


def _stop_pattern(stop: str, vocabulary: Vocabulary) -> re.Pattern[str]:
    """Return a pattern of a stop sequence in generated text.

    That text is normalized, with spaces next to most punctuation marks.
    """
    parts: list[str] = []
    for part in re.findall(r"\s+|\S+", stop):
        parts += [part] if part.isspace() else vocabulary.split(part)
    return re.compile(" ?".join(map(re.escape, parts)))


def run_lm_eval(arguments: Sequence[str]) -> None:
    """Run the command `lm_eval` with the model `relation_tf`.

    Versions of lm_eval up to 0.4.13 do not find models of other packages.

    Args:
        arguments: The arguments of `lm_eval`.

    Raises:
        SuiteError: If the model cannot be used, or lm_eval refuses the arguments.
    """
    if NAME not in model_registry:
        model_registry.register(NAME, target=PretrainedLM)
    before = sys.argv
    sys.argv = ["lm_eval", *arguments]
    try:
        cli_evaluate()
    except OptionError as error:  # its flag would be one of relation-tf
        raise SuiteError(str(error)) from error
    except ValueError as error:  # such as an unknown task
        raise SuiteError(f"lm_eval: {without_breaks(error)}") from error
    finally:
        sys.argv = before


def _size(batch_size: int | str) -> int:
    """Return a batch size; lm_eval gives it as text."""
    text = str(batch_size)
    if not text.isdecimal() or not int(text):
        raise OptionError("batch_size", f"must be an integer, 1 or more. Received: {text:.40}")
    return int(text)
