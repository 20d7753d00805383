// The jobs of the pipeline: the last round of each, and the history of rounds, live.

import { ApiError, getJson } from "../api.js";
import { attempt } from "../dialogs.js";
import { add, badge, button, element, facts, field, replace, select, untrusted } from "../dom.js";
import { formatAge, formatBytes, formatCount, formatSeconds, formatTime, plainText } from "../formats.js";
import { beginning, pageHead, repeat, streamHref } from "../page.js";
import { showPayload } from "../payload.js";
import { streamSource } from "../stream_reader.js";
import { Tail } from "../tail.js";

const REFRESH_MS = 5000;
const STREAM = "_mainstem/jobs";
const FIRST_ROUNDS = 500;
const EVERY = "";

export async function mount({ main, query, signal, setQuery, shortcut }) {
  const cards = element("div", { class: "cards" });
  const history = element("div", { class: "stack" });
  const empty = element("div", { class: "boxed", hidden: true });
  const known = new Map();
  const job = select([[EVERY, "All jobs"]], EVERY);
  const tail = new Tail({
    label: "Rounds of jobs",
    noun: "round",
    columns: COLUMNS,
    source: roundSource,
    detail: describeRound,
    empty: "Rounds appear here as jobs report them. Those that had nothing to do are not kept.",
    signal,
  });
  tail.element.classList.add("rounds");
  const choose = (key) => {
    job.value = key;
    setQuery({ job: key });
    tail.start({ last: FIRST_ROUNDS, key });
  };
  job.addEventListener("change", () => choose(job.value));
  add(
    history,
    element("div", { class: "page-head" }, element("div", { class: "page-title" }, element("h2", {}, "History"), element("p", { class: "muted" }, "From the stream ", element("a", { href: streamHref(STREAM) }, STREAM), ", which keeps 30 days.")), element("div", { class: "filters" }, field("Job", job))),
    tail.element,
  );
  add(main, pageHead("Pipeline", { about: "Spark jobs over the log, as they report their rounds." }), empty, cards, history);

  async function refresh() {
    const { jobs } = await getJson("/v1/jobs", {}, signal);
    const begun = known.size > 0;
    drawCards(cards, known, jobs, (key) => {
      choose(key);
      history.scrollIntoView({ block: "start" });
      job.focus({ preventScroll: true });
    });
    drawChoices(job, jobs);
    const none = !jobs.length;
    if (none && empty.hidden) replace(empty, beginning("No job has reported yet", "Pipeline jobs copy the log into a Delta table, build snapshots, prune what is archived and check the result. Each reports its rounds here. This one archives the log:", "mainstem pipeline archive ./lake --url {url}"));
    empty.hidden = !none;
    history.hidden = none;
    if (!none && !begun) choose(jobs.some((one) => keyOf(one) === query.get("job")) ? query.get("job") : EVERY);
  }

  await refresh();
  shortcut("p", "Pause or resume the live list", () => (tail.paused ? tail.resume() : tail.pause()));
  repeat(() => attempt(refresh), REFRESH_MS, signal);
}

function keyOf({ job, name }) {
  return `${job}/${name}`;
}

function drawChoices(control, jobs) {
  const wanted = jobs.map(keyOf);
  const present = [...control.options].slice(1).map((option) => option.value);
  if (wanted.join() === present.join()) return;
  const { value } = control;
  replace(control, element("option", { value: EVERY }, "All jobs"), jobs.map((one) => element("option", { value: keyOf(one) }, plainText(`${one.name} (${one.job})`))));
  control.value = wanted.includes(value) ? value : EVERY;
}

// Cards

/** Draw a card per job. Cards stay in place, so that their buttons keep the focus; `known` is a map of them. */
function drawCards(box, known, jobs, onHistory) {
  const keys = new Set(jobs.map(keyOf));
  for (const [key, card] of known) {
    if (keys.has(key)) continue;
    card.node.remove();
    known.delete(key);
  }
  for (const [index, job] of jobs.entries()) {
    const key = keyOf(job);
    if (!known.has(key)) known.set(key, makeCard(job, () => onHistory(key)));
    const card = known.get(key);
    card.fill(job);
    if (box.children[index] !== card.node) box.insertBefore(card.node, box.children[index] ?? null);
  }
}

