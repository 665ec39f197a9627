"""Writes a recorded run that comes with kbench: `python -m lab.bench.record_run FOLDER NAME --quick`, on its machine.

FOLDER is the log of `python -m agents.evolve TASK --log FOLDER`, run on this machine under the rules of this checkout;
`--quick` says that its judgings were quick ones. The file is `benchmarks/recorded/shipped/NAME.jsonl`. Does NOT judge.
"""

import argparse
import hashlib
import uuid
from pathlib import Path

from agents.evolve.logs import JsonlLog
from agents.record.kept_file import KeptEvent, KeptHeader, KeptSource, file_lines
from benchmarks.harness import default_rules, default_suites, find_task
from benchmarks.harness.compilers import gxx
from benchmarks.harness.hosts.machine import machine_record
from benchmarks.recorded.bundles import SHIPPED

RULES = Path("benchmarks/rules")
BUSY = "Other programs kept the machine busy, so its times are rough."
HOW = {
    "quick": "Its judgings were quick ones: few calls, compared with PyTorch eager alone.",
    "full": "Its judgings were full ones.",
}
FACTS = ("cpu", "cores", "python", "torch", "compiler")
METHODS = {"template-evo": "Search over templates", "random": "Random settings of templates", "anneal": "Annealing"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--busy", action="store_true", help="say that the machine had other work")
    options = parser.parse_args()
    with JsonlLog(options.folder) as log:
        events = [KeptEvent(**vars(event)) for event in log.read()]
        named = {event.payload["source_sha256"] for event in events if event.type == "proposal.received"}
        sources = [KeptSource(source_sha256=sha256, source=log.get_source(sha256)) for sha256 in sorted(named)]
    config, rules = events[0].payload["config"], default_rules()
    task, judgings = find_task(default_suites(), config["task"]), "quick" if options.quick else "full"
    about = f"A search on one machine without a site, with seed {config['seed']}. {HOW[judgings]}"
    facts = {**machine_record(), **gxx.environment()}
    header = KeptHeader(
        name=options.name,
        code=uuid.uuid5(uuid.NAMESPACE_OID, f"{options.name} {events[0].at_s}"),
        about=f"{about} {BUSY}" if options.busy else about,
        task=f"{task.suite}/{task.name}",
        task_sha256=task.content_sha256,
        device=config["device_kind"],
        device_title="CPU with AVX-512" if config["device_kind"] == "cpu-avx512" else config["device_kind"],
        device_class="cpu",
        machine={name: str(facts[name]) for name in FACTS if name in facts},
        ruleset=rules.name,
        ruleset_sha256=hashlib.sha256((RULES / f"{rules.name}.toml").read_bytes()).hexdigest(),
        judgings=judgings,
        method_title=METHODS.get(config["proposer"], config["proposer"]),
        sources=len(sources),
    )
    path = SHIPPED / f"{options.name}.jsonl"
    path.write_text("".join(file_lines(header, sources, events)))
    print(f"{path.name}: {len(events)} events, {len(sources)} sources, {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
