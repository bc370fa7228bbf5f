"""Steel-Dwass and Steel tests against published values, other libraries and loops."""

from __future__ import annotations

import functools
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.stats import attainable_pvalue, cliffs_delta_interval, steel, steel_dwass
from relation_tf.stats.permutation import drawn_maxima
from relation_tf.stats.samples import index_pairs
from tests.golden import GOLDEN_VALUES

GOLDEN = [
    "aoki_nagata_yoshida",
    "conover_corn",
    "skposthocs_issue29",
    "complete_sep_4x5",
    "constant_groups_5x5",
    "two_groups_5_7",
    "diverged_inf_3x5",
]
SEPARATED = {"a": [0.1, 0.2, 0.3, 0.4, 0.5], "b": [1.1, 1.2, 1.3, 1.4, 1.5]}
# S. Aoki (Gunma University), Steel.R: the control and two treated groups of ten.
AOKI = {
    "control": [50, 55, 65, 63, 60, 68, 69, 60, 52, 49],
    "high": [80, 86, 74, 66, 79, 81, 70, 62, 60, 72],
    "like": [42, 48, 58, 63, 62, 55, 63, 60, 53, 45],
}
# Small integers, so that ties are common and a monotone map keeps them.
GROUPS = st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=6), min_size=2, max_size=5).map(
    lambda groups: {f"m{i}": group for i, group in enumerate(groups)}
)

BOTH_TESTS = pytest.mark.parametrize(
    "test", [steel_dwass, functools.partial(steel, control="m0")], ids=["steel-dwass", "steel"]
)


def golden_case(name):
    cases = json.loads((GOLDEN_VALUES / "steel_dwass.json").read_text(encoding="utf-8"))
    (case,) = (case for case in cases if case["name"] == name)
    samples = {group: [float(x) for x in scores] for group, scores in case["groups"].items()}
    return case, samples


def of_pairs(table, expected):
    return {pair: table.loc[*pair.split("|")] for pair in expected}


@pytest.mark.parametrize("name", GOLDEN)
def test_statistic_and_asymptotic_p_match_published_values(name):
    case, samples = golden_case(name)
    result = steel_dwass(samples, method="asymptotic")
    statistic, pvalue = case["W_star"], case["p_asymptotic"]
    assert of_pairs(result.statistic, statistic) == pytest.approx(statistic, abs=1e-6)
    assert of_pairs(result.pvalue, pvalue) == pytest.approx(pvalue, abs=1e-6)
    assert result.pvalue.equals(result.asymptotic_pvalue)


@pytest.mark.parametrize("name", GOLDEN)
def test_permutation_p(name):
    case, samples = golden_case(name)
    expected = case["p_permutation"]
    result = steel_dwass(samples)
    assert of_pairs(result.asymptotic_pvalue, expected) == pytest.approx(case["p_asymptotic"])
    if case["permutation_method"].startswith("exact"):
        assert result.method == "exact"
        assert of_pairs(result.pvalue, expected) == pytest.approx(expected, abs=1e-12)
    else:
        assert result.method == "monte-carlo"
        drawn, drawn_there = 200_000, int(case["permutation_method"].removeprefix("mc:"))
        for pair, pvalue in of_pairs(result.pvalue, expected).items():
            p = max(expected[pair], 1 / drawn)
            error = math.sqrt(p * (1 - p) * (1 / drawn + 1 / drawn_there))
            assert pvalue == pytest.approx(expected[pair], abs=5 * error)


@BOTH_TESTS
@settings(deadline=None, max_examples=25)
@given(samples=GROUPS, random=st.randoms(use_true_random=False))
def test_invariances(test, samples, random):
    test = functools.partial(test, method="asymptotic")
    result = test(samples)
    warped = test({name: np.exp(np.array(group) / 2) for name, group in samples.items()})
    np.testing.assert_allclose(warped.statistic, result.statistic, atol=1e-12)
    turned = test({name: [-x for x in group] for name, group in samples.items()})
    np.testing.assert_allclose(turned.statistic, -result.statistic, atol=1e-12)
    order = list(samples)
    random.shuffle(order)
    shuffled = test({name: samples[name] for name in order}).pvalue
    shuffled = shuffled.loc[result.pvalue.index]
    if result.control is None:
        shuffled = shuffled[list(samples)]
        np.testing.assert_allclose(result.statistic, -result.statistic.T, atol=1e-12)
        np.testing.assert_allclose(result.effect_size, -result.effect_size.T, atol=1e-12)
        np.testing.assert_array_equal(result.pvalue, result.pvalue.T)
    np.testing.assert_allclose(shuffled, result.pvalue, atol=1e-9)


