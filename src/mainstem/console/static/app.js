// The console: router, navigation, shortcuts, theme, state of the connection.
//
// HOW IT IS MADE
//
// Plain ES modules, without a build step and without code from elsewhere. The server sends a strict
// Content-Security-Policy: no inline code or styles, and no markup from text (Trusted Types). So build elements with
// dom.js, put widths and colours into the style sheets, and set computed sizes with `node.style.height = ...`.
//
//   app.js      this file              pages.js    the table of pages
//   session.js  token, identity, `mayRead(path)`, `mayWrite(path)`, `isAdmin()`, `mayUsePartition(name)`, `config`
//   api.js      `getJson(path, query, signal)`, `send(method, path, {json})`, `request`, `follow` (event streams),
//               `streamPath(path)`, `ApiError` (its `message` is a sentence to show)
//   dom.js      `element`, `button`, `iconButton`, `field`, `select`, `checkbox`, `badge`, `facts`, `notice`, `untrusted`
//   formats.js  bytes, counts, ages, times, hex dumps; `plainText` for titles
//   json.js     splits and prints JSON text without changing it
//   payload.js  `showPayload({json | text | bytes})`, `summarise(...)`: one message
//   table.js    `VirtualTable`: a real table that holds any number of rows
//   tail.js     `Tail`: a live list with pause, follow and a detail pane
//   paged_list.js  `showList`: a list that comes in pages, with a filter by prefix
//   stream_reader.js  reads a stream, and whatever is read like one; sync_socket.js  submits events
//   charts.js   `LineChart`     metrics.js   the text of /metrics, rates and quantiles
//   dialogs.js  `openDialog`, `confirm` (also by typing a name), `notify`, `attempt`
//   signin.js   the token dialog
//
// HOW TO ADD A PAGE
//
// 1. Write pages/<name>.js, which exports `async function mount(context)`. The context has
//      main      the element to fill (it is empty)
//      params    the rest of the address: ["orders/1"] for #/stream/orders%2F1
//      query     a URLSearchParams: #/streams?prefix=orders/
//      signal    aborted when the reader leaves the page: pass it to every request, tail and timer
//      setTitle(text)             the title of the tab; the page itself draws its <h1> (see `pageHead` in page.js)
//      setQuery({prefix: "a"})    change the address without loading the page again
//      shortcut(key, label, run)  a shortcut of this page; the ? dialog lists it
//    What it throws is shown in place of the page. An ApiError of 403 becomes a notice.
// 2. Add a row to pages.js: id, path (the first part of the address), label, icon (of dom.js), key (g, then this key,
//    opens it), load, allowed() and needs (a sentence for those who may not; the navigation hides the page from them).
//    A page with a `parent` is not in the navigation.
// 3. Text from the server is not trusted: pass names and payloads through `untrusted(text)`.
// 4. Never offer what the token does not allow: ask session.js.

import { connection, reconnect } from "./api.js";
import { notify, openDialog } from "./dialogs.js";
import { add, button, drawIcon, element, iconButton, notice, replace } from "./dom.js";
import { PAGES } from "./pages.js";
import * as session from "./session.js";
import { askForToken, watchSession } from "./signin.js";
import { cycleTheme, restoreTheme } from "./theme.js";

const main = document.getElementById("main");
const navigation = document.getElementById("navigation");
const menu = document.getElementById("menu");

let current = null;
let leaving = new AbortController();
let shortcuts = [];

// Router

function parseAddress() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [first, ...params] = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { first, params: params.filter(Boolean), query: new URLSearchParams(query) };
}

async function show() {
  const { first, params, query } = parseAddress();
  const page = PAGES.find((one) => one.path === first);
  leaving.abort(new DOMException("the page was left", "AbortError"));
  leaving = new AbortController();
  const { signal } = leaving;
  shortcuts = [];
  current = page ?? null;
  closeMenu();
  drawNavigation();
  replace(main);
  document.title = `${page?.label ?? "Not found"} · Mainstem`;
  if (!page) {
    replace(main, notice("There is no such page", "The address may be mistyped.", element("a", { class: "button", href: "#/" }, "Overview")));
    return;
  }
  if (session.identity.value !== null && !page.allowed()) {
    replace(main, notice(`${page.label} is not available`, `This page needs ${page.needs ?? "another token"}.`, button("Use another token", () => askForToken("Enter the token to use from now on"))));
    return;
  }
  const context = {
    main,
    params,
    query,
    signal,
    setTitle: (text) => signal.aborted || (document.title = `${text} · Mainstem`),
    setQuery: (values) => signal.aborted || setQuery(values),
    shortcut: (key, label, run) => signal.aborted || shortcuts.push({ key, label, run }),
  };
  try {
    const { mount } = await page.load();
    if (!signal.aborted) await mount(context);
  } catch (error) {
    if (signal.aborted) return;
    replace(main, explain(error));
    if (!error.status) throw error; // a fault of this page: the browser's console has the details
  }
}

function explain(error) {
  if (error.status === 403) return notice("This token does not allow it", error.message, button("Use another token", () => askForToken("Enter the token to use from now on")));
  if (error.status === 404) return notice("Not found", error.message);
  return notice("This page could not be shown", error.message ?? String(error), button("Try again", show));
}

function setQuery(values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  const text = query.toString();
  history.replaceState(null, "", `${location.hash.split("?")[0] || "#/"}${text ? `?${text}` : ""}`);
}

