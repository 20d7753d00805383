// Builds the client that the server serves at /client/: npm install, then npm run build.

import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

import { build } from "esbuild";
import { minify } from "terser";

const here = (path) => new URL(path, import.meta.url).pathname;
const folder = process.argv[2] ?? here("../src/mainstem/browser_client/");
const banner = "/* Mainstem's client of the sync protocol. Apache-2.0. Its source is in js/. */\n";

for (const name of readdirSync(folder)) if (name.endsWith(".js")) rmSync(join(folder, name));
const { outputFiles } = await build({
  entryPoints: [here("src/mainstem.js")],
  outdir: folder,
  bundle: true,
  splitting: true, // the store in memory is loaded only by pages without IndexedDB
  chunkNames: "[name]",
  format: "esm",
  target: "es2022",
  minify: true,
  write: false,
});
for (const { path, text } of outputFiles) {
  // It finds another 3 %.
  const { code } = await minify(text, { module: true, ecma: 2020, compress: { passes: 4, unsafe_arrows: true } });
  writeFileSync(join(folder, basename(path)), `${banner}${code}\n`);
}
