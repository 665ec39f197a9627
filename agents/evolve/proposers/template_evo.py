"""The proposer without a language model: a search over the genomes of the template that serves the task.

It proposes the plain kernel first, then the template's default, then settings that won on related tasks, then those
that the search chooses. It finds nothing that its template does not contain. All slots of a generation use the same
archive, so a slot first recomputes the genomes of the slots before it; no other state is kept. Not covered: the
searches (`search/`), the templates (`templates/`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from ..budget import Cost
from ..config import RunConfig
from ..events import Live
from ..memory import warm_start
from ..model import CandidateView, Meter, NoProposal, Proposal, ProposalRequest
from ..rng import Rng
from ..search import Move, Search, Trial, anneal, forecasting, random_search
from ..templates import Genome, Template, describe, difference, find_template

STREAM = "template"
_SAID = {
    "translate": "The plain kernel: one result at a time.",
    "guess": "The best guess before any measurement",
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

    @classmethod
    def from_config(cls, _config: RunConfig, _settings: Mapping[str, Any]) -> Self:
        return cls()

    def bound(self, _request: ProposalRequest) -> Cost:
        return Cost()

    async def propose(self, request: ProposalRequest, _meter: Meter, _live: Live) -> Proposal | NoProposal:
        template = find_template(request.task.name, request.language)
        if template is None:
            text = f"no template serves {request.task.name} in {request.language}"
            return NoProposal("template_error", text, exhausted=True)
        move = self._move(template, request)
        if move is None:
            return NoProposal("duplicate", f"all {template.space.size} settings were tried", exhausted=True)
        return _proposal(template, request, move)

    def _move(self, template: Template, request: ProposalRequest) -> Move | None:
        """What this slot is asked, after all slots of this generation that come before it."""
        trials = [Trial(genome, item.score or item.estimate) for item, genome in _tried(template, request)]
        won = [genome for genome, _ in warm_start(template, request.memory.settings)] if request.memory else []
        move = None
        for slot in range(request.slot + 1):
            rng = Rng(request.rng.seed, STREAM, request.generation, slot)
            move = next_move(template, trials, rng, self.search, won)
            if move is None:
                return None
            trials.append(Trial(move.genome, waiting=True))
        return move


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
    """The plain genome, the best guess, what won on related tasks, then the search's choice; None if all were tried."""
    known = {template.space.key(trial.genome) for trial in trials}
    first = [("translate", template.naive), ("guess", template.default), *(("warm", genome) for genome in won)]
    for operator, genome in first:
        if template.space.key(genome) not in known:
            return Move(genome, operator)
    return search(template.space, trials, rng)


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
        name=f"{template.name} {_tag(template, move.genome)}",
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
