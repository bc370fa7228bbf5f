"""Markdown table of the results, and figures of time and memory by length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.table import CURVES, DECODERS, FLAT, ROWS, STEEPEST, Curve

_FROM, _LONG, _TO = 128, 2048, 32_768  # tokens

Results = Mapping[str, Any]


def markdown(results: Results) -> str:
    """Return the machine, the measured rows, and the growth of each mechanism as Markdown."""
    parts = [*_machine(results), *_rows(results), *_growth(results), *_decoding(results)]
    return "\n".join(parts) + "\n"


def slope(points: list[Mapping[str, Any]], shortest: int, longest: int) -> float:
    """Return the least-squares slope of log time on log length between two lengths."""
    points = [point for point in points if shortest <= point["length"] <= longest]
    lengths = [point["length"] for point in points]
    seconds = [point["seconds"]["median"] for point in points]
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


def _machine(results: Results) -> Iterator[str]:
    machine = results.get("machine", {}).get("measured")
    if machine is None:
        return
    about = machine["description"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    yield (
        f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB; "
        f"Python {about['python']}, {versions}."
    )
    yield ""
    yield (
        f"Its highest rates, measured in the same run: {_giga(machine['operations'])} billion "
        f"operations per second in products of float32 matrices, {_giga(machine['bytes'])} GB per "
        "second to and from memory."
    )
    yield ""


def _giga(figure: Mapping[str, float]) -> str:
    return f"{figure['median'] / 1e9:.1f} ({figure['low'] / 1e9:.1f} to {figure['high'] / 1e9:.1f})"


def _rows(results: Results) -> Iterator[str]:
    rows = [row for row in ROWS if row.name in results]
    if not rows:
        return
    yield "| measured | compared with | ratio | target | reached | time | time compared with |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    notes: dict[str, int] = {}
    for row in rows:
        result = results[row.name].get("measured")
        if result is None:
            missing = _missing(results[row.name])
            yield f"| {row.what} | {row.against} | {missing} | {row.bound} | | | |"
            continue
        value, sides = result["value"], result["sides"]
        kept = "yes" if row.at_least <= value["median"] <= row.at_most else "**no**"
        mark = ""
        if result["note"]:
            mark = f" [{notes.setdefault(result['note'], len(notes) + 1)}]"
        cells = [
            row.what + mark, row.against, _figure(value), row.bound, kept if row.bound else "",
            _side(sides.get("what"), result["unit"]), _side(sides.get("against"), result["unit"]),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield ""
    commits = sorted({results[row.name]["commit"] for row in rows})
    yield (
        "Medians and quartiles of rounds; both sides took turns in each round. Commit "
        f"{', '.join(commits)}."
    )
    yield ""
    for note, number in notes.items():
        yield f"[{number}] {note[0].upper()}{note[1:]}."
        yield ""


def _growth(results: Results) -> Iterator[str]:
    curves = [curve for curve in CURVES if name_of(curve) in results]
    if not curves:
        return
    head = f"slope from {_FROM:,} | slope from {_LONG:,} to {_TO:,} | target | reached"
    yield f"| step, batch 4, width 64 | tokens | {head} | longest |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for curve in curves:
        points = results[name_of(curve)].get("measured")
        if points is None:
            yield f"| {curve.subject} | {_missing(results[name_of(curve)])} | | | | | |"
            continue
        whole = slope(points, _FROM, points[-1]["length"])
        # The target is for long texts: for short ones, the fixed cost dominates.
        steep = slope(points, _LONG, _TO)
        wanted = f"at most {STEEPEST}" if curve.linear else ""
        kept = ("yes" if steep <= STEEPEST else "**no**") if curve.linear else ""
        last = points[-1]
        took = f"{_seconds(last['seconds']['median'])}, {last['bytes'] / 2**20:,.0f} MiB"
        tokens = f"{points[0]['length']:,} to {last['length']:,}"
        cells = [curve.subject, tokens, f"{whole:.2f}", f"{steep:.2f}", wanted, kept, took]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _decoding(results: Results) -> Iterator[str]:
    curves = [curve for curve in DECODERS if decoder_name(curve) in results]
    if not curves:
        return
    yield "| next token, batch 4, width 64 | tokens | slope | target | reached | longest |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for curve in curves:
        points = results[decoder_name(curve)].get("measured")
        if points is None:
            yield f"| {curve.subject} | {_missing(results[decoder_name(curve)])} | | | | |"
            continue
        first, last = points[0], points[-1]
        steep = slope(points, first["length"], last["length"])
        wanted = f"at most {FLAT}" if curve.linear else ""
        kept = ("yes" if steep <= FLAT else "**no**") if curve.linear else ""
        rate = f"{_tokens_per_second(last):,.0f} tokens per second, {last['bytes'] / 1024:,.1f} KiB"
        length = f"{first['length']:,} to {last['length']:,}"
        shown = f"{round(steep, 2) + 0.0:.2f}"  # avoid -0.00
        cells = [curve.subject, length, shown, wanted, kept, rate]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _tokens_per_second(point: Mapping[str, Any]) -> float:
    """Return tokens per second, summed over the four sequences of the batch."""
    return 4 / point["seconds"]["median"]


def name_of(curve: Curve) -> str:
    """Return the name of a curve in the results."""
    return f"curve-{curve.subject.replace(', ', '-').replace(' ', '-')}"


def decoder_name(curve: Curve) -> str:
    """Return the name of the curve of a decoder in the results."""
    return f"decode-{curve.subject}"


def _missing(result: Mapping[str, str]) -> str:
    return next(f"{kind}: {result[kind]}" for kind in ("skipped", "failed") if kind in result)


def _figure(value: Mapping[str, float]) -> str:
    median, low, high = (f"{value[key]:.3g}" for key in ("median", "low", "high"))
    return median if low == high else f"{median} ({low} to {high})"


def _side(side: Mapping[str, float] | None, unit: str) -> str:
    if side is None:
        return ""
    if unit == "s":
        return _seconds(side["median"])
    if unit == "bytes":
        return f"{side['median'] / 2**20:,.0f} MiB"
    return f"{side['median'] / 1e9:.1f} billion {unit}"


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def draw(results: Results, folder: Path) -> None:
    """Write the figures of training steps and `decoding.svg`, on logarithmic axes.

    Each figure of training steps also has the curve of attention.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for figure in dict.fromkeys(curve.figure for curve in CURVES):
        chosen = [c for c in CURVES if c.figure == figure or c.subject == "Attention"]
        _draw(
            [(curve, _measured(results, name_of(curve))) for curve in chosen],
            folder / f"{figure}.svg",
            ("A training step, batch 4, width 64", "seconds",
             lambda point: point["seconds"]["median"]),
            ("Additional memory of a step", "MiB", lambda point: point["bytes"] / 2**20),
        )  # fmt: skip
    decoders = [(curve, _measured(results, decoder_name(curve))) for curve in DECODERS]
    _draw(
        decoders, folder / "decoding.svg",
        ("Decoding token by token, batch 4, width 64", "tokens per second", _tokens_per_second),
        ("Memory of the state", "KiB", lambda point: point["bytes"] / 1024),
    )  # fmt: skip