def test_pairs_are_those_with_the_control():
    assert steel(AOKI, "control").statistic["high"] == pytest.approx(2.952566, abs=5e-7)
    result = steel(AOKI, "like", higher_is_better=False)
    pairs = result.pairs()
    assert list(pairs["a"] + "|" + pairs["b"]) == ["like|control", "like|high"]
    assert list(pairs["better"]) == [None, "like"]
    assert pairs["statistic"].tolist() == result.statistic.tolist()
    with pytest.raises(ValueError, match="letters need a test of all pairs"):
        result.letters()


def test_names_are_escaped():
    text = steel_dwass({"attention": range(5), "<relation>": range(5, 10)})._repr_html_()
    assert "&lt;relation&gt; higher" in text
    assert "<relation>" not in text


@settings(deadline=None, max_examples=50)
@given(GROUPS, st.sampled_from([0.05, 0.3, 0.6]))
def test_methods_share_a_letter_exactly_if_their_difference_is_not_significant(samples, alpha):
    result = steel_dwass(samples, alpha=alpha, method="asymptotic")
    letters = result.letters()
    for a, b in itertools.combinations(samples, 2):
        assert set(letters[a]).isdisjoint(letters[b]) == result.significant.loc[a, b]


def test_constant_equal_groups_have_p_one_and_one_letter():
    result = steel_dwass({"x": [0.5] * 5, "y": [0.5] * 5, "z": [0.6, 0.7, 0.8, 0.9, 1.0]})
    assert (result.pvalue.loc["x", "y"], result.statistic.loc["x", "y"]) == (1, 0)
    assert result.letters()["x"] == result.letters()["y"] != result.letters()["z"]
    for method in ("auto", "asymptotic", "exact", "monte-carlo"):
        equal = steel_dwass({"x": [1, 1], "y": [1, 1], "z": [1]}, method=method, permutations=100)
        assert (equal.pvalue == 1).all(axis=None)


def test_nan_is_ranked_worst_and_noted():
    samples = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.5, math.nan, 0.6, 0.7]}
    lowest = steel_dwass(samples)
    highest = steel_dwass(samples, higher_is_better=False)
    assert len(lowest.notes) == len(highest.notes) == 1
    assert lowest.effect_size.loc["a", "b"] == pytest.approx((12 - 4) / 16)
    assert highest.effect_size.loc["a", "b"] == 1
    assert math.isnan(lowest.samples["b"][1])
    with pytest.raises(ValueError, match=r"'b' must not be NaN. Received: \[0.5, nan, 0.6, 0.7\]"):
        steel_dwass(samples, nan="raise")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0.1 + 0.2] * 5, [0.3] * 5),
        (np.full(5, 0.3, np.float32), np.full(5, 0.3)),
        ([math.inf] * 5, [math.inf] * 5),
        ([0.0] * 5, [5.5e-17] * 5),
    ],
)
def test_rounding_breaks_no_tie(a, b):
    assert steel_dwass({"a": a, "b": b}).pvalue.loc["a", "b"] == 1


