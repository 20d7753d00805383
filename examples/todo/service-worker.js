// Answers from the network, and from the copies that offline.js made if there is no network.

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(answer(event.request));
});

async function answer(request) {
  try {
    return await fetch(request);
  } catch (error) {
    const kept = await caches.match(request, { ignoreSearch: request.mode === "navigate", ignoreVary: true });
    if (kept) return kept;
    throw error;
  }
}
