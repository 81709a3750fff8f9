"""python -m documentation [FOLDER]: build the documentation, any warning an error.

FOLDER (build/docs) then holds `site`, which any web server serves, and its source `pages`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from documentation.pages import DOCS, assemble
from documentation.sources import ROOT, DocumentError


def build(folder: Path) -> None:
    """Build into an empty `folder`. Raises DocumentError for an unknown name, and for Zensical's warnings."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pages").mkdir(parents=True)
    assemble(folder / "pages")
    shutil.copyfile(DOCS / "zensical.toml", folder / "zensical.toml")
    # Extensions of Markdown are imported by name.
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "tools"), *sys.path]))
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "zensical.toml"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode or not (folder / "site/index.html").is_file():
        output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)  # without colours
        raise DocumentError(output.split("\nTraceback")[0])


def main() -> None:
    """Build, and print the folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/docs"
    try:
        build(folder)
    except DocumentError as error:
        sys.exit(f"error: {error}")
    print(f"{folder}/site/index.html")


if __name__ == "__main__":
    main()
