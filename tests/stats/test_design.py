"""Tests of attainable p against published values and direct integration."""

from __future__ import annotations

import pytest
from scipy.integrate import dblquad, quad

from relation_tf.stats import attainable_pvalue, design, seeds_needed, what_can_be_shown
from relation_tf.words import format_pvalue

# Five seeds, 2 to 10 methods; then the seeds needed for .05.
ASYMPTOTIC = [0.0090, 0.0245, 0.0447, 0.0683, 0.0945, 0.1225, 0.1517, 0.1817, 0.2121]
EXACT = [0.0079, 0.0218, 0.0402, 0.0619, 0.0862, 0.1124, 0.1399, 0.1683, 0.1973]
SEEDS_ASYMPTOTIC = [3, 5, 5, 6, 6, 7, 7, 7, 8]
SEEDS_EXACT = [4, 5, 5, 6, 6, 6, 6, 7, 7]
# One control against all others, five seeds.
ONE_AGAINST_ALL = [0.0079, 0.0152, 0.0219, 0.0282, 0.0341, 0.0397, 0.0450, 0.0500, 0.0548]


@pytest.mark.parametrize(("method", "table"), [("asymptotic", ASYMPTOTIC), ("exact", EXACT)])
def test_smallest_p_of_five_seeds(method, table):
    reached = [attainable_pvalue(k, 5, method) for k in range(2, 11)]
    assert reached == pytest.approx(table, abs=5.1e-5)


def test_smallest_p_of_one_against_all():
    reached = [attainable_pvalue(k, 5, "exact", test="steel") for k in range(2, 11)]
    assert reached == pytest.approx(ONE_AGAINST_ALL, abs=5.1e-5)


@pytest.mark.parametrize("k", [2, 4, 9])
@pytest.mark.parametrize("n", [2, 5, 8])
def test_exact_p_of_one_against_all_is_the_integral(k, n):
    # The n control scores range from x to y. The probability that another method overlaps with
    # them is 1 - x^n - (1 - y)^n.
    def both(x, y):
        return n * (n - 1) * (y - x) ** (n - 2) * (1 - x**n - (1 - y) ** n) ** (k - 1)

    separated = 1 - dblquad(both, 0, 1, 0, lambda y: y)[0]
    smallest = attainable_pvalue(k, n, "exact", test="steel")
    assert smallest == pytest.approx(separated, abs=1e-8)


def test_seeds_needed_against_one_control():
    for k in (2, 5, 9):
        for method in ("asymptotic", "exact"):
            n = seeds_needed(k, method=method, test="steel")
            reached, missed = (
                attainable_pvalue(k, seeds, method, test="steel") for seeds in (n, n - 1)
            )
            assert reached < 0.05 <= missed


@pytest.mark.parametrize(
    ("method", "table"), [("asymptotic", SEEDS_ASYMPTOTIC), ("exact", SEEDS_EXACT)]
)
def test_seeds_needed(method, table):
    assert [seeds_needed(k, method=method) for k in range(2, 11)] == table


@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_exact_sum_is_the_integral(k, n):
    def overlapping(t):
        return n * (1 - t) ** (n - 1) * (1 - (1 - t) ** n - t**n) ** (k - 1)

    assert attainable_pvalue(k, n, "exact") == pytest.approx(
        1 - k * quad(overlapping, 0, 1)[0], abs=1e-9
    )


def test_sizes_may_differ():
    # With three and more groups: checked by enumeration in test_steel_dwass.py.
    assert attainable_pvalue(2, (6, 5), "exact") == pytest.approx(2 / 462)
    assert attainable_pvalue(2, (5, 6)) == attainable_pvalue(2, (6, 5))


def test_tiny_p_keeps_its_digits():
    assert attainable_pvalue(2, 20, "exact") == pytest.approx(2 / 137846528820, rel=1e-12)


@pytest.mark.parametrize(
    ("design", "test", "smallest", "needed"),
    [
        ((4, 5), "steel-dwass", ".040", 5),
        ((5, 5), "steel-dwass", ".062", 6),
        ((2, 3), "steel-dwass", ".100", 4),
        ((4, 3), "steel-dwass", ".357", 5),
        ((10, 5), "steel", ".055", 6),
    ],
)
def test_what_can_be_shown(design, test, smallest, needed):
    said = what_can_be_shown(*design, test=test)
    assert smallest in said
    assert f"at least {needed} seeds" in said
    assert ("no difference" in said) == (design[1] < needed)


def test_formatted_p_stays_on_its_side_of_alpha():
    assert format_pvalue(0.0499996) == "p = .0499996"
    assert format_pvalue(0.05) == "p = .050"
    assert format_pvalue(0.0004) == "p < .001"
    assert format_pvalue(0.0004, alpha=0.0005) == "p < .0005"
    assert format_pvalue(0.0004, alpha=0.0001) == "p = .0004"
    assert format_pvalue(1.0) == "p = 1.000"
    assert format_pvalue(0.04466, decimals=4) == "p = .0447"
    assert format_pvalue(0.05 - 1e-17) == format_pvalue(0.05 + 1e-12) == "p = .050"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attainable_pvalue(1, 5), "Received: num_methods=1"),
        (lambda: attainable_pvalue(3, 0), "Received: num_seeds=0"),
        (lambda: attainable_pvalue(3, (5, 5)), r"Received: num_seeds=\(5, 5\)"),
        (lambda: attainable_pvalue(3, 5, "monte-carlo"), "Received: method='monte-carlo'"),
        (lambda: attainable_pvalue(3, 5, test="pairs"), "Received: test='pairs'"),
        (lambda: what_can_be_shown(3, 5, test="all"), "unknown test 'all'"),
        (lambda: seeds_needed(3, 1.5), "Received: alpha=1.5"),
        (lambda: seeds_needed(3, method="none"), "Received: method='none'"),
    ],
)
def test_out_of_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("k", "n"), [(2, 3), (5, 1), (20, 5), (50, 12)])
def test_many_methods_use_an_integral_that_equals_the_sums(monkeypatch, k, n):
    exact = design._any_pair_disjoint(k, n), design._one_disjoint(n, 6, k)
    monkeypatch.setattr(design, "_MOST_EXPANDED", 0)
    integral = design._any_pair_disjoint(k, n), design._one_disjoint(n, 6, k)
    assert integral == pytest.approx(exact, abs=1e-10)
