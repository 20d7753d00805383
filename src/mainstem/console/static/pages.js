// The table of pages, in the order of the navigation. See app.js for what a row means.

import * as session from "./session.js";

export const PAGES = [
  { id: "overview", path: "", label: "Overview", icon: "chart", key: "o", load: () => import("./pages/overview.js"), allowed: () => true },
  { id: "streams", path: "streams", label: "Streams", icon: "list", key: "s", load: () => import("./pages/streams.js"), allowed: () => true },
  { id: "stream", path: "stream", parent: "streams", label: "Stream", load: () => import("./pages/stream.js"), allowed: () => true },
  { id: "log", path: "log", label: "Log", icon: "log", key: "l", load: () => import("./pages/log.js"), allowed: session.isAdmin, needs: "a token with the admin claim" },
];
