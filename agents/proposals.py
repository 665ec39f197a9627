"""The proposers that can be chosen on this site now, and the reasons why others cannot.

Does NOT make proposers: the engine does, by the same names.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from .evolve.budget import Caps
from .evolve.config import RunConfig
from .evolve.proposers import CONSTANTS

EXTERNAL, CRITIC = "external", "critic"
User = AbstractBaseUser | AnonymousUser
# Of a run that screens on a GPU: what is dropped and judged of a generation, and how many build side by side.
SURE_ON_GPU, BUILDS_BESIDE_LOOKS = {"screen_margin": 1.0, "finalists": 3}, 12
FEW = RunConfig("").generation_size


def screened_at_once(caps: Caps) -> int:
    """How many candidates a generation of such a run has: 48, and fewer if its time would not do for three of these.

    `FEW` if it is too short for any finals. What of the last generation is screened and not judged is lost. An H200
    decided 17 to 22 candidates a minute, so one for each 15 seconds makes at least three generations.
    """
    fitting = 48 if caps.wall_s is None else int(caps.wall_s / 15)
    return min(48, fitting) if fitting >= 3 * FEW else FEW


@dataclass(frozen=True)
class Choice:
    """The description of a proposer. `problem`: why it cannot be chosen now; empty if it can."""

    name: str
    title: str
    text: str
    paid: bool = False
    local: bool = False  # asks a model behind an address of the operator's
    outside: bool = False  # no proposer of the site: it is chosen by opening a run through the API
    problem: str = ""

    @property
    def method_slug(self) -> str:
        return f"agent-{self.name}"


VERIFIERS = {
    "static": "Static: reads the source; costs nothing",
    "compile": "Compile: builds it as the judge would; the judge reuses the build",
    "emulate": "Emulate: runs a CUDA kernel without a GPU, in about ten seconds on a processor",
    "screen": "Screen: times two configurations against the best kernel; drops candidates that are clearly slower",
    CRITIC: "Critic: asks a language model if the others abstain",
}
CHOICES = (
    Choice(
        "template-evo",
        "Templates, evolved",
        "No language model: a seeded search improves the settings of parametrised kernels. Costs nothing.",
    ),
    Choice("anneal", "Templates, annealed", "The same templates with simulated annealing, for comparison."),
    Choice("random", "Templates at random", "The same templates with random settings, for comparison."),
    Choice(
        CONSTANTS,
        "Constants, tuned",
        "No language model: the search tunes the numbers that the task's example kernel names.",
    ),
    Choice("anthropic", "Language models", "Claude models propose whole kernels and edits.", paid=True),
    Choice(
        "anthropic-agent",
        "Language model with tools",
        "A Claude model compiles, checks and times its kernels before it proposes one.",
        paid=True,
    ),
    Choice("hybrid", "Language models and search", "A model writes templates; the search tunes them.", paid=True),
    Choice(
        "compatible",
        "Local language model",
        "A model that the operator runs, behind an address that speaks OpenAI's chat completions.",
        paid=True,
        local=True,
    ),
    Choice(EXTERNAL, "External", "An agent outside the site proposes kernels through the API.", outside=True),
)
BY_NAME = {choice.name: choice for choice in CHOICES}


def choices_for(user: User) -> list[Choice]:
    """Those of the site, each with what keeps `user` from choosing it."""
    own = (item for item in CHOICES if not item.outside)
    return [replace(item, problem=problem_of(user, local=item.local) if item.paid else "") for item in own]


def verifiers_for(user: User) -> list[tuple[str, str]]:
    """Those that `user` may choose, with their titles."""
    return [(name, title) for name, title in VERIFIERS.items() if name != CRITIC or not problem_of(user)]


def asks_models(proposer: str, verifiers: Collection[str]) -> bool:
    """Whether a run spends money: by its proposer or by a verifier."""
    return BY_NAME[proposer].paid or CRITIC in verifiers


def problem_with(name: str, user: User) -> str:
    """Why `user` cannot have the proposer of that name; empty if they can."""
    choice = BY_NAME.get(name)
    if choice is None or choice.outside:
        known = ", ".join(item.name for item in CHOICES if not item.outside)
        return f"There is no proposer {name}; known: {known}."
    return problem_of(user, local=choice.local) if choice.paid else ""


def problem_of(user: User, *, local: bool = False) -> str:
    """Why a proposer with a language model cannot be chosen; empty if it can."""
    if local and not (settings.OPENAI_BASE_URL and settings.OPENAI_MODEL):
        return "This site knows no local language model: its operator can set OPENAI_BASE_URL and OPENAI_MODEL."
    if not local and not settings.ANTHROPIC_API_KEY:
        return "This site has no key for a language model: its operator can set ANTHROPIC_API_KEY."
    if settings.KBENCH_PUBLIC and not getattr(user, "is_staff", False):
        return "On a public site only staff may spend the operator's money."
    return ""
