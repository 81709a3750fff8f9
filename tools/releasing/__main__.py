"""python -m releasing REPORT SBOM: check the licences of pip's report, and write a bill of materials.

Exit code 1 if a licence is unknown or not allowed.
"""

import sys
from collections import Counter
from pathlib import Path

from releasing.dependencies import read
from releasing.licences import complaints, expression
from releasing.sbom import bill


def main() -> None:
    """Print the number of packages with each licence, or the complaints."""
    report, sbom = map(Path, sys.argv[1:])
    packages = read(report)
    if lines := complaints(packages):
        sys.exit("\n".join(f"error: {line}" for line in lines))
    sbom.parent.mkdir(parents=True, exist_ok=True)
    sbom.write_text(bill(packages), encoding="utf-8")
    counts = Counter(map(expression, packages.values()))
    named = ", ".join(f"{count} {licence}" for licence, count in counts.most_common())
    print(f"licences of {len(packages)} packages are allowed: {named}")
    print(f"bill of materials: {sbom}")


if __name__ == "__main__":
    main()
