// The editor of a source: CodeMirror in front of a text field, which keeps the same text and is what a form sends.
// Where CodeMirror did not load, the text field is the editor.
//
// sourceEditor(field, {syntax, nonce, onChange}) gives {text, replace, setSyntax, sent, mark, goTo}.
window.sourceEditor = (() => {
  const INDENT = "    ";
  const FOLDED_LINES_MAX = 2000;
  const PHRASES = {
    next: "Next", previous: "Previous", all: "All", replace: "Replace", "replace all": "Replace all", "match case": "Match case",
    regexp: "Regular expression", "by word": "Whole words",
  };
  // What CUDA adds to C++.
  const CUDA_WORDS = /^(?:__(?:global|device|host|shared|constant|managed|grid_constant|launch_bounds|restrict|forceinline|noinline)__|__restrict|constexpr|concept|requires|static_assert|thread_local|noexcept)$/;
  const CUDA_TYPES = /^(?:u?int\d+_t|size_t|(?:float|double|u?int|u?long|u?longlong|u?char|u?short)[1-4]|half2?|__half2?|__nv_bfloat162?|dim3|cudaStream_t|cudaError_t)$/;

  function cuda(word, style) {
    if (CUDA_WORDS.test(word)) return "keyword";
    return CUDA_TYPES.test(word) ? "type" : style;
  }

  function languages() {
    const c = {
      ...CodeMirror.cpp,
      token(stream, state) {
        const style = CodeMirror.cpp.token(stream, state);
        return ["variable", "def", "builtin"].includes(style) ? cuda(stream.current(), style) : style;
      },
    };
    return { c: CodeMirror.StreamLanguage.define(c), python: CodeMirror.StreamLanguage.define(CodeMirror.python) };
  }

  function colours() {
    const t = CodeMirror.tags;
    const coloured = (name, tag) => ({ tag, color: `var(--code-${name})` });
    return CodeMirror.HighlightStyle.define([
      coloured("keyword", [t.keyword, t.meta, t.atom]),
      coloured("type", [t.typeName, t.className]),
      coloured("string", [t.string, t.special(t.string)]),
      coloured("number", [t.number]),
      coloured("function", [t.definition(t.variableName), t.standard(t.variableName)]),
      { tag: t.comment, color: "var(--code-comment)", fontStyle: "italic" },
    ]);
  }

  function theme() {
    const field = { background: "var(--surface)", color: "var(--ink)", border: "1px solid var(--line-strong)", borderRadius: "var(--radius)" };
    return CodeMirror.EditorView.theme({
      "&": { color: "var(--ink)", background: "var(--surface)" },
      "&.cm-focused": { outline: "none" }, // the frame around it shows the focus
      ".cm-scroller": { font: "var(--text-s)/1.6 var(--mono)" },
      ".cm-content": { caretColor: "var(--ink)" },
      ".cm-gutters": { background: "var(--sunken)", color: "var(--code-comment)", borderInlineEnd: "1px solid var(--line)" },
      ".cm-activeLineGutter": { background: "var(--accent-wash)", color: "var(--ink)" },
      ".cm-foldPlaceholder": { background: "var(--quiet-wash)", color: "var(--ink-soft)", border: "1px solid var(--line-strong)", padding: "0 0.4em" },
      "&.cm-focused .cm-matchingBracket": { background: "var(--accent-wash)", outline: "1px solid var(--accent)" },
      "&.cm-focused .cm-nonmatchingBracket": { background: "var(--bad-wash)", outline: "1px solid var(--bad)" },
      ".cm-selectionMatch": { background: "var(--quiet-wash)" },
      ".cm-searchMatch": { background: "var(--warn-wash)", outline: "1px solid var(--warn)" },
      ".cm-searchMatch.cm-searchMatch-selected": { background: "var(--accent-wash)", outline: "2px solid var(--accent)" },
      ".cm-panels": { background: "var(--sunken)", color: "var(--ink)", zIndex: "1" },
      ".cm-panels.cm-panels-bottom": { borderBlockStart: "1px solid var(--line)" },
      ".cm-panel.cm-search": { padding: "var(--s2) var(--s6) var(--s2) var(--s2)" },
      ".cm-panel.cm-search input, .cm-panel.cm-search button, .cm-panel.cm-search label": { margin: "0.15em 0.5em 0.15em 0", fontSize: "var(--text-s)" },
      ".cm-textfield": { ...field, width: "14rem", maxWidth: "100%", padding: "0.2em 0.5em" },
      ".cm-button": { ...field, backgroundImage: "none", padding: "0.2em 0.7em" },
      ".cm-panel.cm-search [name=close], .cm-panel.cm-panel-lint [name=close]": { color: "var(--ink)", border: "none", background: "none", padding: "0.2em 0.6em" },
      ".cm-tooltip": { ...field, maxWidth: "min(40rem, 90vw)", padding: "0" },
      ".cm-diagnostic": { whiteSpace: "pre-wrap", overflowWrap: "anywhere", borderInlineStart: "4px solid var(--bad)" },
      ".cm-diagnostic-warning, .cm-diagnostic-info": { borderInlineStartColor: "var(--warn)" },
      ".cm-panel.cm-panel-lint ul [aria-selected]": { background: "var(--accent-wash)", color: "var(--ink)" },
      ".cm-lintRange-error": { backgroundImage: "none", background: "var(--bad-wash)" },
      ".cm-lintRange-warning, .cm-lintRange-info": { backgroundImage: "none", background: "var(--warn-wash)" },
      ".cm-lint-marker": { width: "0.8em", height: "0.8em" },
      ".cm-lint-marker-error": { content: "none", background: "var(--bad)", borderRadius: "50%", margin: "0.4em 0" },
      ".cm-lint-marker-warning, .cm-lint-marker-info": { content: "none", background: "var(--warn)", margin: "0.4em 0" },
    });
  }

  // Below a line: all that is indented further. Empty lines and directives of the preprocessor end nothing.
  const indentOf = (text) => /^[ \t]*/.exec(text)[0].replaceAll("\t", INDENT).length;
  function folds(state, start) {
    const first = state.doc.lineAt(start);
    if (!first.text.trim()) return null;
    let end = first;
    for (let n = first.number + 1; n <= Math.min(state.doc.lines, first.number + FOLDED_LINES_MAX); n += 1) {
      const line = state.doc.line(n);
      if (!line.text.trim() || line.text.startsWith("#")) continue;
      if (indentOf(line.text) <= indentOf(first.text)) break;
      end = line;
    }
    return end.number > first.number ? { from: first.to, to: end.to } : null;
  }

  const spansLines = ({ doc, selection: { main } }) => doc.lineAt(main.from).number !== doc.lineAt(main.to).number;
  const tabKey = {
    key: "Tab",
    run(view) {
      if (spansLines(view.state)) return CodeMirror.indentWithTab.run(view);
      view.dispatch(view.state.replaceSelection(INDENT), { scrollIntoView: true, userEvent: "input" });
      return true;
    },
    // At a line that is not indented the key leads out of the editor.
    shift(view) {
      const isIndented = /^[ \t]/.test(view.state.doc.lineAt(view.state.selection.main.from).text);
      return (isIndented || spansLines(view.state)) && CodeMirror.indentLess(view);
    },
  };

  // Chromium gives text that replaces a selection the style of what was there, which the policy of the page forbids.
  function replacesSelection(event, view) {
    const { state } = view;
    if (event.inputType !== "insertText" || event.data === null || event.isComposing || state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(state.replaceSelection(event.data), { scrollIntoView: true, userEvent: "input.type" });
    return true;
  }

  // A file that is dropped is for the form, which looks at it first.
  const ofTheForm = (event) => event.dataTransfer.types.includes("Files");

  function rich(field, { syntax, nonce, onChange }) {
    const { EditorState, EditorView, Compartment, ChangeSet, keymap } = CodeMirror;
    const known = languages();
    const language = new Compartment();
    // Messages name lines of the text that was sent; since then it may have been edited.
    let sentText;
    let since;
    const watched = EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      since = since.compose(update.changes);
      field.value = update.state.doc.toString();
      onChange();
    });
    const view = new EditorView({
      state: EditorState.create({
        doc: field.value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          CodeMirror.lintGutter(),
          CodeMirror.lineNumbers(),
          CodeMirror.foldGutter({ openText: "▾", closedText: "▸" }),
          CodeMirror.highlightActiveLineGutter(),
          CodeMirror.highlightSpecialChars(),
          CodeMirror.history(),
          CodeMirror.indentOnInput(),
          CodeMirror.indentUnit.of(INDENT),
          EditorState.tabSize.of(INDENT.length),
          CodeMirror.bracketMatching(),
          CodeMirror.foldService.of(folds),
          CodeMirror.search(),
          EditorState.phrases.of(PHRASES),
          CodeMirror.highlightSelectionMatches(),
          CodeMirror.syntaxHighlighting(colours()),
          language.of(known[syntax]),
          keymap.of([tabKey, ...CodeMirror.searchKeymap, ...CodeMirror.foldKeymap, ...CodeMirror.lintKeymap,
            ...CodeMirror.historyKeymap, ...CodeMirror.defaultKeymap]),
          EditorView.domEventHandlers({ drop: ofTheForm, dragover: ofTheForm, beforeinput: replacesSelection }),
          EditorView.contentAttributes.of({
            id: field.id, tabindex: "0", "aria-labelledby": "text-label", "aria-describedby": "text-help", autocapitalize: "off", spellcheck: "false",
            ...(field.getAttribute("aria-invalid") ? { "aria-invalid": "true" } : {}),
          }),
          theme(),
          watched,
        ],
      }),
    });
    function sent() {
      sentText = view.state.doc;
      since = ChangeSet.empty(sentText.length);
    }
    // Where a line of the sent text is now.
    const placeOf = (line) => {
      const { from, to } = sentText.line(Math.max(1, Math.min(line, sentText.lines)));
      return { from: since.mapPos(from, 1), to: since.mapPos(to, -1) };
    };
    sent();
    field.hidden = true;
    field.removeAttribute("id"); // which the editor has now
    field.after(view.dom);
    document.getElementById("text-label").addEventListener("click", () => view.focus());
    return {
      text: () => field.value,
      replace(text) {
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 } });
      },
      setSyntax(name) {
        view.dispatch({ effects: language.reconfigure(known[name]) });
      },
      sent,
      mark(messages) {
        const found = messages.map(({ line, severity, message }) => {
          const { from, to } = placeOf(line);
          return { from, to: Math.max(from, to), severity, message };
        });
        view.dispatch(CodeMirror.setDiagnostics(view.state, found.sort((a, b) => a.from - b.from)));
      },
      goTo(line) {
        const { from, to } = placeOf(line);
        view.dispatch({ selection: { anchor: from, head: Math.max(from, to) }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
        view.focus();
      },
    };
  }

  function plain(field, { onChange }) {
    field.addEventListener("input", onChange);
    return {
      text: () => field.value,
      replace(text) {
        field.value = text;
        onChange();
      },
      setSyntax() {},
      sent() {},
      mark() {},
      goTo(line) {
        const start = field.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
        const end = field.value.indexOf("\n", start);
        field.focus();
        field.setSelectionRange(start, end < 0 ? field.value.length : end);
        field.scrollTop = Math.max(0, (line - 6) * parseFloat(getComputedStyle(field).lineHeight));
      },
    };
  }

  return (field, options) => (window.CodeMirror ? rich : plain)(field, options);
})();
