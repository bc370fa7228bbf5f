"""Rules between the keys of a suite. Does not import Keras."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relation_tf.config.facts import SuiteFacts
from relation_tf.config.families import families_of, faults
from relation_tf.config.method import TRANSFERRED, Method
from relation_tf.config.names import check_named_values, check_new_names
from relation_tf.config.sweep import check_sweep
from relation_tf.config.training import OF_TIMED, TrainingSettings
from relation_tf.errors import did_you_mean
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import MECHANISMS, STOPPING_RULES

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite

MAX_RUNS = 100_000
"""Maximum number of runs of a suite."""


@dataclass(frozen=True)
class Rule:
    """Values that keys must have under a condition.

    Attributes:
        when: Function of a suite and a method; returns the value for `because`, or None or False
            if the rule does not apply.
        keys: Keys of the suite or of methods, and their allowed values.
        because: End of the message "key 'x': must be ...".
    """

    when: Callable[[SuiteFacts, Method], Any]
    keys: Mapping[str, Sequence[Any]]
    because: str


_DEFAULTS = {key: (value,) for key, value in TrainingSettings().model_dump().items()}
_NONE: tuple[Any, ...] = (None,)
_TIMED = "for {}, which is timed and not trained"
_READ_AS_IDS = ("word", "wordpiece", "byte")


def _defaults(*keys: str) -> dict[str, tuple[Any, ...]]:
    return {key: _DEFAULTS[key] for key in keys}


def _writes(method: Method) -> bool:
    return find_mechanism(method.mechanism).output_type == "sequence"


def _returns_tokens(method: Method) -> bool:
    entry = find_mechanism(method.mechanism)
    return entry.output_type == "tokens" and entry.input_type == "tokens"


def _reads_text(method: Method) -> bool:
    return find_mechanism(method.mechanism).input_type == "text"


_RULES = (
    Rule(
        lambda f, m: f.group,
        {"xla": (False,), "tokens": _READ_AS_IDS, "pretrained": _NONE, "size": _NONE},
        "for the group {}",
    ),
    Rule(
        lambda f, m: f.needs and f.group,
        {"stopping": ()},
        "a rule without required metrics for the group {}",
    ),
    Rule(lambda f, m: f.alone, {"sharing": ("shared",)}, "for {}, which is not a group"),
    Rule(
        lambda f, m: f.untransferable,
        {"sharing": ("shared", "shared-private", "adversarial")},
        "for the group {}: a transfer needs three or more tasks with equal numbers of texts and "
        "labelled test rows",
    ),
    Rule(
        lambda f, m: m.sharing in TRANSFERRED and m.sharing,
        {**_defaults("callbacks", "time_limit"), "save_models": (False,), "sweep": _NONE},
        "with sharing = '{}', whose runs train several networks",
    ),
    Rule(
        lambda f, m: f.suite.network == "plain",
        _defaults("hidden_units", "hidden_activation"),
        "with network = 'plain', which has no hidden layer",
    ),
    Rule(
        lambda f, m: f.timed,
        {**_defaults(*(_DEFAULTS.keys() - OF_TIMED)), "group": ([],), "size": _NONE},
        _TIMED,
    ),
    Rule(
        lambda f, m: f.written,
        {
            **_defaults("xla", "embeddings", "tokens", "start_token", "validation_split"),
            **_defaults(
                "vocabulary", "vocabulary_size", "max_length", "pretrained", "positions", "segments"
            ),
            **_defaults("short_convolution", "network", "embedding_dim", "embedding_initializer"),
            **_defaults("initializer", "hidden_units", "hidden_activation", "compute"),
            "group": ([],),
        },
        "for {}, whose characters are generated",
    ),
    Rule(
        lambda f, m: f.token_labels,
        {
            **_defaults("embeddings", "tokens", "start_token", "validation_split"),
            **_defaults("vocabulary", "vocabulary_size", "pretrained", "segments", "compute"),
            "group": ([],),
        },
        "for {}, a token classification task",
    ),
    Rule(
        lambda f, m: None if f.suite.positions == "learned" else f.token_labels,
        _defaults("max_length"),
        "for {}, whose texts have a fixed length, unless positions = 'learned'",
    ),
    Rule(
        lambda f, m: None if _returns_tokens(m) else f.token_labels,
        {"mechanism": ()},
        "a mechanism that returns tokens for {}",
    ),
    Rule(
        lambda f, m: None if _writes(m) else f.written,
        {"mechanism": ()},
        "an encoder-decoder for {}",
    ),
    Rule(
        lambda f, m: f.classified if _writes(m) else None,
        {"mechanism": ()},
        "a mechanism other than an encoder-decoder for {}",
    ),
    Rule(lambda f, m: _writes(m), {"size": _NONE}, "for an encoder-decoder"),
    Rule(
        lambda f, m: f.unclassified,
        {"feature_projection": (False,)},
        "for {}, which has no classes",
    ),
    Rule(
        lambda f, m: m.sharing != "shared" and m.sharing,
        {"feature_projection": (False,)},
        "with sharing = '{}'",
    ),
    Rule(
        lambda f, m: f.suite.pretrained,
        {
            "tokens": ("wordpiece",),
            "feature_projection": (False,),
            **_defaults("embeddings", "start_token", "vocabulary", "vocabulary_size"),
            **_defaults("positions", "segments", "short_convolution"),
        },
        "with 'pretrained', which has its own vocabulary and embedding",
    ),
    Rule(
        lambda f, m: f.suite.pretrained is None,
        {"encoder_weights": (None, "random")},
        "in a suite without 'pretrained'",
    ),
    Rule(
        lambda f, m: not find_mechanism(m.mechanism).pretrainable,
        {"encoder_weights": (None, "frozen", "random")},
        "for a mechanism that cannot start from a pre-trained encoder",
    ),
    Rule(
        lambda f, m: (weights := f.suite.encoder_weights(m)) != "random" and weights,
        {"size": _NONE},
        "with encoder_weights = '{}', because the pre-trained encoder has a fixed size",
    ),
    Rule(
        lambda f, m: f.setting(m, "tokens") == "text",
        _defaults(
            "embeddings", "start_token", "vocabulary", "vocabulary_size", "max_length", "xla"
        ),
        "with tokens = 'text', where a saved model reads text, which XLA cannot compile",
    ),
    Rule(
        lambda f, m: f.setting(m, "tokens") == "byte",
        _defaults("embeddings", "vocabulary", "vocabulary_size"),
        "with tokens = 'byte', where the 256 bytes are the vocabulary",
    ),
    Rule(
        lambda f, m: _reads_text(m) and m.name,
        {"tokens": ("text",), **_defaults("positions", "segments", "short_convolution")},
        "for method {}",
    ),
    Rule(
        lambda f, m: not _reads_text(m) and m.name,
        {"tokens": _READ_AS_IDS},
        "for method {}",
    ),
    Rule(
        lambda f, m: f.setting(m, "embeddings") == "glove" and m.size and m.sized_by == "width",
        {"sized_by": ()},
        "other than 'width' with embeddings = 'glove', because word vectors have a width",
    ),
    Rule(lambda f, m: f.timed, {"sweep": _NONE, "save_models": (False,)}, _TIMED),
    Rule(
        lambda f, m: STOPPING_RULES[f.suite.stopping].target is not None and f.suite.stopping,
        {"sweep": _NONE},
        "with stopping = '{}': a sweep compares validation scores, not times",
    ),
    Rule(lambda f, m: f.compares == "over-tasks", {"test": ()}, "a test over seeds"),
    Rule(
        lambda f, m: f.compares == "all-pairs" and f.suite.test,
        {"control": _NONE},
        "with test = '{}', which compares all pairs",
    ),
    Rule(
        lambda f, m: f.compares == "against-control" and f.suite.control is None and f.suite.test,
        {"control": ()},
        "a method of the suite with test = '{}', which compares with it",
    ),
    Rule(
        lambda f, m: f.over_tasks and f.over_tasks.compares != "over-tasks",
        {"test_over_tasks": ()},
        "a test over tasks",
    ),
    Rule(
        lambda f, m: f.over_tasks and not f.over_tasks.needs_control and f.suite.test_over_tasks,
        {"control": _NONE},
        "with test_over_tasks = '{}', which compares all pairs",
    ),
    Rule(
        lambda f, m: (
            f.over_tasks
            and f.over_tasks.needs_control
            and f.suite.control is None
            and f.suite.test_over_tasks
        ),
        {"control": ()},
        "a method of the suite with test_over_tasks = '{}', which compares with it",
    ),
    Rule(
        lambda f, m: f.suite.reference is None and f.suite.control is None,
        {"margin": _NONE},
        "in a suite without 'reference' or 'control'",
    ),
    Rule(
        lambda f, m: f.suite.margin is None,
        {"margin": _NONE},
        "in the overrides of a suite without 'margin'",
    ),
    Rule(
        lambda f, m: (
            f.suite.layout is not None
            and "seconds" in f.suite.layout.measures
            and STOPPING_RULES[f.suite.stopping].target is None
        ),
        {"stopping": ()},
        "a rule with a target, such as 'accuracy_reached', with the measure 'seconds' in 'layout'",
    ),
)


def check(suite: Suite) -> None:
    """Check the rules between keys.

    Raises:
        ValueError: For the first fault, with the key, the value and the allowed values.
    """
    check_new_names(suite, MAX_RUNS)
    facts = SuiteFacts(suite)
    check_named_values(facts)
    for rule in _RULES:
        for method in facts.methods:
            if MECHANISMS.is_stand_in(method.mechanism):  # it is in runs that were checked
                continue
            if about := rule.when(facts, method):
                _check_rule(rule, about, suite, method)
    _check_layout(facts)
    _check_families(facts)
    check_sweep(suite, MAX_RUNS)


def _check_rule(rule: Rule, about: Any, suite: Suite, method: Method) -> None:
    for key, allowed in rule.keys.items():
        own = key in method.overrides or key not in TrainingSettings.model_fields
        of = f" of method {method.name}" if own and key in Method.model_fields else ""
        for value in _values(suite, method, key):
            if value not in allowed:
                must = f"{_allowed(allowed)} {rule.because.format(about)}"
                raise ValueError(f"key {key!r}{of}: must {must}. Received: {value!r:.80}")


def _values(suite: Suite, method: Method, key: str) -> list[Any]:
    """Return the values of a key for a method on all tasks."""
    if key in TrainingSettings.model_fields:
        return [suite.settings_of(method, task)[key] for task in suite.tasks]
    if key in Method.model_fields:
        return [getattr(method, key)]
    others = (getattr(override, key, None) for override in suite.overrides.values())
    return [getattr(suite, key, None), *(other for other in others if other is not None)]


def _allowed(values: Sequence[Any]) -> str:
    """Return the allowed values after "must", such as "not be set"; "be" if there are none."""
    shown = " or ".join(_toml(value) for value in values if value not in (None, [], {}))
    unset = any(value in (None, [], {}) for value in values)
    if unset and not shown:
        return "not be set"
    return f"be {shown}{' or not set' if unset else ''}".strip()


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _check_layout(facts: SuiteFacts) -> None:
    if facts.suite.layout is None:
        return
    places = Counter(
        facts.suite.layout.place(method, name)
        for method in facts.methods
        for task in facts.tasks.values()
        for name in task.scored
    )
    (row, column), times = places.most_common(1)[0]
    if times > 1:
        raise ValueError(
            "key 'layout': must give each method and task its own cell. Received: "
            f"{times} in row {' / '.join(row)}, column {' / '.join(column)}"
        )


def _check_families(facts: SuiteFacts) -> None:
    families = families_of(facts.suite)
    if not families:
        return
    for fault in faults(families, facts.names):
        raise ValueError(f"key 'families': {fault}")
    for family in families:
        for key in ("control", "reference"):
            name = getattr(facts.suite, key)
            if name is not None and getattr(family, key) is None:
                known = {*facts.names, *(method.mechanism for method in facts.methods)}
                raise ValueError(
                    f"key {key!r}: must be a method of each family, or the mechanism of one. "
                    f"Received: {name!r}, not in {family.name}.{did_you_mean(name, known)}"
                )
