"""Writes the files of the corpus: `python -m lab.cuda_corpus FOLDER`, one `.cu` each, and `manifest.jsonl` beside them.

The same files on every machine. Not covered: labels.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .specimens import EQUIVALENT, FAULTY, planned


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.cuda_corpus", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faulty", type=int, default=FAULTY, help="mutants of each operator that plants a fault")
    parser.add_argument("--equivalent", type=int, default=EQUIVALENT, help="of each that should change nothing")
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    found = planned(options.faulty, options.equivalent)
    lines = []
    for specimen in found:
        (options.folder / f"{specimen.name}.cu").write_text(specimen.text)
        operator = specimen.operator.name if specimen.operator else None
        entry = {"name": specimen.name, "task": specimen.seed.task, "operator": operator, "sha256": specimen.sha256}
        lines.append(json.dumps(entry))
    (options.folder / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    counts = Counter(item.operator.name if item.operator else "seed" for item in found)
    print(json.dumps({"files": len(found), "operators": len(counts) - 1, "by_operator": dict(counts)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
