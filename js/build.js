// Builds the client that the server serves at /client/: npm install, then npm run build.

import { readdirSync, rmSync } from "node:fs";

import { build } from "esbuild";

const here = (path) => new URL(path, import.meta.url).pathname;
const folder = process.argv[2] ?? here("../src/mainstem/browser_client/");

for (const name of readdirSync(folder)) if (name.endsWith(".js")) rmSync(`${folder}/${name}`);
await build({
  entryPoints: [here("src/mainstem.js")],
  outdir: folder,
  bundle: true,
  splitting: true, // the store in memory is loaded only by pages without IndexedDB
  chunkNames: "[name]",
  format: "esm",
  target: "es2022",
  minify: true,
  banner: { js: "/* Mainstem's client of the sync protocol. Apache-2.0. Its source is in js/. */" },
});
