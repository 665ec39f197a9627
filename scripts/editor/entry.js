// What static/js/editor.js takes of CodeMirror, as one global. The languages are those of the stream parsers: they take
// 29 KB where the grammars of C++ and Python take 170 KB, and CUDA's words can be added to them.
export { ChangeSet, Compartment, EditorState } from "@codemirror/state";
export { EditorView, drawSelection, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentLess, indentWithTab } from "@codemirror/commands";
export {
  HighlightStyle, StreamLanguage, bracketMatching, foldGutter, foldKeymap, foldService, indentOnInput, indentUnit, syntaxHighlighting,
} from "@codemirror/language";
export { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
export { forEachDiagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
export { cpp } from "@codemirror/legacy-modes/mode/clike";
export { python } from "@codemirror/legacy-modes/mode/python";
export { tags } from "@lezer/highlight";
