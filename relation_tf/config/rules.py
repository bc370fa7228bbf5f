"""Rules between the keys of a suite. Does not import Keras."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relation_tf.config.families import families_of, faults
from relation_tf.config.method import NAME_PATTERN, TRANSFERRED, Method
from relation_tf.config.sweep import check_sweep
from relation_tf.config.training import OF_TIMED, TrainingSettings
from relation_tf.errors import UnknownNameError, did_you_mean, join_names
from relation_tf.networks.mechanisms import find_mechanism
from relation_tf.registry import METRICS, PROCEDURES, SOURCES, STOPPING_RULES, TASKS
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.task import Task

if TYPE_CHECKING:
    from relation_tf.config.suite import Suite

MAX_RUNS = 100_000
"""Maximum number of runs of a suite."""


class SuiteFacts:
    """Facts about a suite for the rules; a kind of task is its first name, or None."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.methods = suite.methods()
        self.names = [str(method.name) for method in self.methods]
        self.tasks = {name: suite.find_task(name) for name in suite.tasks}
        self.learned = suite.learned()
        self.group = _first(self.tasks.values(), lambda task: task.members)
        self.untransferable = _first(self.tasks.values(), lambda task: not _can_transfer(task))
        self.alone = _first(self.tasks.values(), lambda task: not task.members)
        self.timed = _first(self.learned, lambda task: task.timed)
        kind = next((task.timed for task in self.learned if task.timed), None)
        self.timed_alike = [task.name for task in self.learned if task.timed == kind]
        self.written = _first(self.learned, lambda task: task.written)
        self.classified = _first(self.learned, lambda task: not task.written)
        self.token_labels = _first(self.learned, lambda task: task.token_labels)
        self.unclassified = _first(self.learned, lambda task: not task.labels)
        self.needs = STOPPING_RULES[suite.stopping].metrics
        self.keys = {"task", "method", "mechanism", "units", "size"}
        self.keys |= {option for method in self.methods for option in method.options}
        self.compares = suite.test and PROCEDURES[suite.test].compares
        over_tasks = suite.test_over_tasks
        self.over_tasks = None if over_tasks is None else PROCEDURES[over_tasks]

    def setting(self, method: Method, key: str) -> Any:
        """Return a training setting of a method that single tasks do not override."""
        return method.overrides.get(key, getattr(self.suite, key))


def _first(tasks: Iterable[Task], has: Callable[[Task], object]) -> str | None:
    return next((task.name for task in tasks if has(task)), None)


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


