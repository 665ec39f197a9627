// Keeps a live page fresh when the event stream does not: asks again every 5 s while the stream is not open, and once
// when a hidden tab is shown. Also keeps opened <details> open across a swap. The swap itself is htmx's.
(() => {
  const POLL_MS = 5000;
  let open = false;
  let opened = new Set();

  const finished = () => document.querySelector("[data-finished]") !== null;
  const look = () => finished() || document.querySelectorAll("[data-live]").forEach((part) => htmx.trigger(part, "look"));

  document.addEventListener("htmx:sseOpen", () => {
    open = true;
    look(); // what changed between the page and the stream
  });
  document.addEventListener("htmx:sseError", () => { open = false; });
  document.addEventListener("htmx:sseClose", () => { open = false; });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  setInterval(() => { if (!open && !document.hidden) look(); }, POLL_MS);

  document.addEventListener("htmx:beforeSwap", (event) => {
    opened = new Set(Array.from(event.detail.target.querySelectorAll("details[open][id]"), (item) => item.id));
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    event.detail.target.querySelectorAll("details[id]").forEach((item) => { if (opened.has(item.id)) item.open = true; });
    document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
  });
})();
