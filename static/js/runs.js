// Keeps the page of a run fresh. Each event of the log is shown in the tail at once, the drawn parts are fetched again
// a little later; a part that has not changed is left alone. A stream that breaks is taken up after the last event
// seen, so nothing is lost and nothing comes twice. Without it the page asks every few seconds.
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const LOOK_MS = 1000;
  const POLL_MS = 5000;
  const TAIL_MAX = 40;
  let seen = Number(live.dataset.seq);
  let stream = null;
  let looking = false;
  let again = false;
  let lookedAt = 0;
  let at = live.dataset.at || "";
  const slider = document.querySelector("[data-replay]");

  const following = () => !("finished" in live.dataset) && !at;

  function address() {
    const query = new URLSearchParams({ x: live.dataset.x });
    if (at) query.set("at", at);
    return `${live.dataset.live}?${query}`;
  }

  // A chart that somebody explores stays where it is; figures.js fetches its new values.
  function renew(old, fresh) {
    old.drawn = fresh.drawn;
    old.querySelector(".chart-box").replaceChildren(...fresh.querySelector(".chart-box").children);
    const button = old.querySelector("[data-figure]");
    button.dataset.figure = fresh.querySelector("[data-figure]").dataset.figure;
    button.dispatchEvent(new Event("renew", { bubbles: true }));
  }

  function swap(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").body;
    const names = new Set(Array.from(fresh.querySelectorAll(":scope > [data-part]"), (part) => part.dataset.part));
    live.querySelectorAll(":scope > [data-part]").forEach((part) => { if (!names.has(part.dataset.part)) part.remove(); });
    let before = null;
    fresh.querySelectorAll(":scope > [data-part]").forEach((part) => {
      const old = live.querySelector(`:scope > [data-part="${part.dataset.part}"]`);
      const node = document.adoptNode(part);
      node.drawn = node.innerHTML;
      if (old && old.drawn === node.drawn) { before = old; return; }
      if (old && old.querySelector(".figure-box")) {
        renew(old, node);
        before = old;
        return;
      }
      if (old) old.replaceWith(node);
      else if (before) before.after(node);
      else live.prepend(node);
      before = node;
    });
    if (fresh.querySelector("[data-ended]")) end();
  }

  async function look() {
    if (looking) { again = true; return; }
    looking = true;
    lookedAt = Date.now();
    try {
      const answer = await fetch(address(), { headers: { "X-Part": "1" } });
      if (answer.ok) swap(await answer.text());
    } catch {
      // the next look tries again
    } finally {
      looking = false;
      if (again) { again = false; soon(); }
    }
  }

  let timer = 0;
  function soon() {
    if (timer || document.hidden) return;
    timer = setTimeout(() => { timer = 0; look(); }, Math.max(0, lookedAt + LOOK_MS - Date.now()));
  }

  function span(css, text) {
    const item = document.createElement("span");
    item.className = css;
    item.textContent = text;
    return item;
  }

  function tell(event) {
    const tail = live.querySelector("[data-tail]");
    if (!tail) return;
    const line = document.createElement("li");
    line.dataset.seq = event.seq;
    const time = new Date(event.at_s * 1000).toISOString().slice(11, 19);
    line.append(span("mono", `#${event.seq}`), span("soft", time), span("mono", event.type), span("mono", event.candidate || ""), span("said", event.text));
    tail.prepend(line);
    while (tail.children.length > TAIL_MAX) tail.lastElementChild.remove();
  }

  function hear(said) {
    const place = live.querySelector(`[data-candidate="${CSS.escape(said.candidate || "")}"]`);
    if (!place) return;
    const words = place.querySelector(".flight-text");
    if (said.chars) words.textContent = `${words.textContent}${said.text || said.thinking || ""}`.slice(-300);
    else if (said.text !== undefined) words.textContent = said.text;
    if (said.state || said.phase) place.querySelector(".badge").textContent = said.verifier || said.state || said.phase;
    if (said.chars) { place.querySelector(".flight-count").textContent = `${said.chars} chars`; return; }
    place.querySelector(".flight-count").textContent = said.total ? `${said.done || 0} of ${said.total}` : "";
  }

  function reach(seq) {
    if (!slider) return;
    const range = slider.querySelector("input[type=range]");
    range.max = range.value = seq;
    slider.querySelector("output").textContent = seq;
  }

  function follow() {
    if (!following()) return;
    stream = new EventSource(`${live.dataset.events}?topics=${live.dataset.run}&after=${seen}`);
    stream.addEventListener("run-event", (message) => {
      const event = JSON.parse(message.data);
      if (event.seq <= seen) return;
      seen = event.seq;
      if (at) return;
      tell(event);
      reach(event.seq);
      soon();
    });
    stream.addEventListener("run-live", (message) => hear(JSON.parse(message.data)));
    stream.addEventListener("end", end);
    stream.addEventListener("open", () => connected(true));
    stream.addEventListener("error", () => {
      connected(false);
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (following()) follow(); }, 3000);
    });
  }

  function connected(yes) {
    live.dataset.connection = yes ? "live" : "away";
    const place = document.querySelector("[data-connection-text]");
    if (place) place.textContent = yes ? "following live" : "connection lost, trying again";
  }

  function end() {
    if (stream) stream.close();
    live.dataset.finished = "";
    const place = document.querySelector("[data-connection-text]");
    if (place) place.textContent = "";
    setTimeout(look, 0);
  }

  function tick() {
    document.querySelectorAll("[data-since]").forEach((place) => {
      const seconds = Math.max(0, (Date.now() - Date.parse(place.dataset.since)) / 1000);
      place.textContent = seconds > 90 ? `${(seconds / 60).toFixed(1)} min` : `${seconds.toFixed(0)} s`;
    });
  }

  if (slider) {
    const range = slider.querySelector("input[type=range]");
    const output = slider.querySelector("output");
    range.addEventListener("input", () => { output.textContent = range.value; });
    range.addEventListener("change", () => {
      at = Number(range.value) >= seen ? "" : range.value;
      range.max = seen;
      look();
    });
  }

  setInterval(tick, 1000);
  setInterval(() => { if (following() && live.dataset.connection !== "live" && !document.hidden) look(); }, POLL_MS);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && following()) look(); });
  live.querySelectorAll(":scope > [data-part]").forEach((part) => { part.drawn = part.innerHTML; });
  follow();
})();
