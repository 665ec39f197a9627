"""What each lever of a search brings at equal cost, on the recorded sweeps: `python -m lab.sweeps.ablations`.

For each recorded space and lever, runs with and without it, seed by seed: what they cost until a setting within 90 %
and 95 % of the best of the space is judged. A judging costs 1, a timing on k of n configurations k/n or, where the
lever says so, what was measured, and a run ends at a quarter of the space. Intervals are bootstraps over seeds. A warm
start sees other tasks of the same device alone. Runs begin with random settings, since the guess of a template is near
the best on most of these spaces.
Writes `docs/results/ablations/levers.json`, which the site shows. Does NOT measure kernels: compiling and checking
cost nothing here, and every timing is the recorded one.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from agents.evolve.curriculum import GAIN, SHARE_MAX
from agents.evolve.memory import ALIKE_MIN, SETTINGS_MAX
from agents.evolve.rng import Rng
from agents.evolve.search import (
    Recording,
    Search,
    Trial,
    anneal,
    forecasting,
    genetic,
    load_recording,
    random_search,
)
from agents.evolve.templates import Genome
from agents.evolve.verifiers.screen import MARGIN
from benchmarks.harness import Config, default_suites, find_task

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SLOTS = 4
PATIENCE = 3
TELLING_MIN = 5  # accepted kernels from which the most telling configuration is chosen
GOALS = (0.9, 0.95)
# On mnist_cross_entropy/forward: a look beside a referee that stays takes 3.3 s of a processor, a judging 14 to 22 s
LOOK_COST = 3.3 / 18
CAP_SHARE = 0.25  # of the space
DRAWS = 4000  # of the bootstrap
# Bytes and operations per second, to order configurations by headroom: copies and float32 on an H200, one core
PEAKS = {"cpu": (12e9, 100e9), "h200": (4.3e12, 60e12)}


@dataclass(frozen=True)
class Levers:
    """What a run does. The default is the search as it stands."""

    search: Search = forecasting
    screening: bool = False
    look_cost: float | None = None  # of a screening, in judgings, where it is measured
    curriculum: str = ""  # `headroom` or `telling`: how the configuration is chosen
    warm: bool = False
    guess: bool = False


PLAIN = "as shipped, from nothing"
LEVERS: dict[str, Levers] = {
    PLAIN: Levers(),
    "with the template's best guess": Levers(guess=True),
    "without the forecast: genetic": Levers(search=genetic),
    "without the forecast: annealing": Levers(search=anneal),
    "random search": Levers(search=random_search),
    "with screening": Levers(screening=True),
    "with screening, at its measured cost on a processor": Levers(screening=True, look_cost=LOOK_COST),
    "with one configuration first": Levers(curriculum="headroom"),
    "with a warm start": Levers(warm=True),
    "with the template's best guess and a warm start": Levers(guess=True, warm=True),
    "with all three": Levers(screening=True, curriculum="headroom", warm=True),
}


@dataclass(frozen=True)
class Swept:
    """A recorded space with the speedups on each of its configurations."""

    path: Path
    recording: Recording
    data: dict[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def device(self) -> str:
        return self.name.split("-")[0]

    @cached_property
    def speedups(self) -> dict[tuple[Any, ...], list[float] | None]:
        return {tuple(values): found for values, _times_us, found in self.data["rows"]}

    @cached_property
    def times_us(self) -> dict[tuple[Any, ...], list[float] | None]:
        return {tuple(values): times_us for values, times_us, _found in self.data["rows"]}

    @cached_property
    def guess(self) -> Genome:
        """The recorded setting nearest to the template's own best guess."""
        return nearest(self, self.data["reference"], {})

    @cached_property
    def configs(self) -> list[Config]:
        kind = "cpu" if self.device == "cpu" else "cuda"
        known = {item.key: item for item in find_task(default_suites(), self.data["task"]).configs_for(kind)}
        return [known[key] for key in self.data["configs"]]

    def headroom(self, genome: Genome) -> int:
        """The configuration on which a setting is furthest from its floor."""
        times_us = self.times_us[self.recording.space.key(genome)] or [1.0]
        bytes_per_s, flops_per_s = PEAKS[self.device]
        floors_s = [max(item.bytes_moved / bytes_per_s, item.flops / flops_per_s) for item in self.configs]
        return max(range(len(floors_s)), key=lambda place: times_us[place] / floors_s[place])

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The smallest and the largest configuration."""
        order = sorted(range(len(self.configs)), key=lambda place: self.configs[place].bytes_moved)
        return order[0], order[-1]

    @cached_property
    def winner(self) -> Genome:
        return max(self.recording.space.genomes, key=lambda genome: self.recording.fitness(genome) or 0.0)


def load(path: Path) -> Swept:
    return Swept(path, load_recording(path), json.loads(path.read_text()))


def nearest(swept: Swept, params: Mapping[str, Any], else_like: Genome) -> Genome:
    """The recorded setting that shares most values: not every setting of a template was recorded."""

    def same(genome: Genome, other: Mapping[str, Any]) -> int:
        return sum(other.get(name) == value for name, value in genome.items())

    return max(swept.recording.space.genomes, key=lambda genome: (same(genome, params), same(genome, else_like)))


def warm_start(swept: Swept, others: Sequence[Swept]) -> list[Genome]:
    """What won on other tasks of the device, the most related first."""
    alike = [(_alike(swept, item), item) for item in others if item.device == swept.device]
    related = [(share, item) for share, item in alike if share >= ALIKE_MIN and item.data["task"] != swept.data["task"]]
    related.sort(key=lambda pair: -pair[0])
    return [nearest(swept, item.winner, swept.guess) for _, item in related[:SETTINGS_MAX]]


def _alike(one: Swept, other: Swept) -> float:
    if one.data["template"] == other.data["template"]:
        return 1.0
    names, more = set(one.recording.space.names), set(other.recording.space.names)
    return len(names & more) / len(names | more)


@dataclass
class ReplayedRun:
    """One run on a recording, by the rules of the engine, until the last goal is reached or the cap is spent.

    `reached`: for each goal what was spent until then. `focus`: the configuration that counts alone, while one does.
    """

    swept: Swept
    levers: Levers
    seed: int
    cap: float
    told: Sequence[Genome] = ()
    spent: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    judged: list[tuple[Genome, list[float]]] = field(default_factory=list)  # the accepted ones with their speedups
    reached: dict[float, float] = field(default_factory=dict)
    focus: int | None = None
    _focus_best: list[float] = field(default_factory=list)
    _focus_over: bool = False

    def go(self) -> dict[float, float]:
        generation = 0
        while self.spent < self.cap and GOALS[-1] not in self.reached:
            self._turn()
            rival, places = self._rival()
            asked = self._asked(generation)
            if not asked:
                break
            for genome in asked:
                self._candidate(genome, rival, places)
            generation += 1
        return self.reached

    def _turn(self) -> None:
        """Begins and ends the time in which one configuration counts."""
        if not self.levers.curriculum or self._focus_over:
            return
        if self.focus is None:
            self.focus = self._chosen() if self.judged else None
            return
        self._focus_best.append(max(found[self.focus] for _, found in self.judged))
        known = self._focus_best
        stuck = len(known) > PATIENCE and known[-1] < known[-1 - PATIENCE] * GAIN
        self._focus_over = stuck or self.spent >= SHARE_MAX * self.cap

    def _chosen(self) -> int | None:
        if self.levers.curriculum == "headroom":
            return self.swept.headroom(self._best()[0])
        if len(self.judged) < TELLING_MIN:
            return None
        logs = np.log([found for _, found in self.judged])
        score = logs.mean(axis=1)
        return int(np.argmax([np.corrcoef(logs[:, place], score)[0, 1] for place in range(logs.shape[1])]))

    def _rival(self) -> tuple[tuple[Genome, list[float]] | None, list[int]]:
        """What candidates are timed beside, and on which configurations; nothing where they are judged at once."""
        if self.focus is not None and not self._focus_over:
            focus = self.focus
            return max(self.judged, key=lambda item: item[1][focus]), [focus]
        if self.levers.screening and self.judged:
            return self._best(), sorted(set(self.swept.ends))
        return None, []

    def _best(self) -> tuple[Genome, list[float]]:
        return max(self.judged, key=lambda item: sum(np.log(item[1])))

    def _asked(self, generation: int) -> list[Genome]:
        """The settings of a generation: none of them is known when the others are asked."""
        space, shown, asked = self.swept.recording.space, [*self.trials], list[Genome]()
        for slot in range(SLOTS):
            known = {space.key(trial.genome) for trial in shown}
            genome = next((item for item in self.told if space.key(item) not in known), None)
            if genome is None:
                move = self.levers.search(space, shown, Rng(self.seed, "ablation", generation, slot))
                genome = move.genome if move is not None else None
            if genome is not None:
                shown.append(Trial(genome, waiting=True))
                asked.append(genome)
        return asked

    def _candidate(self, genome: Genome, rival: tuple[Genome, list[float]] | None, places: Sequence[int]) -> None:
        """Timed first where there is a rival; judged if it is not clearly slower."""
        found = self.swept.speedups[self.swept.recording.space.key(genome)]
        if rival is not None:
            looked = len(places) / len(self.swept.configs)
            self.spent += looked if self.levers.look_cost is None else self.levers.look_cost
            ratio = _ratio(found, rival[1], places) if found else None
            if ratio is None or ratio < 1 / MARGIN:
                score = self.swept.recording.fitness(rival[0])
                self.trials.append(Trial(genome, ratio * score if ratio and score else None))
                return
        self._judge(genome)

    def _judge(self, genome: Genome) -> None:
        recording = self.swept.recording
        self.spent += 1
        score, found = recording.fitness(genome), self.swept.speedups[recording.space.key(genome)]
        self.trials.append(Trial(genome, score))
        if score is not None and found:
            self.judged.append((genome, found))
            for goal in GOALS:
                if goal not in self.reached and score >= goal * recording.best and self.spent <= self.cap:
                    self.reached[goal] = round(self.spent, 3)


def _ratio(mine: Sequence[float], theirs: Sequence[float], places: Sequence[int]) -> float:
    return float(np.exp(np.mean([np.log(mine[place] / theirs[place]) for place in places])))


def measured(swept: Swept, levers: Levers, seeds: int, others: Sequence[Swept]) -> dict[str, Any]:
    """The raw figures: by goal and seed what was spent until it was reached, None where it was not."""
    cap = CAP_SHARE * swept.recording.space.size
    told = [*([swept.guess] if levers.guess else []), *(warm_start(swept, others) if levers.warm else [])]
    runs = [ReplayedRun(swept, levers, seed, cap, told).go() for seed in range(seeds)]
    return {f"spent_to_{goal:.0%}": [found.get(goal) for found in runs] for goal in GOALS}


def gain(without: Mapping[str, Any], with_it: Mapping[str, Any], goal: str) -> tuple[float, float, float]:
    """How many times less is spent with a lever: ratio of the means over all spaces' seeds, and its 95 % interval.

    Both hold, by space, `cap` and the figures of the seeds. A run that did not get there counts with the cap. Over
    spaces the geometric mean is taken; seeds are drawn with replacement, the same ones with and without.
    """
    rng, logs = np.random.default_rng(0), np.zeros(DRAWS + 1)
    for space, row in with_it.items():
        before, after = (np.array(_censored(item, goal)) for item in (without[space], row))
        places = np.vstack([np.arange(len(after)), rng.integers(len(after), size=(DRAWS, len(after)))])
        logs += np.log(before[places].mean(1) / after[places].mean(1)) / len(with_it)
    low, high = np.percentile(logs[1:], (2.5, 97.5))
    return float(np.exp(logs[0])), float(np.exp(low)), float(np.exp(high))


def _censored(row: Mapping[str, Any], goal: str) -> list[float]:
    return [row["cap"] if spent is None else spent for spent in row[goal]]


def summary(rows: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the site shows: a line for each lever and space, and one over all spaces."""
    lines = []
    for lever in LEVERS:
        found = {space: {**item["levers"][lever], "cap": item["cap"]} for space, item in rows.items()}
        plain = {space: {**item["levers"][PLAIN], "cap": item["cap"]} for space, item in rows.items()}
        for space in [*rows, "all"]:
            chosen = [space] if space != "all" else [*rows]
            mine = {name: found[name] for name in chosen}
            lines.append(
                {
                    "lever": lever,
                    "space": space,
                    **{
                        f"gain_{goal:.0%}": [round(x, 3) for x in gain(plain, mine, f"spent_to_{goal:.0%}")]
                        for goal in GOALS
                    },
                    **({} if space == "all" else _alone(rows[space], mine[space])),
                }
            )
    return lines


