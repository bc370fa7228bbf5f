"""SVG of a picture."""

from __future__ import annotations

import math
from dataclasses import replace

import matplotlib as mpl
import pandas as pd

from relation_tf.report.drawing import styles, swatch
from relation_tf.report.sections.capabilities import profile_picture

ROW = {"task": "count", "method": "ViT L 16", "score": 97.6, "share": 0.9, "verdict": "worse",
       "state_kib": math.nan, "rule": 15.0, "chance": 11.0}  # fmt: skip


def test_names_keep_their_spaces() -> None:
    assert ">ViT L 16<" in profile_picture(pd.DataFrame([ROW])).svg()


def test_a_matplotlibrc_of_the_current_folder_has_no_effect(tmp_path) -> None:
    """With TeX, it could run code."""
    picture = profile_picture(pd.DataFrame([ROW]))
    expected = picture.svg(), picture.png()
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nxtick.major.size: 30\n"
                                           "savefig.bbox: tight\n")  # fmt: skip
    with mpl.rc_context(fname=tmp_path / "matplotlibrc"):
        swatch.cache_clear()
        again = replace(picture)
        assert (again.svg(), again.png()) == expected
        swatch(styles(["attention"])["attention"])
