"""Size of the SVG of a picture."""

from __future__ import annotations

from relation_tf.report.pictures.drawing import _compact


def test_groups_without_attributes_and_spaces_are_removed() -> None:
    path = '<path d="M 0 1" style="fill: none; stroke: red"/>'
    svg = f'<svg> <defs> </defs> <g> <g/> {path} <g clip-path="url(#a)"> <g> {path} </g> </g> </g>'
    text = '<text style="fill: red">a: b</text>'
    short = '<path d="M 0 1" style="fill:none;stroke:red"/>'
    assert _compact(f"{svg} {text} </svg>") == (
        f'<svg>{short}<g clip-path="url(#a)">{short}</g><text style="fill:red">a: b</text></svg>'
    )
