# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which import strings of a server's config a client follows.

Over the link a plug-in is a name, and each machine imports its own code. A name that an installed package offers is
harmless: somebody installed that package here. An import string can name any function of any module, so a client
follows only those that its own user has named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fl_app.config import ConfigError, Settings
from oac_blocks.plugins import is_import_string

# What a client imports: the policy and the air are the server's.
IMPORTED = (("model", "name"), ("data", "name"), ("task", "name"), ("air", "mode"), ("air", "scheme"))


def import_strings_of(settings: Settings) -> list[str]:
    """Return the import strings of a config that its clients import."""
    return [text for _, _, text in _named(settings.model_dump())]


def check_trust(tree: Mapping[str, Any], trusted: Collection[str]) -> None:
    """Raise ConfigError if a server's config has an import string that this client's user has not named.

    Parameters
    ----------
    tree
        The server's config as plain values; nothing of it has been imported yet.
    trusted
        Import strings, or packages whose modules are all trusted.
    """
    for section, key, text in _named(tree):
        if not any(text == one or text.startswith((f"{one}.", f"{one}:")) for one in trusted):
            raise ConfigError(
                f"the server's config has [{section}] {key} = {text!r}: this client imports only what its own user "
                f"allows; if you trust that code, start the client with --trust {text.partition(':')[0]}"
            )


def _named(tree: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    found = []
    for section, key in IMPORTED:
        part = tree.get(section)
        text = part.get(key) if isinstance(part, Mapping) else None
        if isinstance(text, str) and is_import_string(text):
            found.append((section, key, text))
    return found
