"""The form that starts a run, the one that forks it, and the filter of the list.

What a person leaves empty takes the default of the engine. Does NOT start anything: `services.run_start` does.
"""

import secrets
from typing import Any

from django import forms

from benchmarks.catalogue.folders import shown_spec
from benchmarks.harness import CPU, shipped_kernel
from benchmarks.models import DeviceKind, TaskVersion
from benchmarks.submissions.languages import languages_of

from .evolve.budget import Caps
from .evolve.config import ConfigError, RunConfig
from .evolve.proposers import CONSTANTS
from .evolve.templates import constants_of, find_template
from .proposals import (
    BUILDS_BESIDE_LOOKS,
    BY_NAME,
    EXTERNAL,
    FEW,
    SURE_ON_GPU,
    Choice,
    User,
    choices_for,
    screened_at_once,
    verifiers_for,
)
from .selectors import judges_of
from .states import RunStatus

JUDGINGS_MAX = 5000
MINUTES_MAX = 24 * 60
USD_MAX = 1000
SEED_MAX = 2**53 - 1
CONFIRMATIONS = 4  # judgings of the two best candidates when a run ends
CURRICULUM = 3  # generations without gain after which it ends


class BudgetForm(forms.Form):
    """The budget of a run. At least one limit is required."""

    judgings = forms.IntegerField(required=False, min_value=1, max_value=JUDGINGS_MAX, initial=40)
    minutes = forms.FloatField(required=False, min_value=0.1, max_value=MINUTES_MAX)
    usd = forms.FloatField(label="Dollars", required=False, min_value=0.01, max_value=USD_MAX)
    seed = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=SEED_MAX,
        help_text="Leave empty for a random seed.",
    )

    def caps(self) -> Caps:
        data = self.cleaned_data
        minutes = data.get("minutes")
        return Caps(
            usd=data.get("usd"),
            judgings=data.get("judgings"),
            wall_s=None if minutes is None else minutes * 60,
        )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors and self.caps() == Caps():
            raise forms.ValidationError("Give the run a limit: judgings, minutes or dollars.")
        return data

    def seed_or_drawn(self) -> int:
        given = self.cleaned_data.get("seed")
        return secrets.randbelow(2**31) if given is None else int(given)


