// One subscription: its wake, lease, retries and latest error, how far each stream was acknowledged, and commands.

import { getJson } from "../api.js";
import { notify } from "../dialogs.js";
import { add, badge, button, element, facts, notice, replace, untrusted } from "../dom.js";
import { formatAge, formatBytes, formatCount, formatTime, plainText } from "../formats.js";
import { pageHead, panel, repeat, streamHref } from "../page.js";
import { VirtualTable } from "../table.js";
import { pauseSubscription, redeliver, resumeSubscription, subscriptionPath } from "./subscription_commands.js";
import { describeLease, describeRetries, statusBadge } from "./subscriptions.js";

const REFRESH_MS = 3000;

export async function mount({ main, params, signal, setTitle, shortcut }) {
  const [id] = params;
  setTitle(plainText(id));
  let subscription = await getJson(subscriptionPath(id), {}, signal);
  let deleted = false;
  const badges = element("span", { class: "row" });
  const about = element("div", {});
  const failure = element("div", {});
  const status = element("p", { class: "muted", role: "status" });
  const table = new VirtualTable({ label: `Streams of ${plainText(id)}`, columns: COLUMNS, onOpen: (stream) => (location.hash = streamHref(stream.path)) });
  const none = notice("No streams yet", "No existing stream matches the pattern. A stream that does is linked as soon as it is created.");
  const run = (command) => () => command().then((done) => done && refresh());
  const buttons = {
    pause: button("Pause", run(() => pauseSubscription(id)), { icon: "pause" }),
    resume: button("Resume", run(() => resumeSubscription(id)), { icon: "play", kind: "primary" }),
    redeliver: button("Redeliver", run(() => redeliver(id, subscription.streams)), { icon: "up" }),
  };

  async function refresh() {
    if (deleted) return;
    try {
      subscription = await getJson(subscriptionPath(id), {}, signal);
    } catch (error) {
      if (error.status !== 404) throw error;
      deleted = true;
    }
    draw();
  }

  function draw() {
    buttons.pause.hidden = deleted || subscription.paused;
    buttons.resume.hidden = deleted || !subscription.paused;
    buttons.redeliver.hidden = deleted;
    replace(badges, deleted ? badge("deleted", "bad") : statusBadge(subscription), badge(subscription.type));
    replace(about, facts(describeFacts(subscription)));
    const error = subscription.last_error;
    replace(failure, error && panel("Last error", element("p", { class: "problem" }, untrusted(error.reason)), element("p", { class: "muted" }, `${formatTime(error.at)}, ${formatAge(error.at)} ago`)));
    const { streams } = subscription;
    table.setItems(streams);
    table.element.hidden = !streams.length;
    none.hidden = streams.length > 0;
    const text = describeStreams(subscription);
    if (status.textContent !== text) status.textContent = text;
  }

  add(
    main,
    pageHead(untrusted(id), { above: element("p", { class: "crumbs" }, element("a", { href: "#/subscriptions" }, "Subscriptions")), about: badges, actions: [buttons.pause, buttons.resume, buttons.redeliver] }),
    panel("About", about),
    failure,
    element("div", {}, element("h2", {}, "Streams"), status),
    element("div", { class: "boxed cursors" }, table.element, none),
  );
  draw();
  shortcut("p", "Pause or resume the subscription", () => (subscription.paused ? buttons.resume : buttons.pause).click());
  await repeat(() => refresh().catch((error) => signal.aborted || notify(error.message, "bad")), REFRESH_MS, signal);
}

function describeFacts(subscription) {
  const { webhook_url: url, wake_stream: wakes, pattern, owner, unacknowledged_since: since } = subscription;
  return [
    ["Pattern", pattern === null ? null : element("code", {}, untrusted(pattern))],
    ["Webhook", url === null ? null : untrusted(url)],
    ["Wake stream", wakes === null ? null : element("a", { href: streamHref(wakes) }, untrusted(wakes))],
    ["Created", formatTime(subscription.created_at)],
    ["Owner", owner === null ? null : untrusted(owner)],
    ["Wakes so far", formatCount(subscription.generation)],
    ["Current wake", subscription.wake_id === null ? "none" : element("code", {}, untrusted(subscription.wake_id))],
    ["Lease", describeLease(subscription)],
    ["Unacknowledged since", since ? `${formatTime(since)}, ${formatAge(since)} ago` : "everything is acknowledged"],
    ["Failed calls in a row", subscription.attempts ? describeRetries(subscription) : null],
  ];
}

function describeStreams({ streams, streams_truncated: truncated }) {
  const behind = streams.filter((stream) => stream.lag_bytes > 0);
  const lag = behind.reduce((total, stream) => total + stream.lag_bytes, 0);
  const count = `${formatCount(streams.length)} stream${streams.length === 1 ? "" : "s"}${truncated ? " of more; those with new data are shown first" : ""}`;
  if (!streams.length) return "";
  return behind.length ? `${count}; ${formatCount(behind.length)} with new data, ${formatBytes(lag)} in all` : `${count}; all are acknowledged`;
}

const COLUMNS = [
  { label: "Stream", class: "col-path", cell: ({ path }) => element("a", { href: streamHref(path), tabindex: -1, title: plainText(path) }, untrusted(path)) },
  { label: "Link", class: "col-state wide", cell: ({ type }) => type },
  { label: "Acknowledged up to", class: "col-cursor wide", cell: ({ acked_offset: offset }) => offsetText(offset) },
  { label: "End", class: "col-cursor wide", cell: ({ next_offset: offset }) => (offset === null ? element("span", { class: "muted" }, "does not exist") : offsetText(offset)) },
  { label: "Lag", class: "col-size number", cell: ({ lag_bytes: lag }) => (lag ? formatBytes(lag) : element("span", { class: "muted" }, "–")) },
];

/** Return an offset without the zeros that only make all offsets equally long; the whole one is its title. */
function offsetText(offset) {
  return element("code", { title: offset }, offset.replace(/(^|_)0+(?=\d)/g, "$1"));
}