def _can_transfer(task: Task) -> bool:
    """Return False for a group of two tasks, of texts and pairs, or with unlabelled test rows."""
    forms = {len(each.inputs) for each in task.members}
    return not task.members or (len(task.members) > 2 and len(forms) == 1 and not task.answered)


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
        lambda f, m: f.timed,
        {**_defaults(*(_DEFAULTS.keys() - OF_TIMED)), "group": ([],), "size": _NONE},
        _TIMED,
    ),
    Rule(
        lambda f, m: f.written,
        {
            **_defaults("xla", "embeddings", "tokens", "start_token", "validation_split"),
            **_defaults("vocabulary_size", "max_length", "pretrained", "positions", "segments"),
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
            **_defaults("vocabulary_size", "pretrained", "segments", "compute"),
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
            **_defaults("embeddings", "start_token", "vocabulary_size"),
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
        _defaults("embeddings", "start_token", "vocabulary_size", "max_length", "xla"),
        "with tokens = 'text', where a saved model reads text, which XLA cannot compile",
    ),
    Rule(
        lambda f, m: f.setting(m, "tokens") == "byte",
        _defaults("embeddings", "vocabulary_size"),
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
    _check_names(suite)
    facts = SuiteFacts(suite)
    for key, value, allowed, expected in _members(facts):
        if value not in allowed:
            hint = did_you_mean(value, allowed)
            raise ValueError(
                f"key {key!r}: must be {expected}. Received: {value!r:.80}{hint and f'.{hint}'}"
            )
    for rule in _RULES:
        for method in facts.methods:
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


def _members(facts: SuiteFacts) -> Iterator[tuple[str, Any, Sequence[Any], str]]:
    """Yield key, name, known names and description of each key with a name."""
    suite = facts.suite
    for key in ("control", "reference"):
        if getattr(suite, key) is not None and suite.families is None:
            expected = f"a method of the suite: {join_names(facts.names)}"
            yield key, getattr(suite, key), facts.names, expected
    sequences = [name for name, metric in METRICS.items() if metric.target == "sequences"]
    for task, own in suite.overrides.items():
        yield "overrides", task, suite.tasks, f"a task of the suite: {', '.join(suite.tasks)}"
        allowed = sequences if facts.tasks[task].written else []
        expected = " or ".join(map(repr, allowed)) or f"left out: {task} is not a sequence task"
        for metric in own.metrics or ():
            yield f"overrides.{task}.metrics", metric, allowed, expected
    for each in facts.learned:
        if only := SOURCES[suite.source].tasks:
            expected = f"one of {', '.join(only)} with source = {suite.source!r}"
            yield "tasks", each.name, only, expected
        if facts.timed:
            expected = f"timed tasks of one kind only, such as {facts.timed}"
            yield "tasks", each.name, facts.timed_alike, expected
    for name, entry in facts.tasks.items():
        swept = suite.sweep.values.get("positions", ()) if suite.sweep else ()
        if "learned" in (suite.positions, *swept):
            longest = suite.setting(name, "max_length")
            expected = f"set for {name} with positions = 'learned'"
            yield "max_length", longest, [longest] if longest else [], expected
        if suite.setting(name, "start_token") and suite.setting(name, "max_length") == 1:
            yield "max_length", 1, [], f"2 or more for {name}, because start_token counts"
        monitors = ["val_loss", *(f"val_{metric}" for metric in entry.metrics)]
        yield "monitor", suite.monitor, monitors, f"{' or '.join(map(repr, monitors))} for {name}"
        if "split" in suite.vary and suite.setting(name, "validation_split") is None:
            for each in entry.each():
                allowed = ["split"] if each.validation is None else []
                expected = (
                    f"'init' or 'order' for {each.name}, whose validation rows are fixed, unless "
                    "'validation_split' is set"
                )
                yield "vary", "split", allowed, expected
        for metric in facts.needs:
            expected = f"tasks with the metric {metric!r} for stopping = {suite.stopping!r}"
            yield "tasks", name, [name] if metric in entry.metrics else [], expected
    for name in suite.stopping_options.keys() & STOPPING_RULES.find(suite.stopping).keys:
        yield "stopping_options", name, [], f"options without {name!r}. Set the key {name!r}"
    for choice in suite.tuned:
        yield "tuned", choice.task, suite.tasks, f"a task of the suite: {', '.join(suite.tasks)}"
        expected = f"a method of the suite: {join_names(facts.names)}"
        yield "tuned", choice.method, facts.names, expected
        swept = [] if suite.sweep is None else [*suite.sweep.values]
        for key in choice.settings if swept else ():
            yield "tuned", key, swept, f"settings of the sweep: {join_names(swept)}"
    if isinstance(suite.families, str):
        shared = sorted(facts.keys - {"task", "method"})
        expected = f"one of {join_names(shared)}, or lists of methods"
        yield "families", suite.families, shared, expected
    elif suite.families is not None:
        for name in (name for family in suite.families for name in family):
            yield "families", name, facts.names, f"lists of methods: {join_names(facts.names)}"
    if suite.layout is not None:
        keys = facts.keys
        for key in (*suite.layout.rows, *suite.layout.columns):
            yield "layout", key, [*keys], f"one of {join_names(sorted(keys))}"


def _check_names(suite: Suite) -> None:
    known = map(find_task, TASKS)
    taken = {name for task in known for name in (task.name, *task.scored, *task.answered)}
    own = [("task", task.name) for task in suite.task]
    groups = [("group", group.name) for group in suite.group]
    for key, name in [*own, *groups]:
        if name in taken:
            raise ValueError(
                f"key {key!r}: must be a new name. Received: {name!r}, the name of another task"
            )
        taken.add(name)
    members = [("group", str(name)) for group in suite.group for name in group.tasks]
    for each in (each for group in suite.group for each in group.tasks):
        if not isinstance(each, str):
            raise ValueError(
                f"key 'group': must be names of tasks; declare {each.name!r} as [[task]]"
            )
    for key, name in [*members, *(("tasks", name) for name in suite.tasks)]:
        if (key, name) in groups:
            raise ValueError(f"key 'group': must be names of tasks. Received: {name!r:.80}")
        try:
            suite.find_task(name)
        except UnknownNameError as error:
            raise ValueError(f"key {key!r}: {error}") from error
    scored = Counter(name for task in suite.tasks for name in suite.find_task(task).scored)
    if twice := _repeated(scored):
        raise ValueError(
            "key 'tasks': each task must occur once, alone or in one group. "
            f"Received: {twice!r} more than once"
        )
    runs = len(suite.tasks) * len(suite.seeds) * sum(method.count for method in suite.method)
    if runs > MAX_RUNS:
        raise ValueError(
            f"there must be at most {MAX_RUNS:,} runs (tasks x methods x seeds). "
            f"Received: {f'{runs:,}' if runs < 10**15 else 'more than 10^15'}"
        )
    methods = Counter(str(method.name) for method in suite.methods())
    for name in methods:
        if not re.fullmatch(NAME_PATTERN, name):
            raise ValueError(
                f"method {name!r} cannot be a folder name: set 'name' to letters, digits, '.', '_' "
                "and '-'"
            )
    if twice := _repeated(methods):
        raise ValueError(f"two methods are called {twice!r}: give them different names")


def _repeated(counts: Counter[str]) -> str | None:
    return min((name for name, times in counts.items() if times > 1), default=None)


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
