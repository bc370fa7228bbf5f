from types import SimpleNamespace

from benchmarks import against_attention


def test_table_of_each_form(monkeypatch, capsys):
    suite = SimpleNamespace(
        method=[SimpleNamespace(mechanism=name) for name in ("attention", "baseline")]
    )
    monkeypatch.setattr(against_attention, "load_suite", lambda name: suite)
    against_attention.main(batch=1, length=4, width=8)
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[1].strip() for row in rows] == ["attention", "attention, causal", "baseline"]
    assert float(rows[0][3]) == 1
