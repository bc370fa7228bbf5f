"""Pages generated for the site: commands, reference, notebooks, and files outside docs/."""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]

# Files outside docs/ that become pages of the site with the same path.
PAGES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "benchmarks/README.md",
    "results/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("results/*/README.md")),
)

# Public modules, one page each.
REFERENCE = {
    "layers": "relation_tf.layers",
    "networks": "relation_tf.networks",
    "optimizers": "relation_tf.optimizers",
    "tasks": "relation_tf.tasks",
    "config": "relation_tf.config",
    "training": "relation_tf.training",
    "bench": "relation_tf.bench",
    "stats": "relation_tf.stats",
    "report": "relation_tf.report",
    "glue_submit": "glue_submit",
}

# Code is matched first, so that text in code is not treated as a link.
_CODE_OR_LINK = re.compile(
    r"```.*?```|`[^`\n]*`"
    r"|(?P<mark>!?)\[(?P<text>[^\]]*)\]"
    r"\((?!https?:|mailto:|#|data:)(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)",
    re.DOTALL,
)


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and their images."""
    for page in PAGES:
        _add_file(files, config, page)
        for link in _CODE_OR_LINK.finditer((ROOT / page).read_text(encoding="utf-8")):
            if link["mark"]:
                picture = posixpath.join(posixpath.dirname(page), link["target"])
                _add_file(files, config, posixpath.normpath(picture))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        _add_notebook(files, config, notebook)
    pages = {"commands": _commands(), **{name: _reference(name) for name in REFERENCE}}
    for name, content in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Convert relative links of the checkout to links of the site; other targets become paths."""
    here = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        if link["mark"] or link["target"] is None:
            return link[0]
        place = _place(posixpath.normpath(posixpath.join(here, link["target"])))
        if place is None:
            return f"{link['text']} (`{_of_checkout(here, link['target'])}`)"
        return f"[{link['text']}]({posixpath.relpath(place, here or '.')}{link['anchor'] or ''})"

    return _CODE_OR_LINK.sub(led, markdown)


def _place(path: str) -> str | None:
    """Return the page of the site for a path relative to docs/ or to the checkout, or None."""
    path = path.removeprefix("../")
    for known in (path, path.removeprefix("docs/")):
        if known in PAGES or (ROOT / "docs" / known).is_file():
            return known
    stem, suffix = posixpath.splitext(path)
    if posixpath.dirname(path) in ("notebooks", "reference") and suffix in (".ipynb", ".md"):
        return f"{stem}.md"
    return None


def _of_checkout(here: str, target: str) -> str:
    outside = target.startswith("../") and not (ROOT / here).is_dir()
    folder = f"docs/{here}" if outside else here
    return posixpath.normpath(posixpath.join(folder, target))


def _add_file(files: Files, config: Any, path: str) -> None:
    files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))


def _add_notebook(files: Files, config: Any, notebook: Path) -> None:
    from nbconvert import MarkdownExporter

    body, resources = MarkdownExporter().from_filename(str(notebook))
    pictures = resources["outputs"]
    for name in pictures:
        body = body.replace(f"({name})", f"({notebook.stem}/{name})")
    # Markdown ends an HTML block at a blank line and treats indented HTML as code.
    body = re.sub(r"<(div|style)\b.*?</\1>\n\n", _on_one_line, body + "\n\n", flags=re.DOTALL)
    files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=body))
    for name, picture in pictures.items():
        path = f"notebooks/{notebook.stem}/{name}"
        files.append(File.generated(config, path, content=picture))


def _on_one_line(html: re.Match[str]) -> str:
    return re.sub(r"\n\s*", "\n", html[0]).strip() + "\n\n"


def public_names(module: str) -> list[str]:
    """Return the public names of a module: imports of its stub or `__init__`, or its classes."""
    path = ROOT.joinpath(*module.split("."))
    sources = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
    body = ast.parse(next(source for source in sources if source.is_file()).read_text()).body
    imported = [
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    ]
    if path.is_dir():
        return sorted(imported, key=str.lower)
    return [node.name for node in body if isinstance(node, ast.ClassDef)]


def _reference(name: str) -> str:
    module = REFERENCE[name]
    blocks = [f"::: {module}.{public}\n" for public in public_names(module)]
    package = (
        f"::: {module}\n    options:\n      heading_level: 1\n      show_root_full_path: true\n"
    )
    return "\n".join([package, *blocks])


def _commands() -> str:
    """Return a page with the help of both commands."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from glue_submit.cli import app as glue_submit
    from relation_tf.cli.commands import app as relation_tf

    pages = ["# Commands\n"]
    for name, app in (("relation-tf", relation_tf), ("glue-submit", glue_submit)):
        command = get_command(app)
        context = typer.Context(command, info_name=name)
        text = get_docs_for_click(obj=command, ctx=context, name=name)
        text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
        examples = r"\x08\nExamples:\n((?:  .*\n)+)"
        pages.append(re.sub(examples, r"**Examples**:\n\n```console\n\1```\n", text))
    return "\n".join(pages)
