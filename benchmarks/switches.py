"""The switches of staff, and the sentence shown while one is off.

Does NOT check who may change a switch (`moderation/decisions.py`) and does NOT refuse anything: the callers do.
"""

from .models import SiteSwitch
from .states import Switch

_PAUSED = {
    Switch.SUBMISSIONS: "New submissions are paused",
    Switch.JUDGING: "Judging is paused",
    Switch.RUNS: "New agent runs are paused",
    Switch.SIGN_UPS: "New accounts are paused",
    Switch.COMMENTS: "New comments are paused",
    Switch.REQUESTS: "New requests are paused",
}


def switch_is_on(key: Switch) -> bool:
    return not SiteSwitch.objects.filter(key=key, on=False).exists()


def switch_set(key: Switch, *, on: bool, message: str = "") -> None:
    SiteSwitch.objects.update_or_create(key=key, defaults={"on": on, "message": message})


def paused(key: Switch) -> str:
    """That it is paused, and why; empty where it is on."""
    off = SiteSwitch.objects.filter(key=key, on=False).first()
    return _sentence(off) if off else ""


def announcements() -> list[str]:
    """What every page says: the message of staff, and all that is paused."""
    switches = {switch.key: switch for switch in SiteSwitch.objects.all()}
    banner = switches.get(Switch.BANNER)
    told = [banner.message] if banner and banner.on and banner.message else []
    return told + [_sentence(switches[key]) for key in _PAUSED if key in switches and not switches[key].on]


def _sentence(switch: SiteSwitch) -> str:
    return f"{_PAUSED[Switch(switch.key)]}: {switch.message or 'no reason was given'}"
