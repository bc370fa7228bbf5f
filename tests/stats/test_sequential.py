"""Group-sequential comparison against enumeration, plain loops, scipy and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm

from benchmarks.sequential import simulate
from relation_tf.stats import look_schedule, sequential_design, sequential_test
from relation_tf.stats.sequential import FUTILITY, _statistics

RNG = np.random.default_rng(0)


def naive_statistic(tasks, a, b, n):
    """Return the standardized net wins of b over a among the first n scores, by plain loops."""
    net = 0
    for scores in tasks:
        for x, y in itertools.product(scores[a][:n], scores[b][:n]):
            net += (y > x) - (y < x)
    if (net - len(tasks) * n**2) % 2:  # possible only with ties
        net -= math.copysign(1, net)
    return net / math.sqrt(4 * len(tasks) * n**2 * (2 * n + 1) / 12)


def naive_maxima(num_methods, looks, num_tasks, pairs):
    """Return |Z| of every order of the scores, shape (orders, looks, pairs)."""
    total = num_methods * looks[-1]
    orders = [
        [order[i : i + looks[-1]] for i in range(0, total, looks[-1])]
        for order in itertools.permutations(range(total))
    ]
    return np.array(
        [
            [[abs(naive_statistic(tasks, a, b, n)) for a, b in pairs] for n in looks]
            for tasks in itertools.product(orders, repeat=num_tasks)
        ]
    )


@pytest.mark.parametrize(
    ("num_methods", "looks", "num_tasks", "against_control"),
    [(2, (2, 3), 1, False), (3, (1, 2), 1, False), (3, (1, 2), 1, True), (2, (1, 2), 2, False)],
)
def test_boundaries_are_the_quantiles_of_all_orders(num_methods, looks, num_tasks, against_control):
    pairs = [
        (a, b)
        for a, b in itertools.combinations(range(num_methods), 2)
        if a == 0 or not against_control
    ]
    values = naive_maxima(num_methods, looks, num_tasks, pairs)
    checked = 0
    for chosen in ([0], [*range(len(pairs))]):
        largest = np.sort(values[:, :, chosen].max(axis=(1, 2)))
        support = np.unique(largest.round(9))
        above = [float(np.mean(largest > each + 1e-6)) for each in support]
        for value, lower, upper in zip(support, above, [1.0, *above], strict=False):
            alpha = (lower + upper) / 2  # far from a jump, so that the draws must agree
            if upper - lower < 0.03 or not 0 < alpha < 1:
                continue
            design = sequential_design(
                num_methods, looks, num_tasks, alpha, against_control=against_control
            )
            assert design.boundary(chosen) == pytest.approx(value)
            checked += 1
    assert checked >= 2
    design = sequential_design(num_methods, looks, num_tasks, 0.5, against_control=against_control)
    crossed = np.maximum.accumulate(values.max(axis=2) > design.boundary() + 1e-6, axis=1)
    assert design.alpha_spent == pytest.approx(crossed.mean(axis=0).tolist(), abs=0.02)
    assert design.alpha_spent[-1] <= 0.5 + 0.02


def test_one_look_and_two_methods_is_the_rank_test():
    scores = {"a": RNG.normal(0, 1, 12).tolist(), "b": RNG.normal(1, 1, 12).tolist()}
    result = sequential_test(scores, [12])
    expected = mannwhitneyu(scores["b"], scores["a"], method="asymptotic", use_continuity=False)
    statistic = result.pairs["statistic"].item()
    assert 2 * norm.sf(abs(statistic)) == pytest.approx(expected.pvalue)
    exact = mannwhitneyu(scores["b"], scores["a"], method="exact").pvalue
    assert (result.pairs["verdict"].item() == "b better") == (exact < 0.05)


def naive_course(tasks, looks, design, pairs):
    """Return verdicts and last looks by plain loops over looks and pairs."""
    significant, given_up, last = {}, set(), {}
    for n in looks:
        open_pairs = [p for p in range(len(pairs)) if p not in significant and p not in given_up]
        if not open_pairs or any(
            len(s[m]) < n for s in tasks for p in open_pairs for m in pairs[p]
        ):
            break
        values = {p: naive_statistic(tasks, *pairs[p], n) for p in open_pairs}
        last |= dict.fromkeys(open_pairs, n)
        while True:
            kept = [p for p in range(len(pairs)) if p not in significant]
            boundary = design.boundary(kept) if kept else math.inf
            now = [p for p in open_pairs if p in kept and abs(values[p]) > boundary + 1e-9]
            if not now:
                break
            significant |= {p: values[p] > 0 for p in now}
        t = n / looks[-1]
        for p in open_pairs:
            if p not in significant and (
                t == 1
                or (
                    t >= 0.5
                    and norm.sf((boundary - abs(values[p]) / t**0.5) / (1 - t) ** 0.5) < FUTILITY
                )
            ):
                given_up.add(p)
    return significant, given_up, last


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 4),
    st.integers(1, 3),
    st.booleans(),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.integers(0, 10**6),
    st.sampled_from([None, 1, 2]),
    st.integers(2, 11),
)
def test_decisions_equal_plain_loops(k, num_tasks, control, shifts, seed, digits, available):
    looks = look_schedule(11)
    rng = np.random.default_rng(seed)
    tasks = []
    for _ in range(num_tasks):
        scores = np.array([rng.normal(shifts[m], 1, available) for m in range(k)])
        tasks.append((scores if digits is None else scores.round(digits)).tolist())
    pairs = [p for p in itertools.combinations(range(k), 2) if p[0] == 0 or not control]
    design = sequential_design(k, looks, num_tasks, against_control=control, draws=2000)
    significant, given_up, last = naive_course(tasks, looks, design, pairs)
    samples = {t: dict(enumerate(scores)) for t, scores in enumerate(tasks)}
    result = sequential_test(samples, looks, control=0 if control else None, draws=2000)
    expected = [
        f"{pairs[p][significant[p]]} better"
        if p in significant
        else "no significant difference"
        if p in given_up
        else "undecided"
        for p in range(len(pairs))
    ]
    assert result.pairs["verdict"].tolist() == expected
    assert result.pairs["seeds"].tolist() == [last.get(p, 0) for p in range(len(pairs))]
    waiting = {m for p, pair in enumerate(pairs) for m in pair if expected[p] == "undecided"}
    assert set(result.due) == waiting
    assert set(result.due.values()) <= {n for n in looks if n > available}


def test_later_scores_change_no_earlier_look():
    scores = {name: RNG.normal(level, 1, 15) for name, level in (("a", 0), ("b", 0.4), ("c", 3))}
    looks = look_schedule(15)
    whole = sequential_test(scores, looks)
    for number, n in enumerate(whole.looks["seeds"], start=1):
        part = sequential_test({name: own[:n] for name, own in scores.items()}, looks)
        assert part.looks.equals(whole.looks[:number])
        decided = part.pairs[part.pairs["verdict"] != "undecided"]
        assert decided.equals(whole.pairs.loc[decided.index])


def test_a_decided_method_needs_no_more_seeds():
    scores = {"a": [1, 2, 3, 4, 5, 6, 7], "b": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 0.5]}
    result = sequential_test({**scores, "c": [11, 12, 13, 14, 15, 16, 17]}, look_schedule(15))
    assert result.pairs["verdict"].tolist() == ["undecided", "c better", "c better"]
    assert result.due == {"a": 9, "b": 9}


def test_direction_control_and_names():
    low = {"x": [1, 2, 3, 4, 5, 6], "y": [7, 8, 9, 10, 11, 12]}
    for higher, winner in ((True, "y"), (False, "x"), ({None: False}, "x")):
        result = sequential_test(low, [6], higher_is_better=higher)
        assert result.pairs["better"].item() == winner
    against = sequential_test({**low, "z": [13, 14, 15, 16, 17, 18]}, [6], control="z")
    assert against.pairs[["a", "b"]].values.tolist() == [["z", "x"], ["z", "y"]]
    assert "p < .05 over all pairs and looks" in str(against)


def test_nan_is_ranked_worst_with_a_note():
    scores = {"a": [1.0, 2.0, 3.0], "b": [4.0, float("nan"), 6.0]}
    notes = sequential_test(scores, [3]).notes
    assert notes == (
        "Higher is better (assumed)",
        "b: 1 of 3 scores are NaN, ranked worst",
    )


def test_draws_are_reproducible():
    first, again, other = (sequential_design(3, (3, 5), rng=seed) for seed in (1, 1, 2))
    assert first.boundary() == again.boundary()
    generator = sequential_design(3, (3, 5), rng=np.random.default_rng(1))
    assert generator.boundary() == first.boundary()
    assert first.alpha_spent != other.alpha_spent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"looks": [5, 3]}, "`looks` must be increasing"),
        ({"looks": []}, "`looks` must be increasing"),
        ({"looks": [0, 3]}, "`looks` must be a whole number, at least 1"),
        ({"looks": [3], "control": "z"}, "`control` must be one of"),
        ({"looks": [3], "alpha": 1}, "`alpha` must be between"),
        ({"looks": [3], "draws": 10}, "`draws` must be a whole number, at least 20"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sequential_test({"a": [1, 2, 3], "b": [4, 5, 6]}, **arguments)


def test_tasks_must_have_the_same_methods():
    with pytest.raises(ValueError, match="all tasks must have the same methods"):
        sequential_test({"t": {"a": [1], "b": [2]}, "u": {"a": [1], "c": [2]}}, [3])
    with pytest.raises(ValueError, match="at least 3"):
        look_schedule(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shifts", "num_tasks"), [((0, 0, 0, 0), 1), ((0, 0, 2, 2), 1), ((0, 0, 0, 0.7), 8)]
)
def test_family_wise_error_is_at_most_alpha(shifts, num_tasks):
    found = simulate(shifts, num_tasks=num_tasks, repetitions=1000)
    assert found.error <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5, 71])
def test_family_wise_error_is_at_most_alpha_with_ties(rows):
    looks, pairs, repetitions = look_schedule(15), list(itertools.combinations(range(4), 2)), 20_000
    design = sequential_design(4, looks)
    crossed = 0
    for _ in range(10):
        scores = RNG.binomial(rows, 0.5, (4, 15, repetitions // 10))
        scores = np.concatenate([np.zeros((4, 15, 1), int), scores], axis=2)  # ties in the first
        values = [_statistics([[own[:n] for own in scores]], pairs, n)[:, 1:] for n in looks]
        crossed += np.count_nonzero(np.abs(values).max(axis=(0, 1)) > design.boundary())
    assert crossed / repetitions <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)


@pytest.mark.slow
@pytest.mark.parametrize("shifts", [(0, 1.5), (0, 0, 0, 2)])
def test_at_least_30_percent_fewer_runs(shifts):
    found = simulate(shifts, repetitions=1000)
    assert found.fixed_power > 0.9
    assert found.power > found.fixed_power - 0.06
    assert found.saved >= 0.3


@pytest.mark.parametrize(
    ("num_methods", "looks"), [(5, (3, 5)), (4, (3, 5)), (3, (3, 5)), (2, (3,))]
)
def test_separated_scores_are_significant_from_the_first_decisive_look_on(num_methods, looks):
    design = sequential_design(num_methods, looks)
    scores = {name: [name + seed / 100 for seed in range(looks[-1])] for name in range(num_methods)}
    found = sequential_test(scores, looks=looks).pairs
    decided = found[found["better"].notna()]
    first = None if decided.empty else decided["seeds"].min()
    assert first == design.first_decisive


def test_many_scores_where_lower_is_better():
    samples = {"a": range(150), "b": range(150, 300)}
    found = sequential_test(samples, [150], higher_is_better=False)
    assert found.pairs["better"].to_list() == ["a"]
