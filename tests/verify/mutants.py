"""`python -m tests.verify.mutants FOLDER`: what the verification finds in each wrong module.

Reads cases.json in the folder, a list of {file, spec, form, probe}: the generated module in `file`
is compared in one form under Triton's interpreter on one probe of `spec`. Writes found.json: for
each case the quantities that differ.
"""

import json
import sys
from pathlib import Path

from attnc.verify.calls import Way
from attnc.verify.checks import check
from attnc.verify.probe import job_from
from attnc.verify.run import load


def found(folder: Path, case: dict[str, object]) -> list[str]:
    job = job_from(case["job"])  # type: ignore[arg-type]
    way = Way(str(case["form"]), "triton")
    comparisons = list(check(load(folder / str(case["file"])), job, [way]))
    assert comparisons
    return sorted({c.what for c in comparisons if not c.ok})


if __name__ == "__main__":
    here = Path(sys.argv[1])
    cases = json.loads((here / "cases.json").read_text())
    (here / "found.json").write_text(json.dumps([found(here, case) for case in cases]))
