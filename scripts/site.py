"""Build the documents as a static site with a search, in `build/site`: `make site`.

The pages stay plain Markdown with relative links, which is what a repository's own pages show and what the tests run. They are laid
out for the builder as they lie here, with the README as the home page. The builder is strict: a link that leads nowhere ends it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
HOME = "README.md"
PAGES = (HOME, "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SECTIONS = {
    "Tutorials": "docs/tutorials",
    "How to": "docs/how-to",
    "Reference": "docs/reference",
    "Explanation": "docs/explanation",
    "Examples": "examples",
    "Decisions": "docs/decisions",
}
#: Long pages, and those for who changes seriatim: the search would list them first.
UNSEARCHED = ("CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
_LINK = re.compile(r"(!?\[[^\]\n]*\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def pages() -> list[Path]:
    """Every page, from the project's folder."""
    found = [*(ROOT / name for name in PAGES), ROOT / "docs" / "index.md"]
    for folder in SECTIONS.values():
        found += sorted((ROOT / folder).rglob("*.md"))
    return [page.relative_to(ROOT) for page in found]


def lay_out(stage: Path) -> None:
    """Copy every page, and every file that one leads to, to where the builder finds them."""
    shutil.rmtree(stage, ignore_errors=True)
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in _targets(page, text):
            if target.is_file() and target.suffix != ".md":
                _copy(target, stage / target.relative_to(ROOT))
        place = stage / _place(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        head = _UNSEARCHED if page.name in UNSEARCHED else ""
        place.write_text(head + _LINK.sub(partial(_to_page, page), text), encoding="utf-8")


def _targets(page: Path, text: str) -> Iterator[Path]:
    for link in _LINK.finditer(text):
        if "://" not in link[2]:
            yield (ROOT / page.parent / link[2]).resolve()


def _to_page(page: Path, link: re.Match[str]) -> str:
    """A link as the site has it: to the home page for the README, to its page for a folder."""
    target = (ROOT / page.parent / link[2]).resolve()
    if "://" in link[2] or not target.is_relative_to(ROOT):
        return link[0]
    if target.is_dir() and (target / "README.md").exists():
        target /= "README.md"
    if target == ROOT / HOME:
        target = ROOT / "index.md"
    back = "../" * len(page.parent.parts)
    return f"{link[1]}{back}{target.relative_to(ROOT).as_posix()}{link[3] or ''}{link[4]}"


def _place(page: Path) -> Path:
    return Path("index.md") if page == Path(HOME) else page


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def settings(stage: Path, site: Path) -> str:
    """The builder's settings, with every page in the navigation."""
    lines = [
        "site_name: seriatim",
        "site_description: Scrambled messages back in order, per group, each once",
        f"docs_dir: {stage.relative_to(BUILD)}",
        f"site_dir: {site.relative_to(BUILD)}",
        "use_directory_urls: true",
        "theme:",
        "  font: false",  # of another server's
        "  features: [navigation.tabs, navigation.indexes, navigation.top, search.highlight, content.code.copy]",
        "  palette:",
        "    - {media: '(prefers-color-scheme: light)', scheme: default}",
        "    - {media: '(prefers-color-scheme: dark)', scheme: slate}",
        "markdown_extensions:",
        "  - tables",
        "  - attr_list",
        "  - toc: {permalink: true}",
        "  - pymdownx.highlight",
        "  - pymdownx.superfences:",
        "      custom_fences:",
        "        - name: mermaid",
        "          class: mermaid",
        "          format: !!python/name:pymdownx.superfences.fence_code_format",
        "nav:",
        "  - Home: index.md",
        "  - All pages: docs/index.md",
    ]
    known = pages()
    for heading, folder in SECTIONS.items():
        lines.append(f"  - {heading}:")
        lines += [f"      - {_title(page)}: {page.as_posix()}" for page in known if page.is_relative_to(folder)]
    lines.append("  - Project:")
    lines += [f"      - {_title(Path(page))}: {page}" for page in PAGES if page != HOME]
    return "\n".join(lines) + "\n"


def _title(page: Path) -> str:
    found = _TITLE.search((ROOT / page).read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{page}: the page has no title: begin it with a line '# …'")
    return '"' + found[1].replace("`", "").replace('"', "'") + '"'


def check_sections() -> None:
    """Refuse a page of `docs` that the navigation wouldn't have."""
    left = {page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")} - set(pages())
    if left:
        raise SystemExit(f"{min(left)} is in no section: move it, or add its folder to SECTIONS in scripts/site.py")


def main() -> int:
    """Build it; the exit code is the builder's."""
    check_sections()
    stage, site = BUILD / "pages", BUILD / "site"
    lay_out(stage)
    config = BUILD / "site.yml"
    config.write_text(settings(stage, site), encoding="utf-8")
    builder = Path(sys.executable).with_name("zensical")
    return subprocess.run(
        [builder, "build", "--strict", "--clean", "--config-file", config], cwd=BUILD, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
