// The list of subscriptions, in the order of their ids.

import { add, badge, button, element, untrusted } from "../dom.js";
import { formatAge, formatCount, formatSpan, formatTime, plainText } from "../formats.js";
import { beginning, pageHead, subscriptionHref } from "../page.js";
import { showList } from "../paged_list.js";

export async function mount(context) {
  add(
    context.main,
    pageHead("Subscriptions", { about: "The server wakes a worker when a stream has new data, until the worker acknowledges it.", actions: [button("Refresh", () => list.restart())] }),
  );
  const list = showList(context, {
    label: "Subscriptions",
    path: "/v1/subscriptions",
    name: "subscriptions",
    noun: "subscription",
    columns: COLUMNS,
    rowClass: ({ status }) => (status === "failed" ? "failed" : ""),
    href: ({ subscription_id: id }) => subscriptionHref(id),
    example: "billing",
    empty: () =>
      beginning(
        "No subscriptions yet",
        "A subscription calls a webhook, or writes to a wake stream, whenever one of its streams has new data.",
        "mainstem subscription create billing --url {url} --pattern 'orders/**' --webhook https://example.com/wake",
      ),
  });
}

const COLUMNS = [
  {
    label: "Id",
    class: "col-path",
    cell: ({ subscription_id: id }) => element("a", { href: subscriptionHref(id), tabindex: -1, title: plainText(id) }, untrusted(id)),
  },
  { label: "Status", class: "col-status", cell: (subscription) => statusBadge(subscription) },
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
