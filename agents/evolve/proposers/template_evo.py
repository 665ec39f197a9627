"""The proposer without a language model: a search over the genomes of the template that serves the task.

It proposes the template's default first, the plain kernel only while nothing is correct, then settings that won on
related tasks, then those that the search chooses. Every fourth generation begins with two settings in one source,
divided by shape, if the judged ones promise that this is faster than the best kernel, and so does a generation for
which the search has no setting left. It finds nothing that its template does not contain. All slots of a generation use
the same archive, so a slot first recomputes the genomes of the slots before it, or takes them from the slot that has
just done so. Not covered: the searches (`search/`), the templates (`templates/`).
"""

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Self

from benchmarks.harness import device_class

from ..archive import speedups
from ..budget import Cost
from ..config import RunConfig
from ..events import Live
from ..memory import warm_start
from ..model import UNPROMISING, CandidateView, Meter, NoProposal, Proposal, ProposalRequest
from ..rng import Rng
from ..search import Move, Search, Trial, anneal, forecasting, random_search
from ..templates import Genome, Template, describe, difference, find_template
from ..templates.by_shape import best_split, render_by_shape

STREAM = "template"
BY_SHAPE = "by shape"
BY_SHAPE_EVERY = 4  # generations
BY_SHAPE_GAIN = 1.02  # over the best kernel, by what was judged of its two settings
_SAID = {
    "translate": "The plain kernel: one result at a time.",
    "guess": "The best guess before any measurement",
    "start": "The kernel as it is",
    "warm": "A setting that won on a related task",
    "random": "Drawn at random",
    "step": "One gene moved by one step",
    "resample": "A new value for one gene",
    "flip": "A different code path",
    "crossover": "Genes combined from two parents",
    "restart": "Several genes changed at once",
}


class TemplateEvo:
    """Asks the search with a forecast."""

    name = "template-evo"
    needs_key = False
    search: Search = staticmethod(forecasting)

    def __init__(self) -> None:
        self._asked: tuple[object, list[Move]] = (None, [])  # of which generation of which archive

    @classmethod
    def from_config(cls, _config: RunConfig, _settings: Mapping[str, Any]) -> Self:
        return cls()

    def bound(self, _request: ProposalRequest) -> Cost:
        return Cost()

    def template(self, request: ProposalRequest) -> Template | None:
        """The one to search over; None where none serves the task in this language."""
        return find_template(request.task.name, request.language)

    async def propose(self, request: ProposalRequest, _meter: Meter, _live: Live) -> Proposal | NoProposal:
        template = self.template(request)
        if template is None:
            text = f"no template serves {request.task.name} in {request.language}"
            return NoProposal("template_error", text, exhausted=True)
        is_turn = request.generation % BY_SHAPE_EVERY == BY_SHAPE_EVERY - 1
        move = self._move(template, request)
        together = by_shape(template, request) if is_turn or move is None else None
        if together is not None:
            return together
        if move is None:
            return nothing_left(template, len(_tried(template, request)) + len(self._asked[1]))
        return _proposal(template, request, move)

    def _move(self, template: Template, request: ProposalRequest) -> Move | None:
        """What this slot is asked, after all slots of this generation that come before it."""
        trials = [Trial(genome, item.counts or item.estimate) for item, genome in _tried(template, request)]
        won = [genome for genome, _ in warm_start(template, request.memory.settings)] if request.memory else []
        known = tuple((template.space.key(trial.genome), trial.fitness) for trial in trials)
        asked = (request.task.name, request.rng.seed, request.generation, known, len(won))
        if self._asked[0] != asked:
            self._asked = (asked, [])
        moves = self._asked[1]
        trials += [Trial(move.genome, waiting=True) for move in moves]
        for slot in range(len(moves), request.slot + 1):
            rng = Rng(request.rng.seed, STREAM, request.generation, slot)
            move = next_move(template, trials, rng, self.search, won)
            if move is None:
                return None
            moves.append(move)
            trials.append(Trial(move.genome, waiting=True))
        return moves[request.slot]


class TemplateRandom(TemplateEvo):
    """Draws at random: what the search has to beat."""

    name = "random"
    search: Search = staticmethod(random_search)


class TemplateAnneal(TemplateEvo):
    """Asks threshold accepting."""

    name = "anneal"
    search: Search = staticmethod(anneal)


