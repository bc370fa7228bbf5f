"""Tests of allowed imports between packages, and of imports without Keras."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from tests.programs import ROOT, python, sources

BASE = {
    "errors",
    "files",
    "registry",
    "settings",
    "system",
    "terminal",
    "words",
}

# What each part may import of the others; packages may also import those of BASE.
ALLOWED = {
    "errors": set(),
    "registry": {"errors"},
    "settings": {"errors"},
    "files": {"errors", "glue_submit"},
    "system": set(),
    "terminal": {"errors", "system"},
    "words": set(),
    "layers": set(),
    "optimizers": {"layers"},
    "stats": set(),
    "glue_submit": set(),
    "networks": {"layers"},
    "tasks": {"glue_submit"},
    "config": {"networks", "tasks"},
    "training": {"config", "networks", "tasks", "optimizers"},
    "bench": {"training", "config", "networks", "tasks", "optimizers", "stats", "glue_submit"},
    "report": {"stats", "bench", "training", "config", "networks", "tasks", "glue_submit"},
    "suites": set(),
    "cli": {
        *("training", "bench", "config", "report", "stats", "tasks", "networks", "layers"),
        "glue_submit",
    },
}

# Of bench and training, the report may read a folder and nothing else.
REPORT_READS = {
    "relation_tf.training.pretraining_settings",
    "relation_tf.bench",
    "relation_tf.bench.results",
    "relation_tf.bench.run_folder",
    "relation_tf.bench.sweeping",
}


def part(module: str) -> str | None:
    names = module.split(".")
    if names[0] == "glue_submit":
        return "glue_submit"
    return names[1] if names[0] == "relation_tf" and len(names) > 1 else None


def imports(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(sources()[path]):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            modules.add(node.module)
            if node.module == "relation_tf":
                modules |= {f"relation_tf.{alias.name}" for alias in node.names}
    return modules


def own_part(path: Path) -> str | None:
    return part(".".join(path.relative_to(ROOT).with_suffix("").parts))


def test_every_part_is_listed():
    parts = {own_part(path) for path in sources()}
    assert parts - {None, "__init__"} == set(ALLOWED)


def test_imports_go_one_way():
    """Check all files in one test and report every forbidden import."""
    wrong = []
    for path in sources():
        own = own_part(path)
        for module in imports(path):
            other = part(module)
            if other is None or other in (own, "__version__"):
                continue
            allowed = other in ALLOWED[own] | (set() if own in BASE else BASE)
            if own == "report" and other in ("bench", "training"):
                allowed = module in REPORT_READS
            if not allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


BACKENDS = {"keras", "tensorflow", "jax", "torch"}
HEAVY = BACKENDS | {"numpy", "scipy", "pandas", "matplotlib"}


def modules_after(statements: str) -> set[str]:
    answer = python(f"""
import json, sys
{statements}
print(json.dumps([*sys.modules]))
""", ROOT)  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return {*json.loads(answer.stdout.splitlines()[-1])}


NOTHING_HEAVY = """
import relation_tf
import relation_tf.layers, relation_tf.networks, relation_tf.tasks
import relation_tf.bench, relation_tf.config, relation_tf.report, relation_tf.stats
import relation_tf.cli.commands
import glue_submit, glue_submit.cli
"""
WITHOUT_KERAS = """
from relation_tf.networks.mechanisms import MECHANISMS
from relation_tf.bench import read_results, RunFolder, run_suite
from glue_submit import pack, check, score
import relation_tf.cli.commands
"""


def test_loads_nothing_heavy():
    assert modules_after(NOTHING_HEAVY).isdisjoint(HEAVY)


def test_loads_without_keras():
    assert modules_after(WITHOUT_KERAS).isdisjoint(BACKENDS)


def test_a_comparison_of_tables_loads_no_code_for_runs():
    rows = [("MR", method, seed, seed / 10) for method in "ab" for seed in range(2)]
    columns = ["task", "method", "seed", "score"]
    loaded = modules_after(f"""
import pandas as pd
from relation_tf.report import compare
compare(pd.DataFrame({rows}, columns={columns})).html()
""")
    own = [name for name in loaded if name.startswith(("relation_tf.", "glue_submit."))]
    parts = ("relation_tf.bench", "relation_tf.networks", "relation_tf.layers")
    assert not [name for name in own if name.startswith(parts) and name.count(".") > 1]
    assert "relation_tf.config.suite" not in loaded
    assert len(own) <= 80


def test_an_error_of_a_comparison_loads_neither_matplotlib_nor_scipy():
    loaded = modules_after("""
from relation_tf.errors import SuiteError
from relation_tf.report import compare
try:
    compare("missing.csv")
except SuiteError:
    pass
""")
    assert loaded.isdisjoint({"matplotlib", "scipy.stats"})


DEMO = """
import sys
from relation_tf.cli import main
sys.argv[1:] = "run demo --tasks WNLI --methods baseline-64 --seeds 1 --set epochs=1 --out".split()
sys.argv.append({out!r})
try:
    main()
except SystemExit as end:
    assert not end.code
"""


def test_the_process_of_a_demo_run_imports_few_modules(tmp_path):
    loaded = modules_after(DEMO.format(out=str(tmp_path)))
    assert loaded.isdisjoint(BACKENDS)
    ours = [name for name in loaded if name.partition(".")[0] in ("relation_tf", "glue_submit")]
    assert len(ours) <= 95
