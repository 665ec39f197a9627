// The submit page with scripts: the editor, a draft in the browser, a file that is dropped, and a quick check with its result
// beside the editor. The form works without.
(() => {
  const form = document.querySelector("form[data-draft]");
  const area = form.elements.text;
  const file = form.querySelector("input[type=file]");
  const note = form.querySelector("[data-draft-note]");
  const fileNote = form.querySelector("[data-file-note]");
  const beside = document.getElementById("beside");
  const key = `draft:${form.dataset.draft}`;
  const starter = area.defaultValue;
  const language = form.querySelector("select[name=language]");
  const drop = form.querySelector("[data-draft-drop]");
  const keepsDrafts = !("draftOff" in form.dataset);
  const languages = JSON.parse(file.dataset.languages);
  const syntaxes = JSON.parse(form.dataset.syntaxes);

  function stored(change) {
    try { return change(); } catch { return undefined; }
  }

  const draft = keepsDrafts ? stored(() => localStorage.getItem(key)) : null;
  if (draft && draft !== starter) {
    area.value = draft;
    note.textContent = "This is your draft from this browser.";
  }

  const editor = window.sourceEditor(area, {
    syntax: syntaxes[language.value],
    nonce: form.dataset.nonce,
    onChange() {
      const isKept = stored(() => { localStorage.setItem(key, editor.text()); return true; });
      note.textContent = isKept ? "Draft kept in this browser." : "This browser keeps no draft.";
      changed();
    },
  });

  // What the text is stands above it until somebody changes it; then there is a way back.
  function changed() {
    const isStarter = editor.text() === starter;
    form.querySelector("[data-starter-note]").hidden = !isStarter;
    drop.hidden = isStarter || !keepsDrafts;
  }

  changed();
  drop.addEventListener("click", () => {
    editor.replace(starter);
    stored(() => localStorage.removeItem(key));
    note.textContent = "";
  });

  language.addEventListener("change", () => {
    if (editor.text() === starter && keepsDrafts) location.search = `?language=${language.value}`;
    else editor.setSyntax(syntaxes[language.value]);
  });

  // By the suffix, which the Python languages share: then the chosen one stays, except for a module, which has its own.
  function languageOf(name, text) {
    const suffix = `.${name.split(".").pop().toLowerCase()}`;
    const { module } = file.dataset;
    if (suffix !== ".py") return languages[suffix] || language.value;
    const isModule = module && new RegExp(`^${module}\\b`, "m").test(text) && !/^def (?:forward|backward)\b/m.test(text);
    if (isModule) return "python";
    return syntaxes[language.value] === "python" ? language.value : languages[suffix];
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
      language.value = languageOf(chosen.name, text);
      editor.setSyntax(syntaxes[language.value]);
      editor.replace(text.replace(/\r\n?/g, "\n"));
      file.value = "";
      note.textContent = `${chosen.name} is in the editor now.`;
    } catch {
      fileNote.textContent = `${chosen.name} is not UTF-8 text.`;
    }
  }

  file.addEventListener("change", () => take(file.files[0]));
  for (const name of ["dragover", "dragleave", "drop"]) {
    form.addEventListener(name, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      form.querySelector("[data-drop]").classList.toggle("over", name === "dragover");
      if (name === "drop") take(event.dataTransfer.files[0]);
    });
  }

  // What the compiler and the check of the source say about lines stands in a list, and at the lines.
  function mark(part) {
    editor.mark(Array.from(part.querySelectorAll("[data-line]"), (link) => ({
      line: Number(link.dataset.line),
      severity: link.dataset.severity,
      message: link.parentElement.textContent.trim().replace(/\s+/g, " "),
    })));
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-line], #beside a[href^='#L']"); // the latter are those of a log
    if (!link) return;
    event.preventDefault();
    editor.goTo(Number(link.dataset.line ?? link.hash.slice(2)));
  });

  // A form that was answered is another form: the next quick check of the same source is one more.
  function renew(token) {
    token.value = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.name !== "quick") return;
    editor.sent();
    editor.mark([]);
    beside.hidden = false;
    beside.textContent = "Sending the source …";
    beside.scrollIntoView({ block: "nearest" }); // the button is a screen below
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target !== beside || !event.detail.xhr.getResponseHeader("Content-Type")?.startsWith("text/html")) return;
    event.detail.shouldSwap = true; // a refusal says why
    event.detail.isError = false;
  });
  document.addEventListener("htmx:sendError", (event) => {
    if (event.target.name === "quick") beside.textContent = "The site could not be reached. Your source is still in the editor.";
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (!beside.querySelector("[data-answered]")) return;
    mark(beside);
    renew(form.elements.client_token);
  });

  mark(document);
})();
