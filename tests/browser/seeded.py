"""A running site with some hundred submissions, boards, runs and decisions, and what every screen of it must be.

The site is that of `lab/site`: real web server, Redis and workers, a fake judge. Does NOT name screens.
"""

from pathlib import Path
from typing import Any, Literal

import axe_playwright_python
from playwright.sync_api import Locator, Page

SUBMISSIONS = 500
COLOURS = "color-contrast"
# axe-core, which leaves out of that rule what is marked as looking like others, and rules that find nothing grave.
AXE = f"""{(Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()};
axe.configure({{rules: [
  {{id: "{COLOURS}", selector: "*:not([data-look-alike])"}},
  ...axe._audit.rules.filter(({{impact}}) => ["minor", "moderate"].includes(impact))
    .map(({{id}}) => ({{id, enabled: false}})),
]}});
"""
GRAVE = ("serious", "critical")
# Marks texts that look like three others before them: of the same colour, size and weight, on the same grounds.
MARK_LOOK_ALIKE = """
() => {
  const plain = "rgba(0, 0, 0, 0) none 1 static none normal none";
  const grounds = new Map([[null, ""]]);
  const ground = (item) => {
    if (!grounds.has(item)) {
      const style = getComputedStyle(item);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.position, style.filter,
        style.mixBlendMode, style.backdropFilter].join(" ");
      grounds.set(item, own === plain ? ground(item.parentElement) : `${ground(item.parentElement)}/${own}`);
    }
    return grounds.get(item);
  };
  const look = (item) => {
    const style = getComputedStyle(item);
    return [item.tagName, item.matches(":disabled, [aria-disabled] *"), style.color, style.webkitTextFillColor,
      style.fontSize, style.fontWeight, style.textShadow, ground(item)].join(";");
  };
  const isSeen = (item) => {
    const {width, height} = item.getBoundingClientRect();
    return width > 1 && height > 1 && item.checkVisibility({opacityProperty: true, visibilityProperty: true});
  };
  const texts = [...document.querySelectorAll("body *")].filter((item) =>
    item instanceof HTMLElement && !item.firstElementChild && item.textContent.trim() && isSeen(item));
  const counts = new Map();
  const looks = texts.map(look);
  document.querySelectorAll("[data-look-alike]").forEach((item) => item.removeAttribute("data-look-alike"));
  texts.forEach((item, number) => {
    const count = (counts.get(looks[number]) ?? 0) + 1;
    counts.set(looks[number], count);
    item.toggleAttribute("data-look-alike", count > 3);
  });
}
"""
# Each differs from the one before in one thing, since all of a page is laid out anew for a change.
SCREENS: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (1280, "dark"),
    (320, "dark"),
    (320, "light"),
    (1280, "light"),
)
TABS_MAX = 400
VISIBLE_FOCUS = """
() => {
  const shows = (item) => {
    const style = getComputedStyle(item);
    return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  };
  return shows(document.activeElement) || shows(document.activeElement.closest(".editor") ?? document.body);
}
"""
WIDTH_AND_COLOUR = "[document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]"
WIDER_THAN_SCREEN = """
() => [...document.querySelectorAll("body *")]
  .filter((item) => item.getBoundingClientRect().right > innerWidth + 1)
  .filter((item) => !item.closest(".table-box, .chart-box, pre, svg"))
  .slice(0, 3).map((item) => item.outerHTML.slice(0, 120))
"""


def log_in(page: Page, address: str, session: str) -> None:
    page.context.add_cookies([{"name": "sessionid", "value": session, "url": address}])


def grave_violations(page: Page, *, colours_only: bool = False) -> list[str]:
    """What axe-core finds that is serious or critical, with the first place of each.

    It takes most time for the contrast of colours, so of texts that look alike only three are looked at for that.
    """
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if colours_only:
        options["runOnly"] = {"type": "rule", "values": [COLOURS]}
    found = page.evaluate(f"options => {{ ({MARK_LOOK_ALIKE})(); return axe.run(document, options); }}", options)
    return [
        f"{item['id']}: {item['help']}: {item['nodes'][0]['html'][:160]}"
        for item in found["violations"]
        if item["impact"] in GRAVE
    ]


def demand_fits(page: Page) -> None:
    """At phone and desk width, light and dark: nothing makes the page scroll sideways, and the colours do change."""
    colours = set()
    for width, scheme in SCREENS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        wide, colour = page.evaluate(WIDTH_AND_COLOUR)
        assert wide <= width, (page.url, width, wide, page.evaluate(WIDER_THAN_SCREEN))
        colours.add(colour)
    assert len(colours) == 2, page.url


def reach(page: Page, target: Locator) -> None:
    """Go on with the Tab key until the target has the focus, which must show."""
    handle = target.element_handle()
    for _ in range(TABS_MAX):
        if handle.evaluate("item => item === document.activeElement"):
            break
        if page.evaluate("document.activeElement.isContentEditable"):
            page.keyboard.press("Escape")  # leads out of the editor, where the Tab key indents
        page.keyboard.press("Tab")
    else:
        raise AssertionError(f"the Tab key does not lead to {target} on {page.url}")
    assert page.evaluate(VISIBLE_FOCUS), f"{target} on {page.url} does not show that it has the focus"


def press(page: Page, target: Locator, key: str = "Enter") -> None:
    reach(page, target)
    page.keyboard.press(key)


def write(page: Page, target: Locator, text: str) -> None:
    reach(page, target)
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)
