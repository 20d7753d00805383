// Who uses this console: the token, which exists only in the memory of this tab, and what it allows.

import { Watched } from "./state.js";

export const ROOT = new URL("../", document.baseURI);
/** The URL under which the server is mounted; the pages themselves are below it, in console/. */

let token = null;
let waiting = null;

/** What the page knows about the server: `{version, stream_prefix, authenticates, documentation}`. */
export const config = {};
/** The reply of /v1/whoami; null before a token is there. */
export const identity = new Watched(null);
/** Why a token is needed; null if none is: a sentence for the sign-in dialog. */
export const demand = new Watched(null);

export async function loadConfig() {
  const reply = await fetch(new URL("console/config.json", ROOT), { cache: "no-cache" });
  if (!reply.ok) throw new Error(`the server replied with ${reply.status} to config.json`);
  Object.assign(config, await reply.json());
}

export function authorization() {
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}

export function isSignedIn() {
  return token !== null;
}

/** Ask the server who we are. Returns null if it accepts us, or else the reason as a sentence. */
export async function signIn(candidate) {
  const reply = await fetch(new URL("v1/whoami", ROOT), {
    headers: candidate === null ? {} : { Authorization: `Bearer ${candidate}` },
    cache: "no-store",
  });
  const body = await reply.json().catch(() => ({}));
  if (reply.status === 401) return body.detail ?? "the server does not accept this token";
  if (!reply.ok) return body.detail ?? `the server replied with ${reply.status}`;
  token = candidate;
  identity.set(body);
  demand.set(null);
  waiting?.resolve();
  waiting = null;
  return null;
}

export function signOut() {
  token = null;
  identity.set(null);
}

/** Wait until there is a token that the server accepts; `reason` says why the present one is not enough. */
export function waitForToken(reason, signal = null) {
  if (waiting === null) {
    waiting = Promise.withResolvers?.() ?? deferred();
    demand.set(reason);
  }
  const { promise } = waiting;
  if (signal === null) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}

function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

// What may be done. The server decides; this only hides what it would refuse.

export function isAdmin() {
  return identity.value?.admin ?? false;
}

export function mayReadMetrics() {
  return isAdmin() || (identity.value?.metrics ?? false);
}

export function mayRead(path) {
  return isAdmin() || (identity.value?.streams?.read ?? []).some((glob) => matchesGlob(glob, path));
}

export function mayWrite(path) {
  return isAdmin() || (identity.value?.streams?.write ?? []).some((glob) => matchesGlob(glob, path));
}

/** Whether there is any stream that may be written, so that creating one can be offered. */
export function mayWriteSomething() {
  return isAdmin() || (identity.value?.streams?.write ?? []).length > 0;
}

export function mayUsePartition(name) {
  const mine = identity.value;
  if (mine === null) return false;
  return mine.admin || mine.partitions.includes(name) || mine.partition_prefixes.some((prefix) => name.startsWith(prefix));
}

export function mayUsePartitions() {
  const mine = identity.value;
  return mine !== null && (mine.admin || mine.partitions.length > 0 || mine.partition_prefixes.length > 0);
}

/** Whether a glob matches a path: `*` stands for any characters of a segment, `**` for any number of segments. */
export function matchesGlob(glob, path) {
  return matchSegments(glob.split("/"), path.split("/"));
}

function matchSegments(globs, segments) {
  // One pass with the set of all positions in the glob, so that no path can cause backtracking.
  const close = (positions) => {
    for (const at of positions) if (globs[at] === "**") positions.add(at + 1);
    return positions;
  };
  let positions = close(new Set([0]));
  for (const segment of segments) {
    const next = new Set();
    for (const at of positions) {
      if (globs[at] === "**") next.add(at);
      else if (at < globs.length && matchSegment(globs[at], segment)) next.add(at + 1);
    }
    positions = close(next);
  }
  return positions.has(globs.length);
}

function matchSegment(glob, segment) {
  if (!glob.includes("*")) return glob === segment;
  if (!segment) return false;
  const [first, ...rest] = glob.split("*");
  const last = rest.pop();
  if (segment.length < first.length + last.length || !segment.startsWith(first) || !segment.endsWith(last)) return false;
  let at = first.length;
  const end = segment.length - last.length;
  for (const piece of rest) {
    const found = segment.indexOf(piece, at);
    if (found < 0 || found + piece.length > end) return false;
    at = found + piece.length;
  }
  return true;
}
