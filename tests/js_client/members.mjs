// Prints, as JSON, what the client exports at run time and what its declarations say: {module: {name: [member, ...]}}.
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"

const [root] = process.argv.slice(2)
const ts = createRequire(`${root}/package.json`)("typescript")
const program = ts.createProgram([`${root}/src/mainstem.d.ts`, `${root}/src/file.d.ts`], { lib: ["lib.esnext.d.ts"] })
const checker = program.getTypeChecker()

const FROM_ERROR = ["message", "stack", "name"] // every error has them

function runtimeMembers(value, made) {
  if (!value.prototype) return []
  const names = [...Object.getOwnPropertyNames(value.prototype), ...Object.getOwnPropertyNames(made)]
  return [...new Set(names)].filter((name) => name !== "constructor" && !FROM_ERROR.includes(name)).sort()
}

async function readRuntime(path) {
  globalThis.WebSocket ??= class {}
  const found = {}
  for (const [name, value] of Object.entries(await import(path))) {
    const made = name === "OfflineClient" ? new value("http://h", { clientId: "a" }) : value.prototype && new value("bad_argument", "")
    found[name] = runtimeMembers(value, made)
  }
  return found
}

function readDeclared(path) {
  const found = {}
  for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(path)))) {
    if (!(symbol.flags & ts.SymbolFlags.Value)) continue
    // Optional members exist only on some objects.
    const ignored = ts.SymbolFlags.Optional | ts.SymbolFlags.TypeParameter
    const members = [...(symbol.members ?? [])].filter(([name, { flags }]) => !String(name).startsWith("__") && !(flags & ignored))
    found[symbol.name] = members.map(([name]) => String(name)).filter((name) => !FROM_ERROR.includes(name)).sort()
  }
  return found
}

/** The codes of the union, and the words of the change type. */
function readUnion(name, member) {
  const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(`${root}/src/mainstem.d.ts`)))
  const type = checker.getDeclaredTypeOfSymbol(symbols.find((symbol) => symbol.name === name))
  return type.types.map((part) => member ? checker.getTypeOfSymbol(part.getProperty(member)).value : part.value).sort()
}

const modules = ["mainstem", "file"]
const read = async (each) => Object.fromEntries(await Promise.all(modules.map(async (name) => [name, await each(name)])))
console.log(JSON.stringify({
  runtime: await read((name) => readRuntime(`${root}/src/${name}.js`)),
  declared: await read((name) => readDeclared(`${root}/src/${name}.d.ts`)),
  codes: readUnion("ClientErrorCode"),
  changes: readUnion("Change", "type"),
}))
