"""Source notebooks carry no outputs: `python -m gradedsparse.book.clean [--check]`.

Without `--check` it removes outputs and execution counts from every notebook in `notebooks/`;
with it, it changes nothing, names what is left over and exits with 1.
"""

from __future__ import annotations

import sys

from gradedsparse.book.layout import find_root
from gradedsparse.book.notebooks import leftovers, read, strip, write


def main(arguments: list[str]) -> int:
    """Runs the command with these arguments and returns its exit status."""
    unclean = 0
    for path in sorted((find_root() / "notebooks").glob("*.ipynb")):
        notebook = read(path)
        found = leftovers(notebook)
        if not found:
            continue
        if "--check" in arguments:
            unclean += 1
            print(f"notebooks/{path.name}: {'; '.join(found)} (`make strip` removes them)")
        else:
            strip(notebook)
            write(notebook, path)
            print(f"notebooks/{path.name}: outputs removed")
    return 1 if unclean else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