def next_move(
    template: Template, trials: Sequence[Trial], rng: Rng, search: Search, won: Sequence[Genome] = ()
) -> Move | None:
    """The best guess, the plain genome while nothing is correct, what won on related tasks, then the search's choice.

    None if all were tried. The plain kernel is slow, so its judging takes longest: a run can do without it.
    """
    known = {template.space.key(trial.genome) for trial in trials}
    plain = [] if any(trial.fitness for trial in trials) else [("translate", template.naive)]
    guess = "guess" if template.default != template.naive else "start"
    first = [(guess, template.default), *plain, *(("warm", genome) for genome in won)]
    for operator, genome in first:
        if template.space.key(genome) not in known:
            return Move(genome, operator)
    return search(template.space, trials, rng)


def nothing_left(template: Template, tried: int) -> NoProposal:
    """Why the search asks for nothing more. `tried`: how many settings were tried or are being tried."""
    size = template.space.size
    if tried >= size:
        return NoProposal("duplicate", f"all {size} settings were tried", exhausted=True)
    return NoProposal("unpromising", UNPROMISING, exhausted=True)


def by_shape(template: Template, request: ProposalRequest) -> Proposal | None:
    """Two judged settings in one source; None where that promises nothing or was proposed before."""
    if request.slot or request.stage != "optimise":
        return None
    configs = [item for item in request.task.configs_for(device_class(template.language)) if not item.hidden]
    keys = {config.key for config in configs}
    known = [item for item in request.view.candidates.values() if keys <= speedups(item).keys()]
    judged = [(item, genome) for item, genome in _tried(template, request) if item in known]
    split = best_split(configs, [speedups(item) for item, _ in judged])
    if split is None or split.gain * _best([item for item, _ in judged], keys) < BY_SHAPE_GAIN * _best(known, keys):
        return None
    (one, small), (other, large) = judged[split.small], judged[split.large]
    source = render_by_shape(template, request.task, split.rule, small, large)
    sha256 = hashlib.sha256(source.encode()).hexdigest()
    if any(item.source_sha256 == sha256 for item in request.view.candidates.values()):
        return None
    words = f"Two settings in one source: that of {one.id} where {split.rule}, else that of {other.id}"
    return Proposal(
        source=source,
        language=template.language,
        name=f"{template.name} by shape",
        thought=f"{words}: {difference(small, large)}.",
        template=template.name,
        operator=BY_SHAPE,
        parents=(one.id, other.id),
    )


def _best(candidates: Sequence[CandidateView], keys: AbstractSet[str]) -> float:
    """The highest mean speedup on these configurations."""
    return max(math.exp(statistics.fmean(math.log(speedups(item)[key]) for key in keys)) for item in candidates)


def _tried(template: Template, request: ProposalRequest) -> list[tuple[CandidateView, Genome]]:
    """The candidates of earlier generations that came from this template, in their order."""
    before = [item for item in request.view.candidates.values() if item.generation < request.generation]
    return [(item, item.params) for item in before if item.template == template.name and item.params is not None]


def _proposal(template: Template, request: ProposalRequest, move: Move) -> Proposal:
    names = {template.space.key(genome): item.id for item, genome in _tried(template, request)}
    parents = [names[key] for key in map(template.space.key, move.parents) if key in names]
    proposal = Proposal(
        source=template.render(move.genome, request.task),
        language=template.language,
        name=f"{template.name} {_tag(template, move.genome)}".rstrip(),
        thought=thought(template, move),
        params=dict(move.genome),
        template=template.name,
        operator=move.operator,
    )
    return replace(proposal, parents=tuple(dict.fromkeys(parents)))


def thought(template: Template, move: Move) -> str:
    """One sentence on what changed against the first parent, and which part a library does."""
    said = _SAID[move.operator]
    if move.parents:
        said += f": {difference(move.parents[0], move.genome) or 'as its first parent'}."
    elif move.operator != "translate":
        said += f": {describe(move.genome)}."
    library = template.library(move.genome)
    return f"{said} A library does {library}." if library else said


def _tag(template: Template, genome: Genome) -> str:
    """The structural choices, and the library where one is called."""
    words = [str(genome[gene.name]) for gene in template.space.genes if gene.structural and not gene.idle(genome)]
    return " ".join(words)
