// Puts an interactive figure in the place of a chart that the server has drawn, once a reader asks for it, and takes it
// away again. Only then are Plotly and its styles fetched. Charts are complete without it.
(() => {
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    displayModeBar: true,
    displayNotifier: false,
    showTips: false,
    showAxisRangeEntryBoxes: false,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  const STYLES_ID = "plotly.js-style-global"; // Plotly looks for it and then writes no styles of its own
  const UNUSED_ID = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53"; // the styles of its maps
  let library = null;

  function loaded(tag, attributes) {
    const node = Object.assign(document.createElement(tag), attributes);
    return new Promise((resolve, reject) => {
      node.addEventListener("load", resolve);
      node.addEventListener("error", () => { node.remove(); reject(new Error("a file of the site did not arrive")); });
      document.head.append(node);
    });
  }

  async function fetchLibrary(button) {
    if (!document.getElementById(UNUSED_ID)) document.head.append(Object.assign(document.createElement("meta"), { id: UNUSED_ID }));
    await loaded("link", { rel: "stylesheet", id: STYLES_ID, className: "no-inline-styles", href: button.dataset.styles });
    await loaded("script", { src: button.dataset.library });
  }

  // What stands in the address of the page is the selection, unless the chart says otherwise.
  function addressOf(button) {
    const address = new URL(button.dataset.figure, location.href);
    const own = new Set(address.searchParams.keys());
    new URLSearchParams(location.search).forEach((value, name) => { if (!own.has(name)) address.searchParams.append(name, value); });
    return address;
  }

  async function fetchFigure(button) {
    const answer = await fetch(addressOf(button), { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the site answered ${answer.status}`);
    return answer.json();
  }

  // A copy in which the names of tokens have become the colours that they have now.
  function coloured(value, probe) {
    if (Array.isArray(value)) return value.map((item) => coloured(item, probe));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, probe)]));
    if (typeof value !== "string" || !value.startsWith("var(--")) return value;
    probe.style.color = value;
    return getComputedStyle(probe).color;
  }

  function draw(place) {
    const probe = document.createElement("span");
    place.append(probe);
    const { data, layout } = coloured(place.figure, probe);
    probe.remove();
    layout.font.family = layout.hoverlabel.font.family = getComputedStyle(place).fontFamily;
    layout.uirevision = "kept"; // zoom and hidden lines stay when it is drawn again
    layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom"; // a finger scrolls the page
    return Plotly.react(place, data, layout, CONFIG);
  }

  function say(button, text) {
    button.parentElement.querySelector("[data-figure-text]").textContent = text;
  }

  async function open(button) {
    const chart = button.closest("section").querySelector(".chart-box");
    const frame = chart.cloneNode(false); // scrolls sideways on a phone, as the chart does
    const place = Object.assign(document.createElement("div"), { className: "figure-box" });
    frame.append(place);
    button.disabled = true;
    say(button, "Loading the interactive chart.");
    try {
      library ??= fetchLibrary(button);
      [place.figure] = await Promise.all([fetchFigure(button), library]);
      chart.after(frame);
      chart.hidden = true;
      await draw(place);
      button.textContent = "Back to the plain chart";
      say(button, "Point at a line for its values, drag to zoom, choose in the legend to hide a line.");
    } catch (problem) {
      if (!window.Plotly) library = null;
      frame.remove();
      chart.hidden = false;
      say(button, `The interactive chart could not be loaded: ${problem.message}. The plain chart stays; try again in a moment.`);
    }
    button.disabled = false;
  }

  // The chart below has changed; without an answer what is shown stays until the next change.
  async function renew(button) {
    const place = button.closest("section").querySelector(".figure-box");
    if (!place) return;
    try {
      place.figure = await fetchFigure(button);
      if (place.isConnected) await draw(place);
    } catch {
      say(button, "The figure could not be updated. The plain chart shows the newest values.");
    }
  }

  function close(button, place) {
    Plotly.purge(place);
    place.parentElement.remove();
    button.closest("section").querySelector(".chart-box").hidden = false;
    button.textContent = "Explore this chart";
    say(button, "");
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-figure]");
    if (!button) return;
    const place = button.closest("section").querySelector(".figure-box");
    if (place) close(button, place);
    else open(button);
  });

  document.addEventListener("renew", (event) => renew(event.target));

  const drawAll = () => document.querySelectorAll(".figure-box").forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  document.documentElement.dataset.figures = "";
})();
