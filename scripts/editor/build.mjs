// Writes static/vendor/codemirror: codemirror.js of entry.js, and LICENSE.txt with the version and licence of each package in it.
import { readFileSync, writeFileSync } from "node:fs";
import { buildSync } from "esbuild";

const FOLDER = "../../static/vendor/codemirror";
const { metafile } = buildSync({
  entryPoints: ["entry.js"],
  outfile: `${FOLDER}/codemirror.js`,
  bundle: true,
  minify: true,
  metafile: true,
  format: "iife",
  globalName: "CodeMirror",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "/*! CodeMirror 6: MIT licence, see LICENSE.txt. Built by scripts/editor. */" },
});

const folders = Object.keys(metafile.inputs).map((path) => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
const versions = new Map(); // licence text: the packages under it
for (const folder of [...new Set(folders.filter(Boolean))].sort()) {
  const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const licence = readFileSync(`${folder}/LICENSE`, "utf8").trim();
  versions.set(licence, [...(versions.get(licence) ?? []), `${name} ${version}`]);
}
const parts = Array.from(versions, ([licence, packages]) => `${packages.join("\n")}\n\n${licence}\n`);
writeFileSync(`${FOLDER}/LICENSE.txt`, parts.join(`\n${"-".repeat(80)}\n\n`));
