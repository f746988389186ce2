"""What the commands' arguments mean: paths, and the settings of ``--conf``."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from pyhudi.errors import ConfigError

Settings = dict[str, str]

STORAGE, OPTIONS = "fs.s3a.", "hoodie."
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def path_of(text: str) -> str:
    """A URI as it is; another path as it is from the working directory."""
    return text if SCHEME.match(text) else os.path.abspath(text)


def settings_of(texts: Sequence[str], *families: str) -> dict[str, str]:
    """The settings of ``--conf``; ``ConfigError`` for a key outside ``families``."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith(families):
            like = " or ".join(f"--conf {family}KEY=VALUE" for family in families)
            raise ConfigError(f"'{text}' is not valid here. Use {like}.", key="--conf")
        found[key] = value
    return found


#: what bounds a service's work, as its option and as the argument of its function
BOUNDS = {
    "files": ("--max-files", "N", int, "so many files"),
    "bytes": ("--max-bytes", "N", int, "so many bytes of files"),
    "cpu": ("--max-cpu-minutes", "MINUTES", float, "so much CPU time"),
}


def add_budget(parser: argparse.ArgumentParser, *bounds: str) -> None:
    """Add the options of ``BOUNDS`` that are named."""
    for bound in bounds:
        option, metavar, kind, most = BOUNDS[bound]
        text = f"take no further file after {most}; the next run goes on"
        parser.add_argument(option, metavar=metavar, type=kind, help=text)


def place_of(given: argparse.Namespace) -> tuple[str, Settings, Settings]:
    """The table's path, the options of a write, and the settings of its storage."""
    settings = settings_of(given.conf, STORAGE, OPTIONS)
    options = {k: v for k, v in settings.items() if k.startswith(OPTIONS)}
    return path_of(given.path), options, {k: v for k, v in settings.items() if k not in options}
