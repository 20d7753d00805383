// Keeps a copy of what this page consists of, so that it also opens without a network.

/** Store the page, its files and the client in the browser. service-worker.js returns them when the network is gone. */
export async function keepForOffline() {
  if (!navigator.serviceWorker) return; // browsers have it only with https and on localhost
  await navigator.serviceWorker.register("service-worker.js");
  const cache = await caches.open("todo");
  const files = performance.getEntriesByType("resource").map(({ name }) => name);
  await cache.addAll(new Set([location.href, ...files.filter((name) => name.startsWith("http"))]));
}
