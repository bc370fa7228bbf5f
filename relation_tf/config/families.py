"""Families of methods: blocks that are tested separately. Does not import Keras."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relation_tf.config.method import Method
    from relation_tf.config.suite import Suite


@dataclass(frozen=True)
class Family:
    """Methods that are compared with each other and with no others.

    Attributes:
        name: Name in reports, such as `"units 64"`.
        methods: Names of the methods.
        control: The method that the others are tested against, if any.
        reference: The method that the others are judged against, if any.
    """

    name: str
    methods: Sequence[str]
    control: str | None = None
    reference: str | None = None

    def renamed(self, names: Mapping[str, str]) -> Family:
        """Return the family with other names of some methods."""
        return Family(
            self.name,
            [names.get(name, name) for name in self.methods],
            names.get(self.control or "", self.control),
            names.get(self.reference or "", self.reference),
        )

    def judged(self, mechanisms: Mapping[str, str], **names: str | None) -> Family:
        """Return the family with another control or reference.

        Args:
            mechanisms: Mechanism of each method.
            **names: `control` or `reference`: a method of the family, or the mechanism of only one.
        """
        chosen = {"control": self.control, "reference": self.reference}
        for key, name in names.items():
            members = [method for method in self.methods if mechanisms.get(method) == name]
            only = members[0] if len(members) == 1 else None
            chosen[key] = name if name in self.methods else only
        return Family(self.name, self.methods, **chosen)


def families_of(suite: Suite, methods: Collection[str] | None = None) -> list[Family]:
    """Return the families of a suite; an empty list if all methods are one family.

    The lower bound is in none; the only family of a suite without other families has no name.

    Args:
        suite: The suite.
        methods: Its methods that are compared, by default all. Families without any are left out.
    """
    if suite.families is None and suite.lower_bound is None:
        return []
    compared = [method for method in suite.methods() if method.name != suite.lower_bound]
    mechanisms = {str(method.name): method.mechanism for method in compared}
    named = {"": [*mechanisms]} if suite.families is None else blocks(suite.families, compared)
    return [
        Family(name, names).judged(mechanisms, control=suite.control, reference=suite.reference)
        for name, names in named.items()
        if methods is None or {*names} & {*methods}
    ]


def faults(families: Sequence[Family], names: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with families.

    Args:
        families: The families.
        names: All methods; each must be in one family.
    """
    times = Counter(name for family in families for name in family.methods)
    for name in names:
        if times[name] != 1:
            received = f"Received: {name!r} in {times[name]} families"
            missing = f"Missing: {name!r}"
            yield f"must have each method in one list. {received if times[name] else missing}"
    for family in families:
        if len(family.methods) < 2:
            yield (
                "must give two or more methods in each family. Received: only "
                f"{', '.join(family.methods)} in {family.name}"
            )


def blocks(
    families: str | Sequence[Sequence[str]], methods: Sequence[Method]
) -> dict[str, list[str]]:
    """Return the methods of each family by its name.

    Args:
        families: A key of the methods, such as `"units"`, or lists of names.
        methods: The methods, for a key.
    """
    if not isinstance(families, str):
        return {f"family {number}": [*names] for number, names in enumerate(families, start=1)}
    from relation_tf.config.method import size_name  # comparisons of tables need no methods

    by_name: dict[str, list[str]] = {}
    for method in methods:
        size = size_name(method.size) if isinstance(method.size, int) else None
        keys = {"mechanism": method.mechanism, "units": method.units, "size": size}
        value = {**keys, **method.options}.get(families)
        name = f"{families} {'–' if value is None else value}"
        by_name.setdefault(name, []).append(str(method.name))
    return by_name