def test_forms_of_samples_agree():
    missing = pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([3.0, pd.NA], dtype="Float64")})
    assert math.isnan(steel_dwass(missing).samples["b"][1])
    by_name = steel_dwass(SEPARATED)
    wide = steel_dwass(pd.DataFrame(SEPARATED))
    pd.testing.assert_frame_equal(wide.pvalue, by_name.pvalue)


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([[1, 2], [3, 4]], TypeError, "{'a': scores, 'b': scores}.*Received: "),
        ({"CoLA": {"a": [1, 2], "b": [3, 4]}}, TypeError, "use stratified_steel_dwass, or "),
        ({"a": [1, 2]}, ValueError, r"at least two groups. Received: 1 \(\['a'\]\)"),
        ({"a": [1, 2], "b": []}, ValueError, "'b' must not be empty"),
        ({"a": [1, 2], "b": ["0.8", "0.9"]}, TypeError, "'b' must be numbers.*0.8"),
        ({"a": [1, 2], "b": 3.0}, ValueError, r"'b' must have one axis. Received: shape \(\)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, r"unique.*\['a', 'a'\]"),
    ],
)
def test_errors_of_bad_samples(samples, error, message):
    with pytest.raises(error, match=message) as caught:
        steel_dwass(samples)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "Received: alpha=0"),
        ({"method": "bootstrap"}, "Received: method='bootstrap'"),
        ({"permutations": 0}, "Received: permutations=0"),
        ({"rng": -1}, "at least 0. Received: rng=-1"),
        ({"control": "x"}, r"one of \['control', 'high', 'like'\]. Received: control='x'"),
        ({"method": "exact"}, r"monte-carlo'. Received: about 10\^12.7 arrangements"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        steel(AOKI, **{"control": "like"} | options)


@BOTH_TESTS
@pytest.mark.parametrize("sizes", [(5, 5), (4, 3, 3), (2, 4, 4), (4, 3, 2), (3, 1, 2, 2)])
def test_groups_without_overlap_reach_the_attainable_p(test, sizes):
    samples = {f"m{i}": np.arange(n) + 100 * i for i, n in enumerate(sizes)}
    for method in ("asymptotic", "exact"):
        result = test(samples, method=method)
        assert result.pvalue.min(axis=None) == pytest.approx(result.attainable_pvalue, abs=1e-12)


def test_random_arrangements_are_repeatable():
    def pvalue(rng):
        samples = {"a": [1, 2, 5], "b": [3, 4, 6], "c": [2, 7, 8]}
        return steel_dwass(samples, method="monte-carlo", permutations=999, rng=rng).pvalue

    assert pvalue(7).equals(pvalue(7))
    assert not pvalue(7).equals(pvalue(8))


@BOTH_TESTS
@pytest.mark.parametrize("sizes", [(5, 5, 5, 5), (4, 6, 6, 5), (9, 8, 8)])
def test_p_without_overlap_is_exact_beyond_enumeration(test, sizes):
    samples = {f"m{i}": np.arange(n) + 100 * i for i, n in enumerate(sizes)}
    result = test(samples)
    assert result.method == "monte-carlo"
    best = attainable_pvalue(len(sizes), sizes, "exact", test=result.null.test)
    assert result.pvalue.min(axis=None) == result.attainable_pvalue == best
    pairs = index_pairs(len(sizes), result.control is not None)
    maxima, _ = drawn_maxima(((tuple(range(sum(sizes))), tuple(sizes)),), pairs, 200_000, 0)
    drawn = np.mean(maxima > 0.999 * maxima.max())
    assert drawn == pytest.approx(best, abs=5 * math.sqrt(best / 200_000))


def test_pairs_say_which_method_is_better():
    samples = {"fast": range(5), "slow": range(10, 15), "mid": [2, 3, 11, 12]}
    assert list(steel_dwass(samples).pairs()["better"]) == ["slow", None, None]
    pairs = steel_dwass(samples, higher_is_better=False).pairs()
    assert list(pairs["better"]) == ["fast", None, None]
    # "Higher" is a higher score, even if lower is better.
    assert pairs["verdict"][0] == "slow higher, fast better"
    assert pairs["statistic"][0] > 0


def test_effect_sizes_have_intervals():
    result = steel_dwass({"a": range(5), "b": range(5, 10), "c": [0, 7, 8, math.nan]})
    sizes = result.effect_sizes()
    assert list(sizes) == ["a", "b", "delta", "low", "high", "probability"]
    assert sizes["delta"].tolist() == result.pairs()["effect_size"].tolist()
    assert tuple(sizes.loc[0, ["low", "high"]]) == cliffs_delta_interval(range(5, 10), range(5))
    assert tuple(sizes.loc[1, ["low", "high"]]) == pytest.approx(
        cliffs_delta_interval([0, 7, 8, -1], range(5))
    )
    narrow = result.effect_sizes(confidence=0.8)
    assert (narrow["high"] - narrow["low"] < sizes["high"] - sizes["low"]).all()
    assert (sizes["probability"] == (sizes["delta"] + 1) / 2).all()
