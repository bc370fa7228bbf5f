"""SVG of a picture."""

from __future__ import annotations

import math

import pandas as pd

from relation_tf.report.pictures.capabilities import profile_picture
from relation_tf.report.pictures.drawing import _compact


def test_groups_without_attributes_and_spaces_are_removed() -> None:
    path = '<path d="M 0 1" style="fill: none; stroke: red"/>'
    svg = f'<svg> <defs> </defs> <g> <g/> {path} <g clip-path="url(#a)"> <g> {path} </g> </g> </g>'
    text = '<text style="fill: red">a: b</text>'
    short = '<path d="M 0 1" style="fill:none;stroke:red"/>'
    assert _compact(f"{svg} {text} </svg>") == (
        f'<svg>{short}<g clip-path="url(#a)">{short}</g><text style="fill:red">a: b</text></svg>'
    )


def test_names_keep_their_spaces() -> None:
    row = {"task": "count", "method": "ViT L 16", "score": 97.6, "share": 0.9, "verdict": "worse",
           "state_kib": math.nan, "rule": 15.0, "chance": 11.0}  # fmt: skip
    svg = profile_picture(pd.DataFrame([row])).svg()
    assert ">ViT L 16<" in svg
    assert "Scores by method and task: ViT L 16: count 98" in svg
