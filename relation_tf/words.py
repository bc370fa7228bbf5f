"""Numbers, counts, p-values and lists as text. Imports nothing of the package."""

from __future__ import annotations

import math
from collections.abc import Sequence

GLUE_AVERAGE, MEAN_OF_TASKS = "GLUE average", "mean of these tasks"
"""Names of averages over tasks, next to the names of tasks."""
_MOST_LISTED, _FEW_LISTED = 60, 20  # names in a list; of more, some are named


def number(value: float | None, digits: int = 0) -> str:
    """Format a number, with a minus sign if it is negative; NaN and None are a dash.

    Example:
        >>> number(1234.5, 1), number(-0.25, 1), number(-0.001), number(float("nan"))
        ('1,234.5', '−0.2', '0', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    # Means that differ by errors of summation are rounded alike.
    return f"{float(f'{value:.15g}'):z,.{digits}f}".replace("-", "−").replace("inf", "∞")


def signed(value: float, digits: int = 2) -> str:
    """Format a number with its sign; NaN is a dash.

    Example:
        >>> signed(0.5), signed(-0.25, 1), signed(float("-inf"))
        ('+0.50', '−0.2', '−∞')
        >>> signed(-0.001), signed(float("nan"))
        ('+0.00', '–')
    """
    if math.isnan(value):
        return "–"
    return f"{value:+z,.{digits}f}".replace("-", "−").replace("inf", "∞")


def limit(value: float, digits: int = 2) -> str:
    """Format a limit of an interval as `signed`, so that only zero looks like zero.

    Example:
        >>> limit(0.12), limit(0.004), limit(0.0)
        ('+0.12', '+0.004', '0')
    """
    enough = (d for d in range(digits, digits + 4) if round(value, d))
    return next((signed(value, d) for d in enough), "0")


def spread(value: float, deviation: float, digits: int = 1) -> str:
    """Format a mean with its standard deviation, which may be NaN.

    Example:
        >>> spread(2.0, 0.5), spread(2.0, float("nan"))
        ('2.0 ± 0.5', '2.0')
    """
    mean = number(value, digits)
    return mean if math.isnan(deviation) else f"{mean} ± {number(deviation, digits)}"


def two_digits(value: float) -> str:
    """Format a number with two significant digits, without an exponent.

    Example:
        >>> two_digits(0.123), two_digits(154.2), two_digits(15_420)
        ('0.12', '150', '15,000')
    """
    return f"{float(f'{value:.2g}'):,.15g}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 seed` or `5 seeds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def failed_in_words(failed: int, diverged: int) -> str:
    """Return the numbers of failed runs, such as "1 failed, 2 diverged"; empty for none.

    Args:
        failed: Number of failed runs.
        diverged: Number of diverged runs among them.
    """
    counts = {"failed": failed - diverged, "diverged": diverged}
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number)


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str], last_word: str = "and") -> str:
    """Join names as a sentence lists them; of more than 60, 20 are named. Empty without names.

    Example:
        >>> listed(["a"]), listed(["a", "b", "c"])
        ('a', 'a, b and c')
    """
    if len(names) > _MOST_LISTED:
        names = [*names[:_FEW_LISTED], f"{len(names) - _FEW_LISTED:,} others"]
    *most, last = names or [""]
    return f"{', '.join(most)} {last_word} {last}" if most else last


def first_of(shown: int, total: int, noun: str) -> str:
    """Return the words for a limit.

    Example:
        >>> first_of(300, 44_850, "rows")
        'the first 300 of 44,850 rows'
    """
    return f"the first {shown:,} of {total:,} {noun}"


def number_of_seeds(sizes: Sequence[int], noun: str = "seed") -> str:
    """Return the numbers of seeds, or of another noun, of samples, such as `3 to 5 seeds`."""
    fewest, most = min(sizes), max(sizes)
    to = "or" if most == fewest + 1 else "to"
    return count(most, noun) if fewest == most else f"{fewest} {to} {most} {noun}s"


def format_pvalue(pvalue: float, alpha: float = 0.05, decimals: int = 3) -> str:
    """Format a p-value with enough decimals to show if it is below alpha.

    Args:
        pvalue: A probability.
        alpha: Level of the test.
        decimals: Smallest number of decimals.

    Returns:
        A text such as `p = .045` or `p < .001`.

    Example:
        >>> format_pvalue(0.0447), format_pvalue(0.04953), format_pvalue(1e-6)
        ('p = .045', 'p = .0495', 'p < .001')
    """
    if math.isclose(pvalue, alpha):  # equal but for rounding
        pvalue = alpha
    if pvalue < min(alpha, 0.001):
        return format_level(min(alpha, 0.001))
    same_side = (d for d in range(decimals, 17) if (round(pvalue, d) < alpha) == (pvalue < alpha))
    return "p = " + f"{pvalue:.{next(same_side, 17)}f}".removeprefix("0")


def pvalue_only(pvalue: float, alpha: float = 0.05) -> str:
    """Format a p-value without "p =", for a table column.

    Example:
        >>> pvalue_only(0.0447), pvalue_only(1e-6)
        ('.045', '< .001')
    """
    return format_pvalue(pvalue, alpha).removeprefix("p ").removeprefix("= ")


def at_least(pvalue: float, alpha: float = 0.05) -> str:
    """Format a lower bound of a p-value, rounded down, after "is"; a small one as approximation.

    Example:
        >>> at_least(0.0447), at_least(1e-6)
        ('at least .044', 'below .001')
    """
    if pvalue < 0.001:
        return "below .001"
    return f"at least {pvalue_only(math.floor(1000 * pvalue + 1e-9) / 1000, alpha)}"


def format_level(alpha: float) -> str:
    """Return the condition for significance, such as `p < .05`."""
    return "p < " + f"{alpha:g}".removeprefix("0")