class RunForm(BudgetForm):
    """The settings of a new run on one task; `outside` is one whose kernels are sent through the API."""

    proposer = forms.ChoiceField(widget=forms.RadioSelect)
    device = forms.ChoiceField(label="Device")
    language = forms.ChoiceField(required=False)
    target = forms.FloatField(
        label="Target speedup", required=False, min_value=0.01, max_value=10_000, help_text="Leave empty for no target."
    )
    verifiers = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    curriculum = forms.BooleanField(required=False)
    memory = forms.BooleanField(required=False)
    field_order = ("proposer", "device", "language", "judgings", "minutes", "usd", "target", "seed")

    def __init__(
        self,
        *args: Any,
        version: TaskVersion,
        kinds: list[DeviceKind],
        user: User,
        outside: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.version, self.kinds = version, {kind.slug: kind for kind in kinds}
        self.choices = [BY_NAME[EXTERNAL]] if outside else choices_for(user)
        self.config: RunConfig | None = None
        open_choices = [item for item in self.choices if not item.problem]
        self.fields["proposer"] = forms.ChoiceField(
            widget=forms.RadioSelect, choices=[(item.name, item.title) for item in open_choices], initial="template-evo"
        )
        self.fields["verifiers"] = forms.MultipleChoiceField(
            required=False,
            choices=verifiers_for(user),
            widget=forms.CheckboxSelectMultiple,
            initial=list(RunConfig("").verifiers),
        )
        self.fields["device"] = forms.ChoiceField(choices=[(kind.slug, kind.title) for kind in kinds])
        languages = [(name, name) for kind in kinds for name in languages_of(kind.device_class)]
        self.fields["language"] = forms.ChoiceField(required=False, choices=[("", ""), *dict.fromkeys(languages)])
        self.order_fields(self.field_order)

    @property
    def device_kind(self) -> DeviceKind:
        return self.kinds[self.cleaned_data["device"]]

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if not self.errors:
            self._check_start(BY_NAME[data["proposer"]])
        if not self.errors:
            self._make_config()
        return data

    def _language(self) -> str:
        """The chosen one if the device runs it, else the first that it does."""
        known = languages_of(self.device_kind.device_class)
        chosen: str = self.cleaned_data.get("language") or known[0]
        return chosen if chosen in known else known[0]

    def _check_start(self, choice: Choice) -> None:
        """What a search begins with must be there: a template, or a kernel with constants."""
        if choice.paid or choice.outside:
            return
        place = f"{self.version.task.name} in {self._language()}"
        if choice.name == CONSTANTS:
            if not constants_of(self._kernel()):
                self.add_error("proposer", f"There is no example kernel with named constants for {place}.")
        elif find_template(self.version.task.name, self._language()) is None:
            self.add_error("proposer", f"There is no template for {place} yet.")

    def _kernel(self) -> str:
        """The example kernel of the task in the chosen language; empty where none comes with it."""
        return shipped_kernel(shown_spec(self.version), self._language()) or ""

    def _concurrency(self, choice: Choice) -> int:
        """A processor that builds does not judge: one more than are judged is enough there, unless a model thinks."""
        if self._screens_many():
            return BUILDS_BESIDE_LOOKS
        shares = self.device_kind.device_class == CPU and not choice.paid
        return 1 + judges_of(self.device_kind) if shares else RunConfig("").concurrency

    def _verifiers(self) -> tuple[str, ...]:
        """One configuration can only count alone where it is timed."""
        chosen: list[str] = self.cleaned_data["verifiers"]
        screened = [*chosen, "screen"] if self.cleaned_data["curriculum"] else chosen
        return tuple(dict.fromkeys(screened))

    def _screens_many(self) -> bool:
        """On a GPU a look takes a tenth of a judging. Only candidates that cost nothing are made in such numbers."""
        choice, on_gpu = BY_NAME[self.cleaned_data["proposer"]], self.device_kind.device_class != CPU
        is_free = not choice.paid and not choice.outside
        return on_gpu and is_free and "screen" in self._verifiers() and screened_at_once(self.caps()) > FEW

    def _options(self) -> dict[str, Any]:
        kernel = {"kernel": self._kernel()} if self.cleaned_data["proposer"] == CONSTANTS else {}
        return {**kernel, **(SURE_ON_GPU if self._screens_many() else {})}

    def _make_config(self) -> None:
        data = self.cleaned_data
        try:
            self.config = RunConfig(
                task=self.version.task.path,
                language=self._language(),
                device_kind=data["device"],
                proposer=data["proposer"],
                options=self._options(),
                seed=self.seed_or_drawn(),
                caps=self.caps(),
                target=data.get("target"),
                confirmations=CONFIRMATIONS,
                verifiers=self._verifiers(),
                curriculum=CURRICULUM if data["curriculum"] else None,
                concurrency=self._concurrency(BY_NAME[data["proposer"]]),
                judgings_at_once=judges_of(self.device_kind),
                generation_size=screened_at_once(self.caps()) if self._screens_many() else FEW,
            )
        except ConfigError as error:
            self.add_error(None, str(error))


class RunFilterForm(forms.Form):
    """The filter of the list of runs; unknown values are ignored."""

    q = forms.CharField(label="Task", required=False, max_length=100, widget=forms.SearchInput)
    state = forms.ChoiceField(required=False, choices=[("", "Any"), *RunStatus.choices])
    method = forms.ChoiceField(required=False)
    by = forms.CharField(label="By", required=False, max_length=150, widget=forms.SearchInput)

    def __init__(self, *args: Any, methods: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["method"] = forms.ChoiceField(required=False, choices=[("", "All"), *methods])

    def chosen(self) -> dict[str, str]:
        self.is_valid()
        data = self.cleaned_data
        return {"task": data.get("q", ""), **{name: data.get(name, "") for name in ("state", "method", "by")}}
