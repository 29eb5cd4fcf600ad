# SPDX-License-Identifier: GPL-3.0-or-later
"""The built pages: mkdocs finds every link and anchor, formulas are MathML, and search works from a disk."""

import os
import re
import shutil
import subprocess
import sys
from urllib.parse import unquote, urlsplit

import pytest

from docs.figures.formulas import on_page_content
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages as `make docs` builds them; --strict turns a broken link or anchor into an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_links_and_files_of_the_site_are_there_from_a_disk(site):
    """Links must name a file, since a folder shows no page from file://; nothing is fetched from elsewhere."""
    missing, outside = [], []
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # a server shows it, with addresses from the root
            continue
        for tag, address in re.findall(r'<(\w+)[^>]*?\s(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8")):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if tag in ("link", "script", "img"):
                    outside.append(f"{page.relative_to(site)}: {address}")
            elif parts.path and not (page.parent / unquote(parts.path)).resolve().is_file():
                missing.append(f"{page.relative_to(site)}: {address}")
    assert not missing
    assert not outside


def test_every_formula_of_the_site_is_mathml(site):
    pages = [page.read_text(encoding="utf-8") for page in site.rglob("*.html")]
    assert sum(text.count("<math ") for text in pages) > 40
    assert not [text for text in pages if 'class="arithmatex"' in text]


def test_a_formula_keeps_its_signs():
    made = on_page_content('<span class="arithmatex">\\(a &lt; b_1\\)</span>')
    assert "<msub><mi>b</mi><mn>1</mn></msub>" in made
    assert "&#x0003C;" in made
    with pytest.raises(ValueError, match="nosuchcommand"):
        on_page_content('<div class="arithmatex">\\[\\nosuchcommand{1}\\]</div>')


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_search_finds_a_word_from_a_disk(site, tmp_path):
    """A real browser opens the start page as a file and runs its search."""
    page = f"{(site / 'index.html').as_uri()}?q=turnaround"
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += [f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000", "--dump-dom", page]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    found = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', dom)
    assert any("glossary.html" in address or "timing.html" in address for address in found), found
