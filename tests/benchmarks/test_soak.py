import pytest

from benchmarks import soak


def test_a_leak_is_reported():
    rows = [(2 * i, i / 10, 500 + 2.0 * i) for i in range(50)]
    assert "+100.00 MiB per 100 runs" in soak.said(rows)
    assert soak.said([(0, 0.0, 400.0)] + [(2 * i, 0.1, 500.0) for i in range(1, 20)]).startswith(
        "38 runs in 0 min: 500 MiB halfway, 500 MiB at the end, "
    )


@pytest.mark.slow
@pytest.mark.tensorflow
def test_runs_are_counted_and_written(tmp_path, capsys):
    soak.main(minutes=0, out=tmp_path / "soak.csv")
    lines = (tmp_path / "soak.csv").read_text().splitlines()
    assert lines[0] == "runs,minutes,mib"
    assert lines[-1].startswith("2,")
    assert len(lines) == 3
    assert capsys.readouterr().out.startswith("2 runs in 0 min")
