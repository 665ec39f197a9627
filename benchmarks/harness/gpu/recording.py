"""Recording the calls of a submission: what its own process is asked before others launch what it has recorded.

Whatever it answers is hostile. Not covered: what a record may say (`record.py`), and launching it (`replay.py`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ProcessorsBusy
from ..measuring.contestants import Actor, WholeLimit
from ..measuring.faults import Fault, end_of, too_slow
from ..measuring.laps import Laps
from ..measuring.session import RefereeProcess
from ..protocol import ProtocolError
from ..report import Verdict
from ..tasks.spec import Config
from .device_code import CODE_MAX_CHARACTERS, handed_over
from .record import RECORD_MAX_CHARACTERS, MemorySpans, NotReplayable, RecordedCall, demand_little_moved, read_record


@dataclass
class CallRecording:
    candidate: Actor
    referee: RefereeProcess
    configs: Sequence[Config]
    timeout_s: float  # of one request
    until_s: float  # all of them, on the monotonic clock; later once others had the processors
    laps: Laps
    _not_excused_s: float = 0.0  # of what others took so far

    def calls(
        self,
        fill: Callable[[int], int],
        before_hidden: Callable[[], None],
        memory: MemorySpans,
        sets: Sequence[int],
    ) -> list[tuple[RecordedCall, ...]]:
        """Of every configuration as many calls as it has input sets. Raises NotReplayable, Fault.

        All visible ones are called once before any is captured, so that what is made only once stays. Then they are
        recorded, and only then does the submission meet the hidden ones: nothing that is told of the visible ones can
        be about these.
        """
        found: dict[int, tuple[RecordedCall, ...]] = {}
        for is_hidden in (False, True):
            numbers = [number for number, config in enumerate(self.configs) if config.hidden is is_hidden]
            if is_hidden and numbers:
                before_hidden()
            for number in numbers:
                self._warm_up(number, fill)
            found |= {number: self._recorded(number, memory, sets[number]) for number in numbers}
            self.laps.end("recorded")
        return [found[number] for number in range(len(self.configs))]

    def _warm_up(self, number: int, fill: Callable[[int], int]) -> None:
        began_s = time.monotonic()
        fill(number)
        self.laps.end("filled")
        self.referee.ask("stage", who="candidate0", config=number, places=[])
        self.until_s += time.monotonic() - began_s  # it was not the submission for whom all waited
        self.ask(self.configs[number], "warmed", warm=number)
        self.laps.end("first_calls")

    def _recorded(self, number: int, memory: MemorySpans, sets: int) -> tuple[RecordedCall, ...]:
        config = self.configs[number]
        text = self.ask(config, "recorded", record=number)
        sizes = [item.nbytes for item in config.results]
        try:
            calls = read_record(text, memory, sizes, sets)
            demand_little_moved(calls, sum(item.nbytes for item in config.tensors) + sum(sizes))
        except NotReplayable as error:
            raise not_replayable(config, str(error)) from error
        return calls

    def loaded_code(self) -> tuple[list[bytes], bool]:
        """What the recorder has seen its packages load, and whether it could not see that."""
        return handed_over(self.ask(None, "recorded", CODE_MAX_CHARACTERS, code=0))

    def ask(self, config: Config | None, word: str, max_characters: int = RECORD_MAX_CHARACTERS, **request: int) -> str:
        """Joins the messages that arrive before `word`; `config` is what a failure is told of, None: of all calls."""
        pieces, length = list[str](), 0
        left_s = min(self.timeout_s, self.until_s - time.monotonic())
        limit = WholeLimit(self.candidate.child.work, left_s)
        self.candidate.link.send(**request)
        try:
            for message in self.candidate.messages_within(limit, limit.look):
                if message.get(word):
                    break
                if "not_recorded" in message:
                    raise not_replayable(config, str(message["not_recorded"])[:600])
                pieces.append(str(message.get("piece", "")))
                length += len(pieces[-1])
                if length > max_characters or not pieces[-1]:
                    raise not_replayable(config, "the record is too long or empty")
        except TimeoutError:
            reason = f"a call gave no answer while it was recorded, within {self.timeout_s:g} s"
            if left_s < self.timeout_s:
                reason = "recording the calls took too long in all"
            where = f" ({_shown(config)})" if config else ""
            not_excused_s = self._not_excused_s + limit.not_excused_s
            if left_s < self.timeout_s and time.monotonic() < self.until_s + limit.excused_s + not_excused_s:
                raise Fault(Verdict.NOISY, ProcessorsBusy(f"{reason}{where}").reason) from None
            raise too_slow(limit, f"{reason}{where}") from None
        except ProtocolError:
            fault = end_of(self.candidate.child, "while its calls were recorded")
            if config is None or config.hidden:  # an exit code could tell of what it has met
                fault = fault.told_as("the process ended while its calls were recorded")
            raise fault from None
        self.until_s += limit.excused_s
        self._not_excused_s += limit.not_excused_s
        return "".join(pieces)


def not_replayable(config: Config | None, why: str, *, because: str = "") -> NotReplayable:
    """Of a hidden configuration nothing is told that the submission could have chosen, or that shows its sizes.

    Nor of all together (None), when it has met the hidden ones. `because` as for NotReplayable, where `why` does not
    tell it.
    """
    if config is None:
        return NotReplayable("it does not hand over its device code", because=because or why)
    told = "it cannot be replayed there" if config.hidden else why
    return NotReplayable(f"{_shown(config)}: {told}", because=because or why)


def failed_of(answer: Mapping[str, Any]) -> str:
    """What a call in an executor failed of, or the executor died of (`cause_of`)."""
    return str(answer.get("error") or answer.get("gone"))


def _shown(config: Config) -> str:
    return "a hidden configuration" if config.hidden else config.key
