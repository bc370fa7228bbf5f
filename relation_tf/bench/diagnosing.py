"""Diagnosis of one layer: diagnostic tasks, next to mechanisms whose abilities are known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from relation_tf.bench.options import accepts_options
from relation_tf.bench.results import Results
from relation_tf.bench.run_folder import RunFolder
from relation_tf.bench.runner import run_suite
from relation_tf.config import Method, Suite, load_suite
from relation_tf.config.user_code import load_plugins
from relation_tf.errors import SuiteError
from relation_tf.files import expand_home
from relation_tf.networks.mechanisms import find_mechanism, in_blocks
from relation_tf.settings import first_fault
from relation_tf.tasks.diagnostics import DIAGNOSTICS

SUITE = "diagnostics-small"
COMPARATORS = ("attention", "linear-attention", "baseline")
"""Methods of the suite that are trained next to the layer."""
QUICK_TASKS = (
    "majority", "needle-16", "mqar-32-4-v32", "memorize-small", "selective-copy-small",
    "induction", "sort", "reverse", "dyck", "modular-addition",
)  # fmt: skip
"""Tasks of the quick form, each of another ability: average, keep, recall, ..."""
QUICK_SEEDS = (1, 2)


@accepts_options()
def diagnose(
    layer: type | str,
    out: str | Path | None = None,
    *,
    layer_options: Mapping[str, Any] | None = None,
    tasks: str | Iterable[str] | None = None,
    seeds: int | Iterable[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    quick: bool = False,
    **options: Any,
) -> Results:
    """Train a layer, attention, linear attention and the baseline on diagnostic tasks.

    The network and the tasks are those of the suite `diagnostics-small`. Safe to interrupt: the
    same call resumes. The section *Capabilities* of the report describes the layer in words.

    Args:
        layer: A Keras layer class, `"package.module:Name"` or the name of a mechanism. It must
            return a vector for each token.
        out: The folder of the runs, by default `runs/diagnose-<name>`.
        layer_options: Further arguments of the layer. Mechanisms with variants use
            `variant="equations"` unless it is given here.
        tasks: Diagnostic tasks to run, by default the 20 of the suite and all that the folder
            already has.
        seeds: Seeds to run, by default all five.
        settings: Keys of the suite to override, such as `{"epochs": 10}`.
        quick: If True, the defaults are the 10 tasks of `QUICK_TASKS`, two seeds, and attention as
            the only other method: 40 of the 400 runs. The folder is the same, so a later call
            without it trains the rest.
        **options: Fields of `relation_tf.bench.RunOptions`, such as `jobs`.

    Raises:
        SuiteError: As `run_suite`.

    Example:
        >>> from relation_tf.bench import diagnose
        >>> small = {"tasks": ["count"], "seeds": [1], "settings": {"epochs": 1}}
        >>> results = diagnose("relation", "out", **small)  # doctest: +SKIP
    """
    load_plugins(options.get("plugins") or ())
    suite = diagnosis(layer, layer_options or {})
    if quick:
        tasks, seeds = tasks or QUICK_TASKS, seeds or QUICK_SEEDS
        name = str(suite.methods()[0].name)
        options.setdefault("methods", [*dict.fromkeys([name, str(suite.reference)])])
    tasks = [tasks] if isinstance(tasks, str) else None if tasks is None else [*tasks]
    folder = RunFolder(expand_home(out) if out else Path("runs") / suite.name)
    before = folder.suite().tasks if (folder.path / "suite.toml").is_file() else []
    others = [
        str(name)
        for name in dict.fromkeys([*before, *(tasks or [])])
        if name not in suite.tasks and name in DIAGNOSTICS
    ]
    if others:
        suite = load_suite(suite, {"tasks": [*suite.tasks, *others]})
    return run_suite(suite, out, tasks=tasks, seeds=seeds, settings=settings, **options)


def diagnosis(layer: type | str, layer_options: Mapping[str, Any]) -> Suite:
    """Return the suite of a diagnosis: the layer first, then the methods of `COMPARATORS`."""
    try:
        entry = Method.model_validate({"mechanism": layer})
    except ValidationError as error:
        raise SuiteError(f"diagnose: {first_fault(error, Method)}") from error
    mechanism = entry.mechanism
    name = re.sub(r"[^A-Za-z0-9._-]", "", entry.stem).lstrip("._-") or "layer"
    suite = load_suite(SUITE)
    known = {str(method.name): method.model_dump() for method in suite.methods()}
    reference = known[str(suite.reference)]
    options = in_blocks(find_mechanism(mechanism), layer_options, equations=True)
    changed = {"mechanism": mechanism, "options": options}
    method = {**reference, "name": name, "options": {**reference["options"], **changed}}
    if name.lower() in COMPARATORS and mechanism != name:  # files may ignore case
        method["name"] = f"own-{name}"
    elif name in COMPARATORS and layer_options:
        method["name"] = f"{name}-changed"
    others = [known[other] for other in COMPARATORS if other != method["name"]]
    return load_suite(
        suite,
        {
            "name": f"diagnose-{method['name']}",
            "title": f"Abilities of {mechanism}",
            "question": f"What can {method['name']} do, and what can it not do?",
            "method": [method, *others],
            "reference": suite.reference,
            "margin": suite.margin,
        },
    )
