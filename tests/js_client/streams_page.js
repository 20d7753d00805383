// What a page does with the official client of Durable Streams. The test calls these functions in the browser.
import { DurableStream, FetchError, stream } from "@durable-streams/client";

/** Create a stream, append to it, and read it from the start and from an offset. */
export async function catchUp(url, headers) {
  const handle = await DurableStream.create({ url, headers, contentType: "application/json" });
  await handle.append(JSON.stringify({ n: 1 }));
  await handle.append(JSON.stringify({ n: 2 }));
  const read = await stream({ url, headers, live: false });
  const before = await read.json();
  await handle.append(JSON.stringify({ n: 3 }));
  const resumed = await stream({ url, headers, offset: read.offset, live: false });
  return { before, after: await resumed.json() };
}

/** Follow a stream, which shows each message, until it is closed. */
export async function follow(url, live, show) {
  const response = await stream({ url, offset: "-1", live, json: true });
  for await (const message of response.jsonStream()) show(message);
}

export const append = (url, value) => new DurableStream({ url, contentType: "application/json" }).append(JSON.stringify(value));
export const close = (url) => new DurableStream({ url }).close();

/** Return the status with which the server refuses a read. */
export const refusal = (url, headers) =>
  stream({ url, headers, live: false }).then(
    () => null,
    (error) => (error instanceof FetchError ? error.status : `${error}`),
  );
