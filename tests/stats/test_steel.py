"""Steel's many-one test against published values, brute force and simulation."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from relation_tf.stats import steel, steel_dwass

# S. Aoki (Gunma University), Steel.R: the control and two treated groups of ten.
AOKI = {
    "control": [50, 55, 65, 63, 60, 68, 69, 60, 52, 49],
    "high": [80, 86, 74, 66, 79, 81, 70, 62, 60, 72],
    "like": [42, 48, 58, 63, 62, 55, 63, 60, 53, 45],
}
GROUPS = st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=5), min_size=2, max_size=4).map(
    lambda groups: {f"m{i}": group for i, group in enumerate(groups)}
)


def test_statistic_matches_the_published_value():
    assert steel(AOKI, "control").statistic["high"] == pytest.approx(2.952566, abs=5e-7)


def test_two_methods_give_the_mann_whitney_test():
    control, other = [1, 4, 6, 8, 8], [3, 7, 9, 8, 11, 12]
    expected = mannwhitneyu(other, control, use_continuity=False, method="asymptotic")
    found = steel((control, other), "1", method="asymptotic")
    assert found.pvalue["2"] == pytest.approx(expected.pvalue)
    exact, all_pairs = (
        steel((control, other), "1"),
        steel_dwass((control, other)),
    )
    assert exact.method == all_pairs.method == "exact"
    assert exact.pvalue["2"] == all_pairs.pvalue.loc["1", "2"]


@settings(deadline=None, max_examples=10)
@given(GROUPS, st.randoms(use_true_random=False))
def test_invariances(samples, random):
    test = functools.partial(steel, control="m0", method="asymptotic")
    result = test(samples)
    warped = {name: np.exp(np.array(group) / 2) for name, group in samples.items()}
    np.testing.assert_allclose(test(warped).pvalue, result.pvalue, atol=1e-9)
    turned = {name: [-x for x in group] for name, group in samples.items()}
    np.testing.assert_allclose(test(turned).statistic, -result.statistic, atol=1e-12)
    order = list(samples)
    random.shuffle(order)
    shuffled = test({name: samples[name] for name in order})
    np.testing.assert_allclose(shuffled.pvalue[result.pvalue.index], result.pvalue, atol=1e-9)


def test_pairs_are_those_with_the_control():
    result = steel(AOKI, "like", higher_is_better=False)
    pairs = result.pairs()
    assert list(pairs["a"] + "|" + pairs["b"]) == ["like|control", "like|high"]
    assert list(pairs["better"]) == [None, "like"]
    assert list(pairs["verdict"]) == [
        "no significant difference",
        "high higher, like better",
    ]
    assert pairs["statistic"].tolist() == result.statistic.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": "x"}, r"one of \['control', 'high', 'like'\]. Received: control='x'"),
        ({"control": "like", "method": "bootstrap"}, "Received: method='bootstrap'"),
        ({"control": "like", "method": "exact"}, r"about 10\^12.7 arrangements"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        steel(AOKI, **options)


def test_names_are_escaped_and_letters_refused():
    result = steel({"attention": range(5), "<relation>": range(5, 10)}, "attention")
    assert "&lt;relation&gt; higher" in result._repr_html_()
    assert "<relation>" not in result._repr_html_()
    with pytest.raises(ValueError, match="letters need a test of all pairs"):
        result.letters()
