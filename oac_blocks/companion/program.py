# SPDX-License-Identifier: GPL-3.0-or-later
"""Start GNU Radio Companion with the blocks of this project, without questions and without files left behind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oac_blocks.companion.places import BLOCKS, FLOWGRAPHS, PACKAGE


def programs_folder() -> Path:
    """Return the folder of the programs that Companion generates from the flowgraphs of this project."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gr-oac" / "flowgraphs"


def documentation_url(doc_url: str) -> str:
    """Return where a page of the documentation is on this machine, as a URL; nothing if it is not here.

    Parameters
    ----------
    doc_url
        The page below the documentation's start, as block descriptions name it: ``blocks.html#trigger-source``.
    """
    page, _, anchor = doc_url.partition("#")
    built, source = PACKAGE.parent / "site" / page, (PACKAGE.parent / "docs" / page).with_suffix(".md")
    if built.is_file():
        return f"{built.as_uri()}#{anchor}"
    return source.as_uri() if source.is_file() else ""


def application(files: Sequence[str | Path] = ()) -> Any:
    """Return Companion, a ``Gtk.Application`` to ``run([])``, with these flowgraphs to open.

    A flowgraph of this project is saved in place, and its program is generated in ``programs_folder()``. The program of
    any other flowgraph is generated beside it, which is Companion's default.

    Raises
    ------
    RuntimeError
        If there is no screen.
    """
    os.environ["GRC_BLOCKS_PATH"] = os.pathsep.join(filter(None, (str(BLOCKS), os.environ.get("GRC_BLOCKS_PATH"))))
    # Companion asks the user for a terminal program, because it takes a bare name for a path that does not exist. This
    # path exists and cannot be executed. Flowgraphs without a window then print into Companion's own console, where
    # their last output stays, and its Stop button ends the program instead of the terminal around it.
    os.environ.setdefault("GR_CONF_GRC_XTERM_EXECUTABLE", os.devnull)

    import gi

    gi.require_version("Gtk", "3.0")
    gi.require_version("PangoCairo", "1.0")
    from gi.repository import Gtk

    if not Gtk.init_check()[0]:
        raise RuntimeError(
            "Companion must have a screen to draw on, and DISPLAY is "
            f"{os.environ.get('DISPLAY', 'not set')}: run it on a desktop, or with ssh -X"
        )
    from gnuradio import gr
    from gnuradio.grc.core import schema_checker
    from gnuradio.grc.core.generator import Generator
    from gnuradio.grc.gui.Platform import Platform  # before Application: the two import each other's parts

    from gnuradio.grc.gui.Application import Application  # isort: skip

    class OacPlatform(Platform):
        @staticmethod
        def Generator(flow_graph: Any, output_folder: str) -> Any:
            if Path(output_folder).resolve() == FLOWGRAPHS.resolve():
                programs_folder().mkdir(parents=True, exist_ok=True)
                output_folder = str(programs_folder())
            return Generator(flow_graph, output_folder)

        def load_block_description(self, data: dict[str, Any], file_path: str) -> None:
            if Path(file_path).parent == BLOCKS and "doc_url" in data:
                data = {**data, "doc_url": documentation_url(data["doc_url"])}
            super().load_block_description(data, file_path)

    # GNU Radio before 3.10.9 has no link to the documentation, and would warn of the unknown key in each description.
    schema_checker.BLOCK_SCHEME.setdefault("doc_url", schema_checker.BLOCK_SCHEME["documentation"])
    version = (gr.major_version(), gr.api_version(), gr.minor_version())
    platform = OacPlatform(version=gr.version(), version_parts=version, prefs=gr.prefs(), install_prefix=gr.prefix())
    platform.build_library()
    return Application([str(file) for file in files], platform)
