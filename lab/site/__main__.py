"""A large site under load: `python -m lab.site [pages] [streams] [posts] [--postgres] [--submissions N]`.

pages    every page and every endpoint that can be read, at 1,000 and at 100,000 submissions: p50 and p95 in ms over
         HTTP, one request at a time, and queries, whose number may not grow with the site
streams  500 viewers of one evaluation: from an event's commit to each of them
posts    50 submissions posted at the same moment, looked up in the database afterwards

All of it on the whole site of this machine as `manage.py up` runs it, with one web process and a fake judge. Prints
tables, then one JSON line, which docs/results/site.json keeps by database if it is of 100,000 submissions. Numbers from
a busy machine are worth little: the load average stands beside each.
"""

import argparse
import json
import os
import time
from typing import Any

import django

if __name__ == "__main__":  # to know the routes; the site itself runs in processes of its own
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()

from lab.site import pages, posts, streams
from lab.site.serving import Site, machine, site
from tests.stack import ROOT

OUT = ROOT / "docs" / "results" / "site.json"
PARTS = ("streams", "posts", "pages")
SMALL, LARGE = 1_000, 100_000
REQUESTS_OF_SMALL = 2  # its queries are counted, not its time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL that is started for it")
    parser.add_argument("--submissions", type=int, default=LARGE)
    parser.add_argument("--requests", type=int, default=pages.REQUESTS, help="for each page and endpoint")
    options = parser.parse_args()
    wanted = options.parts or PARTS
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"there is no part called {', '.join(sorted(unknown))}")
    result: dict[str, Any] = {"submissions": options.submissions}
    small: list[pages.PageTimes] = []
    if "pages" in wanted:
        with site(SMALL, postgres=options.postgres) as running:
            small = pages.measure(running, REQUESTS_OF_SMALL)
    started_s = time.monotonic()
    with site(options.submissions, postgres=options.postgres) as running:
        result |= {"filled_s": running.names["filled_s"], "up_and_filled_s": round(time.monotonic() - started_s, 1)}
        for part in PARTS:
            if part in wanted:
                result[part] = _measured(part, running, small, options.requests)
                if (options.submissions, options.requests) == (LARGE, pages.REQUESTS):  # others try the bench itself
                    _keep("postgres" if options.postgres else "sqlite", result)
    print(json.dumps(result))


def _measured(part: str, running: Site, small: list[pages.PageTimes], requests: int) -> dict[str, Any]:
    before = machine()
    if part == "pages":
        found = _pages(running, small, requests)
    else:
        found = {"streams": streams, "posts": posts}[part].measure(running)
        print(part, json.dumps(found))
    return {**found, "machine_before": before, "machine_after": machine()}


def _pages(running: Site, small: list[pages.PageTimes], requests: int) -> dict[str, Any]:
    rows = pages.measure(running, requests)
    print(pages.table(rows))
    found = {
        "addresses": len(rows),
        "slower_than_aim": [f"{row.reader} {row.path}".strip() for row in pages.slow(rows)],
        "queries_grow": pages.growing(small, rows),
        "rows": pages.plain(rows),
    }
    print(f"p95 of {pages.AIM_MS:.0f} ms or more: {found['slower_than_aim'] or 'none'}")
    print(f"more queries than at {SMALL} submissions: {found['queries_grow'] or 'none'}")
    return found


def _keep(name: str, result: dict[str, Any]) -> None:
    kept = json.loads(OUT.read_text()) if OUT.exists() else {}
    kept[name] = kept.get(name, {}) | result
    OUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