function makeCard(job, onHistory) {
  const state = element("span", {});
  const age = element("p", { class: "muted" });
  const body = element("div", { class: "stack job-round" });
  const node = element(
    "section",
    { class: "panel job", "aria-label": plainText(`${job.name}, ${job.job}`) },
    element("div", { class: "row spread" }, element("h2", {}, untrusted(job.name), " ", badge(job.job)), state),
    age,
    body,
    element("div", { class: "row" }, button("History", onHistory, { kind: "small" })),
  );
  let drawn = null;
  const fill = (round) => {
    age.textContent = `Round ${formatCount(round.round)}, reported ${formatAge(round.reported_at)} ago`;
    age.title = formatTime(round.reported_at);
    const text = JSON.stringify(round);
    if (text === drawn) return;
    drawn = text;
    replace(state, outcome(round));
    replace(body, round.error && element("p", { class: "problem" }, untrusted(round.error)), facts(describeNumbers(round)), describeTable(round));
  };
  return { node, fill };
}

function outcome({ error, faults }) {
  if (error) return badge("failed", "bad");
  return faults ? badge(`${formatCount(faults)} fault${faults === 1 ? "" : "s"}`, "warn") : badge("fine", "good");
}

function describeNumbers(round) {
  return [
    ["Lag", round.lag ? `${formatCount(round.lag)} ids` : "none"],
    ["Rows", formatCount(round.rows)],
    ["Duration", formatSeconds(round.duration_s)],
    ["Reached the id", formatCount(round.position)],
    ["Faults", formatCount(round.faults)],
    ["Bytes", round.bytes ? formatBytes(round.bytes) : null],
  ];
}

/** Return what an archive says about its table. A report may hold anything, so only what has the right type counts. */
function describeTable({ details }) {
  const { table, version, files, bytes } = details ?? {};
  if (typeof table !== "string") return null;
  const count = (value, format) => (Number.isFinite(value) ? format(value) : null);
  return element(
    "div",
    { class: "archive-table" },
    element("h3", {}, "Table"),
    element("p", {}, element("code", {}, untrusted(table))),
    facts([
      ["Version", count(version, formatCount)],
      ["Files", count(files, formatCount)],
      ["Size", count(bytes, formatBytes)],
    ]),
  );
}

// History

/** A source for a Tail: rounds of the stream, of one job if the position has its key. */
async function roundSource({ from, signal, push, say }) {
  const { key } = from;
  const take = (items, next) => push(items.map(makeItem).filter((item) => item !== null && (key === EVERY || keyOf(item.round) === key)), { ...next, key });
  try {
    await streamSource(STREAM, "application/json")({ from, signal, say, push: take });
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 410)) throw error;
    say("The stream does not exist; the next report creates it");
  }
}

/** Return an item for a round, or null if somebody has appended something else to the stream. */
function makeItem({ json, size }) {
  const round = JSON.parse(json);
  return typeof round?.job === "string" && typeof round.name === "string" ? { json, size, round } : null;
}

const COLUMNS = [
  { label: "Reported", class: "col-time wide", cell: ({ round }) => formatTime(round.reported_at) },
  { label: "Job", class: "col-path", cell: ({ round }) => [untrusted(round.name), " ", element("span", { class: "muted" }, untrusted(round.job))] },
  { label: "Round", class: "col-state number wide", cell: ({ round }) => formatCount(round.round) },
  { label: "Result", class: "col-status", cell: ({ round }) => outcome(round) },
  { label: "Rows", class: "col-size number", cell: ({ round }) => formatCount(round.rows) },
  { label: "Duration", class: "col-size number wide", cell: ({ round }) => formatSeconds(round.duration_s) },
  { label: "Lag", class: "col-size number wide", cell: ({ round }) => formatCount(round.lag) },
  { label: "Error", class: "col-error wide", cell: ({ round }) => (typeof round.error === "string" ? untrusted(round.error) : "") },
];

function describeRound(item) {
  const { round } = item;
  return [
    typeof round.error === "string" ? element("p", { class: "problem" }, untrusted(round.error)) : null,
    facts([["Job", [untrusted(round.name), ` (${plainText(round.job)})`]], ["Round", formatCount(round.round)], ["Started", formatTime(round.started_at)], ["Reported", formatTime(round.reported_at)], ...describeNumbers(round)]),
    describeTable(round),
    showPayload(item),
  ];
}
