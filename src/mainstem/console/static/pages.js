// The table of pages, in the order of the navigation. See app.js for what a row means.

import * as session from "./session.js";

const ADMIN = "a token with the admin claim";

export const PAGES = [
  { id: "overview", path: "", label: "Overview", icon: "chart", key: "o", load: () => import("./pages/overview.js"), allowed: () => true },
  { id: "streams", path: "streams", label: "Streams", icon: "list", key: "s", load: () => import("./pages/streams.js"), allowed: () => true },
  { id: "stream", path: "stream", parent: "streams", label: "Stream", load: () => import("./pages/stream.js"), allowed: () => true },
  { id: "partitions", path: "partitions", label: "Partitions", icon: "grid", key: "p", load: () => import("./pages/partitions.js"), allowed: session.mayUsePartitions, needs: "a token that allows partitions" },
  { id: "partition", path: "partition", parent: "partitions", label: "Partition", load: () => import("./pages/partition.js"), allowed: session.mayUsePartitions, needs: "a token that allows partitions" },
  { id: "log", path: "log", label: "Log", icon: "log", key: "l", load: () => import("./pages/log.js"), allowed: session.isAdmin, needs: ADMIN },
  { id: "subscriptions", path: "subscriptions", label: "Subscriptions", icon: "bell", key: "u", load: () => import("./pages/subscriptions.js"), allowed: session.isAdmin, needs: ADMIN },
  { id: "subscription", path: "subscription", parent: "subscriptions", label: "Subscription", load: () => import("./pages/subscription.js"), allowed: session.isAdmin, needs: ADMIN },
  { id: "sessions", path: "sessions", label: "Sessions", icon: "users", key: "e", load: () => import("./pages/sessions.js"), allowed: session.isAdmin, needs: ADMIN },
  { id: "pipeline", path: "pipeline", label: "Pipeline", icon: "flow", key: "j", load: () => import("./pages/pipeline.js"), allowed: session.isAdmin, needs: ADMIN },
];