def _measured(results: Results, name: str) -> list[Mapping[str, Any]]:
    return list(results.get(name, {}).get("measured", []))


def _draw(
    curves: list[tuple[Curve, list[Mapping[str, Any]]]],
    path: Path,
    *panels: tuple[str, str, Callable[[Mapping[str, Any]], float]],
) -> None:
    curves = [(curve, points) for curve, points in curves if points]
    if not curves:
        return
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    colors = mpl.color_sequences["tab10"]
    for axes, (title, label, value) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for number, (curve, points) in enumerate(curves):
            shown = [(point["length"], value(point)) for point in points if value(point)]
            axes.plot(
                *(zip(*shown, strict=True) if shown else ([], [])),
                label=curve.subject,
                color=colors[number % len(colors)],
                linestyle="-" if curve.linear else "--",
                marker="osD^vP*Xph<>"[number],
                markersize=4,
                linewidth=1.4,
            )
        axes.set(title=title, xscale="log", yscale="log", xlabel="tokens", ylabel=label)
        axes.xaxis.set_major_locator(mpl.ticker.LogLocator(base=2, subs=(1,), numticks=16))
        axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
        axes.tick_params(axis="x", rotation=45)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    entries = figure.axes[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside right center", frameon=False)
    figure.savefig(path, metadata={"Date": None})
