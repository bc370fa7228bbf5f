"""Write golden values of rliable, autorank and critdd: `golden_values/reference_packages.json`.

These packages need pandas 2, so they need a separate environment. critdd is not on the package
index; install it from its repository, `mirkobunse/critdd`. In the root of the repository:

    python -m venv packages
    packages/bin/pip install rliable==1.2.0 autorank==1.3.0 'pandas<3' networkx CRITDD
    packages/bin/python tests/reference_packages.py

The JSON file has the scores, so that tests need none of these packages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "golden_values" / "reference_packages.json"
_REPETITIONS = 10_000
_CRITDD = "0a6c62fbf9508283218fdacfab6e69fffe04240e"  # if it is not an installed package


def main() -> None:
    """Write the file."""
    rng = np.random.default_rng(20)
    methods = ["nb", "svm", "knn", "mlp", "rf"]
    level = rng.uniform(0.5, 0.9, size=(15, 1)) + np.array([0, 0.01, 0.025, 0.045, 0.05])
    table = np.round(level + rng.normal(0, 0.012, size=(15, 5)), 6)  # without ties
    datasets = dict(zip(methods, table.T.tolist(), strict=True))
    shifts = {"dqn": 0.0, "c51": 0.1, "iqn": 0.2}  # (runs, tasks)
    runs = {
        name: np.round(rng.gamma(4, 0.2, size=(6, 8)) + shift, 3).tolist()
        for name, shift in shifts.items()
    }
    found = {
        "versions": {name: _version(name) for name in ("rliable", "autorank", "critdd", "scipy")},
        "datasets": datasets,
        "runs": runs,
        "rliable": _rliable({name: np.array(values) for name, values in runs.items()}),
        "autorank": _autorank(datasets),
        "critdd": _critdd(datasets),
    }
    FILE.write_text(json.dumps(found) + "\n", encoding="utf-8")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return _CRITDD


def _rliable(runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the estimates of each method, those of pairs with the last, and profiles."""
    from rliable import library, metrics

    def estimates(scores: Any) -> Any:
        return np.array([
            metrics.aggregate_iqm(scores), metrics.aggregate_mean(scores),
            metrics.aggregate_median(scores), metrics.aggregate_optimality_gap(scores),
        ])  # fmt: skip

    def intervals(scores: Mapping[str, Any], function: Any) -> tuple[Any, Any]:
        options = {"reps": _REPETITIONS, "random_state": np.random.RandomState(0)}
        return library.get_interval_estimates(scores, function, **options)

    values, limits = intervals(runs, estimates)
    *others, best = runs
    pairs = {name: (runs[best], runs[name]) for name in others}
    chances, chance_limits = intervals(pairs, metrics.probability_of_improvement)
    pooled = np.concatenate([scores.ravel() for scores in runs.values()])
    taus = np.linspace(*np.percentile(pooled, [0.5, 99.5]), 101)
    profiles, bands = intervals(runs, lambda scores: library.score_distributions(scores, taus))
    return {
        "estimates": {name: values[name].tolist() for name in runs},
        "intervals": {name: limits[name].tolist() for name in runs},
        "improvement": {name: float(chances[name]) for name in others},
        "improvement_intervals": {name: chance_limits[name].ravel().tolist() for name in others},
        "taus": taus.tolist(),
        "profiles": {name: profiles[name].tolist() for name in runs},
        "bands": {name: bands[name].tolist() for name in runs},
    }


def _autorank(datasets: Mapping[str, Any]) -> dict[str, Any]:
    """Return Friedman's p, average ranks, medians, Nemenyi's distance and effect sizes."""
    import pandas as pd
    from autorank import autorank

    found: dict[str, Any] = {}
    for name in ("cliff_delta", "akinshin_gamma"):
        options = {"alpha": 0.05, "order": "descending", "effect_size": name}
        result = autorank(pd.DataFrame(datasets), force_mode="nonparametric", **options)
        table = result.rankdf
        found |= {"pvalue": float(result.pvalue), "cd": float(result.cd)}
        found |= {x: table[x].to_dict() for x in ("meanrank", "median", "mad")}
        found["first"] = str(table.index[0])
        found[name] = table["effect_size"].to_dict()
        found[f"{name}_magnitude"] = table["magnitude"].to_dict()
    pair = pd.DataFrame({name: datasets[name] for name in ("svm", "mlp")})
    result = autorank(pair, alpha=0.05, order="descending", force_mode="nonparametric")
    return found | {"pair": ["svm", "mlp"], "pair_pvalue": float(result.pvalue)}


def _critdd(datasets: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tests and groups."""
    from critdd import Diagram
    from critdd.stats import adjust_pairwise_tests

    names, scores = [*datasets], np.array([*datasets.values()]).T
    diagram = Diagram(scores, treatment_names=names, maximize_outcome=True)
    chi_square = diagram.r.chi_square_result
    lower = np.tril_indices(len(names), -1)
    pairs = [[names[j], names[i]] for i, j in zip(*lower, strict=True)]
    pvalues = adjust_pairwise_tests(diagram.P, "holm")[lower]
    return {
        "chi_square": [float(chi_square.statistic), float(chi_square.pvalue)],
        "f": [float(diagram.r.statistic), float(diagram.r.pvalue)],
        "average_ranks": dict(zip(names, map(float, diagram.average_ranks), strict=True)),
        "pairs": [[*pair, float(p)] for pair, p in zip(pairs, pvalues, strict=True)],
        "groups": diagram.get_groups(return_names=True),
    }


if __name__ == "__main__":
    main()