def _alone(about: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Medians of one space, and in how many runs 95 % was found with 8 % and with 15 % of its settings."""
    full = {goal: _censored(row, f"spent_to_{goal:.0%}") for goal in GOALS}
    within = {share: sum(x <= share * about["settings"] for x in full[GOALS[-1]]) for share in (0.08, 0.15)}
    return {
        **{f"median_{goal:.0%}": round(float(np.median(full[goal])), 1) for goal in GOALS},
        **{f"found_with_{share:.0%}": count for share, count in within.items()},
        "runs": len(full[GOALS[-1]]),
    }


def main() -> None:
    options = argparse.ArgumentParser(description="levers of the search on recorded spaces")
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument(
        "--only", nargs="*", default=[*LEVERS], choices=[*LEVERS], help="levers, the others as recorded"
    )
    options.add_argument("--out", type=Path, default=RESULTS / "ablations" / "levers.json")
    chosen = options.parse_args()
    everything = [load(path) for path in sorted((RESULTS / "sweeps").glob("**/*.json"))]
    before = json.loads(chosen.out.read_text())["spaces"] if chosen.out.exists() else {}
    rows: dict[str, Any] = {}
    for swept in (item for item in everything if item.path.parent.name == "sweeps"):
        levers = dict(before.get(swept.name, {}).get("levers", {}))
        for lever in chosen.only:
            levers[lever] = measured(swept, LEVERS[lever], chosen.seeds, [x for x in everything if x is not swept])
            sys.stderr.write(f"{swept.name}: {lever}\n")
        rows[swept.name] = {
            "settings": swept.recording.space.size,
            "cap": round(CAP_SHARE * swept.recording.space.size, 2),
            "levers": {name: levers[name] for name in LEVERS},
        }
    lines = summary(rows)
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(_text({"seeds": chosen.seeds, "summary": lines, "spaces": rows}))
    sys.stdout.write("\n".join(map(str, lines)) + "\n")


def _text(data: Mapping[str, Any]) -> str:
    """One line for each lever, so that changes can be read."""
    head = {key: value for key, value in data.items() if key == "seeds"}
    lines = ",\n  ".join(json.dumps(line) for line in data["summary"])
    spaces = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(item)}" for name, item in data["spaces"].items())
    return f'{{"seeds": {head["seeds"]},\n "summary": [\n  {lines}\n ],\n "spaces": {{\n  {spaces}\n }}}}\n'


if __name__ == "__main__":
    main()
