"""Griffe extension for the sections of our docstrings."""

from __future__ import annotations

import pydoc
import re
from typing import Any

import griffe


class OurSections(griffe.Extension):
    """Extension that parses `Example:` sections as code and `Call arguments:` as a list."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the sections of a docstring to names that griffe supports."""
        if obj.docstring is not None:
            if obj.is_class and obj.path.startswith("relation_tf.layers."):
                # The class adds the arguments that it passes to its base class.
                obj.docstring.value = pydoc.getdoc(pydoc.locate(obj.path))
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(
                r"^Call arguments:\n((?: .*\n)+)", _listed, text, flags=re.MULTILINE
            )


def _listed(section: re.Match[str]) -> str:
    items = re.sub(r"^    (\w+): ", r"    - `\1`: ", section[1], flags=re.MULTILINE)
    return f"Call arguments:\n{items}"
