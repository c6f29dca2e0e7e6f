"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

    python .ci/lowest.py EXTRA ... > lowest.txt

The core's requirements, and those of the extras that are named.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(
    (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
)["project"]


def lowest(requirement: str) -> str:
    """The requirement with its lower bound as the only version.

    Raises:
        ValueError: If it has no lower bound.
    """
    found = re.match(r"([\w-]+)(?:\[.*\])?>=([\w.]+)", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} has no lower bound.")
    return "{}=={}".format(*found.groups())


requirements = [*PROJECT["dependencies"]]
for extra in sys.argv[1:]:
    requirements += PROJECT["optional-dependencies"][extra]
print("\n".join(sorted({lowest(requirement) for requirement in requirements})))
