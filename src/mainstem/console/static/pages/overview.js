// What the server does now, and did in the last minutes.

import { ApiError, getJson, request } from "../api.js";
import { LineChart } from "../charts.js";
import { add, badge, element, notice, replace, untrusted } from "../dom.js";
import { formatAge, formatBytes, formatCount, formatSeconds, formatShort, formatSpan } from "../formats.js";
import { quantile, rate, Scrape } from "../metrics.js";
import { pageHead, panel, repeat } from "../page.js";
import * as session from "../session.js";

const EVERY_MS = 2000;
const SPAN_MS = 5 * 60_000;
const JOBS_EVERY_MS = 10_000;
const WINDOW = 5;
/** Rates and quantiles are those of the last five scrapes: ten seconds. */

export async function mount({ main, signal }) {
  const facts = element("dl", { class: "tiles" });
  const charts = element("div", { class: "charts" });
  const jobs = element("div", {});
  const note = element("div", {});
  add(main, pageHead("Overview", { about: "This server, as it counts itself. The charts begin when you open this page." }), note, facts, charts, jobs);
  const drawn = makeCharts();
  const scrapes = [];

  const scrape = async () => {
    let text;
    try {
      text = await (await request("GET", "/metrics", { signal })).text();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      replace(note, notice("Metrics are not available", error.message));
      replace(facts, drawTile("Head of the log", await readHead(signal)));
      replace(charts);
      return;
    }
    replace(note);
    if (!charts.childElementCount) add(charts, drawn.map(({ chart }) => chart.element));
    const now = new Scrape(text);
    const restarted = scrapes.length && now.sum("process_start_time_seconds") !== scrapes.at(-1).sum("process_start_time_seconds");
    if (restarted) scrapes.length = 0;
    scrapes.push(now);
    if (scrapes.length > WINDOW + 1) scrapes.shift();
    const before = scrapes.length > 1 ? scrapes[0] : null;
    replace(facts, describeServer(now, before));
    for (const { chart, read } of drawn) chart.add(now.at, read(now, scrapes.at(-2) ?? null, before));
  };

  if (session.isAdmin()) repeat(() => showJobs(jobs, signal), JOBS_EVERY_MS, signal);
  if (session.mayReadMetrics()) await repeat(scrape, EVERY_MS, signal);
  else {
    replace(note, notice("This token shows no metrics", "The overview needs a token with the admin or the metrics claim. Streams shows what this token may read."));
    replace(facts, drawTile("Head of the log", await readHead(signal)));
  }
}

async function readHead(signal) {
  return formatCount((await getJson("/readyz", {}, signal)).head);
}

// Tiles

function drawTile(label, value, note = "", kind = "") {
  return element("div", { class: `tile ${kind}` }, element("dt", {}, label), element("dd", {}, value), element("small", {}, note));
}

function describeServer(now, before) {
  const readers = now.list("mainstem_live_readers").filter(({ value }) => value > 0);
  const disk = now.list("mainstem_store_bytes").filter(({ labels }) => labels.part !== "reserve");
  const refuses = now.list("mainstem_store_refuses_writes").filter(({ value }) => value > 0);
  const started = now.sum("process_start_time_seconds");
  const behind = now.sum("mainstem_subscriptions_behind");
  const free = now.has("mainstem_store_disk_free_bytes") ? `${formatBytes(now.sum("mainstem_store_disk_free_bytes"))} free` : "";
  return [
    drawTile("Head of the log", formatCount(now.sum("mainstem_log_head")), `${formatShort(rate(before, now, "mainstem_log_head"))} records/s`),
    drawTile("Writes", refuses.length ? "refused" : "accepted", refuses.length ? `the store is ${refuses[0].labels.reason}` : `${formatCount(now.sum("mainstem_log_queue_commands"))} waiting`, refuses.length ? "bad" : ""),
    drawTile("Commit, p99", formatSeconds(quantile(before, now, "mainstem_log_commit_duration_seconds", 0.99)), `p50 ${formatSeconds(quantile(before, now, "mainstem_log_commit_duration_seconds", 0.5))}`),
    drawTile("Live readers", formatCount(now.sum("mainstem_live_readers")), readers.map(({ labels, value }) => `${value} ${labels.kind}`).join(", ")),
    drawTile("Sync sessions", formatCount(now.sum("mainstem_sync_sessions")), `${formatBytes(now.sum("mainstem_sync_outbox_bytes"))} to send`),
    drawTile("Subscriptions behind", formatCount(behind), describeWakes(now), behind > 0 && now.sum("mainstem_subscription_oldest_wake_seconds") > 60 ? "bad" : ""),
    drawTile("Disk", formatBytes(disk.reduce((total, { value }) => total + value, 0)), free),
    drawTile("Memory", formatBytes(now.sum("process_resident_memory_bytes")), `${formatShort(100 * (rate(before, now, "process_cpu_seconds_total") ?? 0))} % CPU`),
    drawTile("Errors", formatShort(rate(before, now, "mainstem_http_requests_total", isFailure)), "5xx replies per second"),
    drawTile("Running for", started === null ? "–" : formatSpan(Date.now() / 1000 - started), `version ${session.config.version}`),
  ];
}

