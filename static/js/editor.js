// The submit page with scripts: line numbers, tab key, draft in the browser, dropping a file. The form works without.
(() => {
  const form = document.querySelector("form[data-draft]");
  const box = form.querySelector("[data-editor]");
  const area = box.querySelector("textarea");
  const file = form.querySelector("input[type=file]");
  const note = form.querySelector("[data-draft-note]");
  const fileNote = form.querySelector("[data-file-note]");
  const key = `draft:${form.dataset.draft}`;
  const starter = area.defaultValue;
  const language = form.querySelector("select[name=language]");
  const languages = JSON.parse(file.dataset.languages);

  const numbers = document.createElement("pre");
  numbers.className = "numbers";
  numbers.setAttribute("aria-hidden", "true");
  box.prepend(numbers);
  box.classList.add("numbered");

  function number() {
    const count = area.value.split("\n").length;
    numbers.textContent = Array.from({ length: count }, (_, n) => n + 1).join("\n");
    numbers.scrollTop = area.scrollTop;
  }

  function keep() {
    try {
      localStorage.setItem(key, area.value);
      note.textContent = "Draft kept in this browser.";
    } catch {
      note.textContent = "This browser keeps no draft.";
    }
  }

  function changed() {
    number();
    keep();
  }

  function indent(event) {
    if (event.key === "Escape") box.dataset.leave = "1";
    if (event.key !== "Tab" || event.shiftKey || event.ctrlKey || event.altKey) return;
    if (box.dataset.leave) return;
    event.preventDefault();
    area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
    changed();
  }

  function goTo(line) {
    const start = area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.focus();
    area.setSelectionRange(start, area.value.indexOf("\n", start) < 0 ? area.value.length : area.value.indexOf("\n", start));
    area.scrollTop = Math.max(0, (line - 6) * parseFloat(getComputedStyle(area).lineHeight));
  }

  // The text goes into the editor, so that it can be seen before it is sent; what is not text stays with the input
  // and the server says what is wrong with it.
  async function take(chosen) {
    fileNote.textContent = "";
    if (!chosen) return;
    const limit = Number(file.dataset.maxBytes);
    if (chosen.size > limit) {
      fileNote.textContent = `${chosen.name} has ${chosen.size} bytes; the rules take at most ${limit}. It was not taken.`;
      file.value = "";
      return;
    }
    const content = await chosen.arrayBuffer();
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
      if (text.includes("\0") || !text.trim()) return;
      area.value = text;
      language.value = languages[`.${chosen.name.split(".").pop().toLowerCase()}`] || language.value;
      changed();
      fileNote.textContent = "";
      file.value = "";
      note.textContent = `${chosen.name} is in the editor now.`;
    } catch {
      fileNote.textContent = `${chosen.name} is not UTF-8 text.`;
    }
  }

  const draft = (() => { try { return localStorage.getItem(key); } catch { return null; } })();
  const drop = form.querySelector("[data-draft-drop]");
  if (draft !== null && draft !== starter && !("draftOff" in form.dataset)) {
    area.value = draft;
    note.textContent = "This is your draft from this browser.";
  }
  drop.hidden = "draftOff" in form.dataset || area.value === starter;
  drop.addEventListener("click", () => {
    area.value = starter;
    drop.hidden = true;
    number();
    try { localStorage.removeItem(key); } catch { /* nothing was kept either */ }
    note.textContent = "";
  });

  area.addEventListener("input", () => { changed(); drop.hidden = false; });
  language.addEventListener("change", () => {
    if (area.value === starter && !("draftOff" in form.dataset)) location.search = `?language=${language.value}`;
  });
  area.addEventListener("scroll", () => { numbers.scrollTop = area.scrollTop; });
  area.addEventListener("keydown", indent);
  area.addEventListener("focus", () => { delete box.dataset.leave; });
  file.addEventListener("change", () => take(file.files[0]));
  for (const name of ["dragover", "dragleave", "drop"]) {
    form.addEventListener(name, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      form.querySelector("[data-drop]").classList.toggle("over", name === "dragover");
      if (name === "drop") take(event.dataTransfer.files[0]);
    });
  }
  document.querySelectorAll("[data-line]").forEach((link) => link.addEventListener("click", (event) => {
    event.preventDefault();
    goTo(Number(link.dataset.line));
  }));
  number();
})();
