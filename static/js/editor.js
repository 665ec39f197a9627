// The submit page with scripts: colours, line numbers, indentation, draft in the browser, dropping a file. The form works
// without: the text field stays what is typed into and sent.
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
  const syntaxes = JSON.parse(form.dataset.syntaxes);
  const named = new Set(Array.from(document.querySelectorAll("[data-line]"), (link) => Number(link.dataset.line)));

  const [numbers, colours] = ["numbers", "code colours"].map((name) => {
    const behind = document.createElement("pre");
    behind.className = name;
    behind.setAttribute("aria-hidden", "true");
    box.insertBefore(behind, area);
    return behind;
  });
  box.classList.add("numbered");

  // One expression per syntax, one group per colour of base.css. Each part reads on from where it starts and never
  // back, so the time is that of the length.
  const COLOURED_MAX = 100000;  // characters; longer texts are typed without colours
  const CLASSES = ["c", "s", "k", "m", "kt"];
  const SYNTAXES = {
    c: [
      /\/\/[^\n]*|\/\*[^]*?(?:\*\/|(?![^]))/,
      /"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?/,
      /^[ \t]*#[ \t]*\w+|\b(?:alignas|asm|auto|break|case|catch|class|const|constexpr|continue|default|delete|do|else|enum|explicit|extern|false|for|if|inline|namespace|new|nullptr|operator|private|public|reinterpret_cast|return|sizeof|static|static_assert|static_cast|struct|switch|template|this|throw|true|try|typedef|typename|union|using|virtual|volatile|while|__\w+__|__restrict__)\b/,
      /\b\d[\w.']*/,
      /\b(?:bool|char|double|float[234]?|half2?|int[234]?|long|short|signed|size_t|u?int\d+_t|unsigned|void|dim3)\b/,
    ],
    python: [
      /#[^\n]*/,
      /"""[^]*?(?:"""|(?![^]))|\'\'\'[^]*?(?:\'\'\'|(?![^]))|"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?/,
      /\b(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\b/,
      /\b\d[\w.]*/,
      /@[\w.]+/,
    ],
  };

  function colour() {
    const shown = document.createDocumentFragment();
    if (area.value.length <= COLOURED_MAX) {
      const parts = SYNTAXES[syntaxes[language.value]];
      const token = new RegExp(parts.map((part) => `(${part.source})`).join("|"), "gm");
      let end = 0;
      for (const match of area.value.matchAll(token)) {
        const mark = document.createElement("span");
        mark.className = CLASSES[match.slice(1).findIndex((group) => group !== undefined)];
        mark.textContent = match[0];
        shown.append(area.value.slice(end, match.index), mark);
        end = match.index + match[0].length;
      }
      shown.append(area.value.slice(end));
    }
    box.classList.toggle("coloured", area.value.length <= COLOURED_MAX);
    colours.replaceChildren(shown);
  }

  function number() {
    const count = area.value.split("\n").length;
    const rows = Array.from({ length: count }, (_, n) => {
      if (!named.has(n + 1)) return `${n + 1}\n`;
      const mark = document.createElement("b");
      mark.textContent = `${n + 1}\n`;
      return mark;
    });
    numbers.replaceChildren(...rows);
  }

  function follow() {
    numbers.scrollTop = colours.scrollTop = area.scrollTop;
    colours.scrollLeft = area.scrollLeft;
  }

  function draw() {
    number();
    colour();
    follow();
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
    draw();
    keep();
  }

  // Replaces what is selected so that the browser can undo it, and tells as if it was typed.
  function type(text) {
    if (document.execCommand("insertText", false, text)) return;
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    changed();
  }

  function lineStart() {
    return area.selectionStart ? area.value.lastIndexOf("\n", area.selectionStart - 1) + 1 : 0;
  }

  // All lines that the selection touches, four columns to the right or left.
  function shift(back) {
    const start = lineStart();
    const last = Math.max(area.selectionStart, area.selectionEnd - 1);
    const end = area.value.indexOf("\n", last) < 0 ? area.value.length : area.value.indexOf("\n", last);
    const lines = area.value.slice(start, end).split("\n");
    const moved = lines.map((line) => (back ? line.replace(/^(?: {1,4}|\t)/, "") : line && `    ${line}`)).join("\n");
    area.setSelectionRange(start, end);
    type(moved);
    area.setSelectionRange(start, start + moved.length);
  }

  function pressed(event) {
    if (event.key === "Escape") box.dataset.leave = "1";
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (event.key === "Tab" && !box.dataset.leave) {
      const several = area.value.slice(area.selectionStart, area.selectionEnd).includes("\n");
      const indented = [" ", "\t"].includes(area.value[lineStart()]);
      if (event.shiftKey && !several && !indented) return;
      event.preventDefault();
      if (event.shiftKey || several) shift(event.shiftKey);
      else type("    ");
    } else if (event.key === "Enter" && !event.shiftKey) {
      const line = area.value.slice(lineStart(), area.selectionStart);
      const deeper = /[{(:]\s*$/.test(line) ? "    " : "";
      const spaces = /^[ \t]*/.exec(line)[0] + deeper;
      if (!spaces) return;
      event.preventDefault();
      type(`\n${spaces}`);
    }
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
    draw();
    try { localStorage.removeItem(key); } catch { /* nothing was kept either */ }
    note.textContent = "";
  });

  area.addEventListener("input", () => { changed(); drop.hidden = false; });
  language.addEventListener("change", () => {
    if (area.value === starter && !("draftOff" in form.dataset)) location.search = `?language=${language.value}`;
  });
  language.addEventListener("change", colour);
  area.addEventListener("scroll", follow);
  area.addEventListener("keydown", pressed);
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
  draw();
})();
