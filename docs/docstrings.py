"""What our docstrings need to be read well by griffe."""

from __future__ import annotations

import re
from typing import Any

import griffe


class OurSections(griffe.Extension):
    """Doctests under `Example:` are code, and `Call arguments:` are a list."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Spell the sections of an object as griffe knows them."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(
                r"^Call arguments:\n((?: .*\n)+)", _listed, text, flags=re.MULTILINE
            )


def _listed(section: re.Match[str]) -> str:
    items = re.sub(r"^    (\w+): ", r"    - `\1`: ", section[1], flags=re.MULTILINE)
    return f"Call arguments:\n{items}"