// Navigation

function drawNavigation() {
  const visible = PAGES.filter((page) => !page.parent && page.allowed());
  replace(
    navigation,
    element(
      "ul",
      {},
      visible.map((page) =>
        element("li", {}, element("a", { href: `#/${page.path}`, "aria-current": (current?.parent ?? current?.id) === page.id ? "page" : null }, drawIcon(page.icon), element("span", {}, page.label))),
      ),
    ),
    element(
      "p",
      { class: "side-foot" },
      session.config.version && element("span", {}, `Version ${session.config.version}`),
      session.config.documentation && element("a", { href: session.config.documentation, target: "_blank", rel: "noopener noreferrer" }, "Documentation"),
    ),
  );
}

function toggleMenu() {
  const open = document.body.classList.toggle("menu-open");
  menu.setAttribute("aria-expanded", String(open));
  if (open) navigation.querySelector("a")?.focus();
}

function closeMenu() {
  document.body.classList.remove("menu-open");
  menu.setAttribute("aria-expanded", "false");
}

// The connection

let ticking = 0;

function drawConnection({ online, retryAt }) {
  const box = document.getElementById("connection");
  clearTimeout(ticking);
  if (online) {
    if (box.classList.contains("offline")) notify("Connected again.");
    box.classList.remove("offline");
    replace(box);
    return;
  }
  if (!box.classList.contains("offline")) {
    box.classList.add("offline");
    // The text itself does not count down: a screen reader would read every second.
    replace(box, element("span", {}, "Reconnecting…"), element("span", { class: "seconds", "aria-hidden": "true" }), button("Now", reconnect, { kind: "small" }));
  }
  const tick = () => {
    const left = Math.ceil((retryAt - Date.now()) / 1000);
    const seconds = box.querySelector(".seconds");
    if (seconds) seconds.textContent = left > 0 ? `in ${left} s` : "";
    if (left > 0) ticking = setTimeout(tick, 500);
  };
  tick();
}

// Shortcuts

const COMMON = [
  { key: "?", label: "Show this list", run: showShortcuts },
  { key: "/", label: "Go to the search field of the page", run: () => main.querySelector("input[type=search]")?.focus() },
  { key: "t", label: "Change the theme", run: () => changeTheme() },
];
let going = 0;

function showShortcuts() {
  const rows = [...COMMON, ...shortcuts].map(({ key, label }) => [[key], label]);
  for (const page of PAGES) if (page.key && page.allowed()) rows.push([["g", page.key], `Go to ${page.label}`]);
  rows.push([["Esc"], "Close a dialog or the menu"], [["↑", "↓"], "Move in a list"], [["Enter"], "Open a row of a list"]);
  openDialog("Keyboard shortcuts", [
    element(
      "table",
      { class: "shortcuts" },
      element("tbody", {}, rows.map(([keys, label]) => element("tr", {}, element("td", {}, keys.map((key) => element("kbd", {}, key))), element("td", {}, label)))),
    ),
  ]);
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("menu-open")) {
      closeMenu();
      menu.focus();
    }
    return;
  }
  if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
  if (Date.now() - going < 1500) {
    going = 0;
    const page = PAGES.find((one) => one.key === event.key && one.allowed());
    if (page) {
      event.preventDefault();
      location.hash = `#/${page.path}`;
      return;
    }
  }
  if (event.key === "g") {
    going = Date.now();
    return;
  }
  const found = [...shortcuts, ...COMMON].find(({ key }) => key === event.key);
  if (found) {
    event.preventDefault();
    found.run();
  }
}

// Theme

const themeButton = iconButton("Theme: automatic", "auto", () => changeTheme());

function drawTheme(theme) {
  const label = { auto: "Theme: automatic", light: "Theme: light", dark: "Theme: dark" }[theme];
  themeButton.setAttribute("aria-label", label);
  themeButton.title = label;
  replace(themeButton, drawIcon({ auto: "auto", light: "sun", dark: "moon" }[theme]));
}

function changeTheme() {
  drawTheme(cycleTheme());
}

// Start

function describeClaims() {
  return JSON.stringify({ ...session.identity.value, expires_at: null });
}

async function start() {
  drawTheme(restoreTheme());
  add(menu, drawIcon("menu"));
  menu.addEventListener("click", toggleMenu);
  add(document.getElementById("actions"), themeButton, iconButton("Keyboard shortcuts", "help", showShortcuts));
  connection.watch(drawConnection);
  document.addEventListener("keydown", press);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment is the address of the page
    main.focus();
  });
  window.addEventListener("hashchange", () => show().then(() => main.focus({ preventScroll: true })));
  await session.loadConfig();
  watchSession(document.getElementById("actions"));
  const refused = await session.signIn(null);
  drawNavigation();
  if (refused !== null) {
    replace(main, notice("Sign in", "This server asks for a token. The console shows what the token allows.", button("Sign in", () => askForToken(null), { kind: "primary", icon: "key" })));
    await session.waitForToken("this server asks for a token");
  }
  let known = describeClaims();
  session.identity.watch(() => {
    drawNavigation();
    // A page is kept if a token was only renewed. With other claims, it is another page.
    const claims = describeClaims();
    if (claims !== known) show();
    known = claims;
  });
  await show();
}

start().catch((error) => {
  replace(main, notice("The console could not start", error.message ?? String(error), button("Try again", () => location.reload())));
  throw error;
});