function describeWakes(now) {
  const oldest = now.sum("mainstem_subscription_oldest_wake_seconds");
  const lag = now.sum("mainstem_subscription_lag_bytes");
  if (oldest) return `${formatBytes(lag)}; the oldest wake is ${formatSpan(oldest)} old`;
  return lag ? formatBytes(lag) : `of ${formatCount(now.sum("mainstem_subscriptions"))}`;
}

// Charts

const isFailure = (labels) => Number(labels.status) >= 500;
const ofStreams = (method) => (labels) => labels.method === method && labels.route === `${session.config.stream_prefix}/{path}`;
const isCall = (labels) => !labels.route.includes("?live=") && !labels.route.startsWith("/v1/sync");

function makeCharts() {
  const chart = (title, series, format) => new LineChart({ title, series, format, spanMs: SPAN_MS });
  return [
    {
      chart: chart("Appends and commits per second", ["appends", "records", "commits"], formatShort),
      read: (now, last) => [rate(last, now, "mainstem_http_requests_total", ofStreams("POST")), rate(last, now, "mainstem_log_records_total"), rate(last, now, "mainstem_log_commits_total")],
    },
    {
      chart: chart("Reads per second", ["reads", "live frames", "rows of the log"], formatShort),
      read: (now, last) => [rate(last, now, "mainstem_http_requests_total", ofStreams("GET")), rate(last, now, "mainstem_live_frames_total"), rate(last, now, "mainstem_export_rows_total")],
    },
    {
      chart: chart("Requests: duration", ["p50", "p99"], formatSeconds),
      read: (now, _, before) => [0.5, 0.99].map((share) => quantile(before, now, "mainstem_http_request_duration_seconds", share, isCall)),
    },
    {
      chart: chart("Commits: duration", ["p50", "p99", "sync p99"], formatSeconds),
      read: (now, _, before) => [
        quantile(before, now, "mainstem_log_commit_duration_seconds", 0.5),
        quantile(before, now, "mainstem_log_commit_duration_seconds", 0.99),
        quantile(before, now, "mainstem_store_sync_duration_seconds", 0.99),
      ],
    },
    {
      chart: chart("Bytes per second", ["committed", "sent to live readers", "all replies"], formatBytes),
      read: (now, last) => [rate(last, now, "mainstem_log_record_bytes_total"), rate(last, now, "mainstem_live_bytes_total"), rate(last, now, "mainstem_http_response_bytes_total")],
    },
    {
      chart: chart("Connected", ["live readers", "sync sessions", "connections"], formatShort),
      read: (now) => [now.sum("mainstem_live_readers"), now.sum("mainstem_sync_sessions"), now.sum("mainstem_http_connections")],
    },
  ];
}

// Jobs

async function showJobs(box, signal) {
  let jobs;
  try {
    ({ jobs } = await getJson("/v1/jobs", {}, signal));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    replace(box, panel("Last jobs", element("p", { class: "muted" }, error.message)));
    return;
  }
  if (!jobs.length) {
    replace(box, panel("Last jobs", element("p", { class: "muted" }, "No job of the pipeline has reported a round yet.")));
    return;
  }
  const cells = (job) => [
    element("td", {}, untrusted(job.name), " ", element("span", { class: "muted" }, untrusted(job.job))),
    element("td", {}, job.error ? badge("failed", "bad") : job.faults ? badge(`${job.faults} faults`, "warn") : badge("fine", "good")),
    element("td", { class: "number" }, formatCount(job.rows)),
    element("td", { class: "number wide" }, formatSeconds(job.duration_s)),
    element("td", { class: "number" }, formatCount(job.lag)),
    element("td", { class: "number wide" }, `${formatAge(job.reported_at)} ago`),
  ];
  const heads = [["Job", ""], ["Last round", ""], ["Rows", "number"], ["Duration", "number wide"], ["Lag", "number"], ["Reported", "number wide"]];
  replace(
    box,
    panel(
      "Last jobs",
      element("table", { class: "plain" }, element("thead", {}, element("tr", {}, heads.map(([label, kind]) => element("th", { scope: "col", class: kind }, label)))), element("tbody", {}, jobs.map((job) => element("tr", {}, cells(job))))),
    ),
  );
}
