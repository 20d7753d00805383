// The list of subscriptions, in the order of their ids: pages are loaded as one scrolls.

import { add, badge, button, element, field, notice, replace, untrusted } from "../dom.js";
import { formatAge, formatCount, formatSpan, formatTime, plainText } from "../formats.js";
import { beginning, pageHead, repeat, subscriptionHref } from "../page.js";
import { PagedList } from "../paged_list.js";
import { VirtualTable } from "../table.js";

const TYPING_MS = 250;
const REFRESH_MS = 3000;

export async function mount({ main, query, signal, setQuery }) {
  const prefix = element("input", { type: "search", value: query.get("prefix") ?? "", placeholder: "billing", spellcheck: "false", autocapitalize: "off" });
  const status = element("p", { class: "muted list-status", role: "status" });
  const table = new VirtualTable({
    label: "Subscriptions",
    columns: COLUMNS,
    onOpen: (subscription) => (location.hash = subscriptionHref(subscription.subscription_id)),
    onNearEnd: () => list?.more(),
    rowClass: (subscription) => (subscription.status === "failed" ? "failed" : ""),
  });
  const empty = element("div", { hidden: true });
  let list = null;
  add(
    main,
    pageHead("Subscriptions", { about: "Durable interest in streams: the server wakes a worker when a stream has new data, until the worker acknowledges it.", actions: [button("Refresh", () => restart())] }),
    element("form", { class: "filters", role: "search", onsubmit: (event) => (event.preventDefault(), restart()) }, field("Begins with", prefix)),
    status,
    element("div", { class: "boxed fill" }, table.element, empty),
  );

  function refill() {
    table.setItems(list.items, { complete: list.complete });
    if (status.textContent !== list.describe()) status.textContent = list.describe();
    const none = list.complete && !list.items.length;
    table.element.hidden = none;
    if (none && empty.hidden) {
      replace(
        empty,
        list.query.prefix
          ? notice("No subscription matches", "Try a shorter id, or clear the filter.")
          : beginning("No subscriptions yet", "A subscription calls a webhook, or writes to a wake stream, whenever one of its streams has new data.", "mainstem subscription create billing --url {url} --pattern 'orders/**' --webhook https://example.com/wake"),
      );
    }
    empty.hidden = !none;
  }

  function restart() {
    setQuery({ prefix: prefix.value });
    list?.stop();
    list = new PagedList({ path: "/v1/subscriptions", name: "subscriptions", noun: "subscription", query: { prefix: prefix.value }, signal, onChange: refill });
    table.element.scrollTop = 0;
    table.focused = 0;
    empty.hidden = true;
    refill();
    return list.more();
  }

  let typing = 0;
  prefix.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(restart, TYPING_MS);
  });
  await restart();
  await repeat(() => list.refresh(), REFRESH_MS, signal);
}

const COLUMNS = [
  {
    label: "Id",
    class: "col-path",
    cell: ({ subscription_id: id }) => element("a", { href: subscriptionHref(id), tabindex: -1, title: plainText(id) }, untrusted(id)),
  },
  { label: "Status", class: "col-status", cell: (subscription) => statusBadge(subscription) },
  { label: "Kind", class: "col-messages wide", cell: ({ type }) => type },
  { label: "Streams", class: "col-pattern wide", cell: ({ pattern }) => (pattern === null ? element("span", { class: "muted" }, "linked one by one") : element("code", { title: plainText(pattern) }, untrusted(pattern))) },
  { label: "Behind for", class: "col-behind number", cell: (subscription) => describeLag(subscription) },
  { label: "Lease", class: "col-lease wide", cell: (subscription) => describeLease(subscription) },
  { label: "Retries, last error", class: "col-error wide", cell: (subscription) => describeFailure(subscription) },
];

/** Return the state of a subscription as a label. */
export function statusBadge({ status }) {
  return badge(status, { active: "good", failed: "bad", paused: "warn" }[status] ?? "");
}

/** Return for how long the worker has owed an acknowledgement. */
function describeLag({ unacknowledged_since: since }) {
  return since ? element("span", { title: `Waits for an acknowledgement since ${formatTime(since)}` }, formatAge(since)) : element("span", { class: "muted" }, "–");
}

/** Return who works on the current wake, and for how long that lasts. */
export function describeLease({ wake_id: wake, holder, lease_until: until }) {
  if (wake === null) return element("span", { class: "muted" }, "idle");
  const left = until === null ? null : (new Date(until).getTime() - Date.now()) / 1000;
  const time = left === null ? null : left > 0 ? `${formatSpan(left)} left` : "expired";
  return [holder === null ? "woken" : untrusted(holder), time && element("span", { class: "muted" }, `, ${time}`)];
}

function describeFailure(subscription) {
  const { last_error: error, attempts } = subscription;
  if (error === null) return element("span", { class: "muted" }, "–");
  return element("span", { title: `${formatTime(error.at)}: ${plainText(error.reason)}` }, attempts ? [describeRetries(subscription), ": "] : null, untrusted(error.reason));
}

/** Return how often the current wake has failed, and when it is tried again. */
export function describeRetries({ attempts, next_attempt_at: next }) {
  const left = next === null ? 0 : (new Date(next).getTime() - Date.now()) / 1000;
  return [`${formatCount(attempts)} failed`, left > 0 ? element("span", { class: "muted" }, `, next in ${formatSpan(left)}`) : null];
}
