// Submits numbers from a store in a file: node submit_numbers.mjs URL FILE FIRST COUNT. It prints a line per commit.

import { OfflineClient } from "../../js/src/mainstem.js";
import { fileStore } from "../../js/src/file.js";

const [url, file, first, count] = process.argv.slice(2);
try {
  const client = new OfflineClient(url, { clientId: "node", partitions: ["numbers"], store: fileStore(file) });
  client.onChange((change) => {
    for (const [id, committedId] of change.drafts ?? []) console.log(JSON.stringify({ id, committedId }));
  });
  await client.open();
  console.log(JSON.stringify({ waiting: client.waiting }));
  const numbers = Array.from({ length: Number(count) }, (_, index) => Number(first) + index);
  await Promise.all(numbers.map((number) => client.submit(["numbers"], { number }, { id: `number-${number}` })));
  console.log(JSON.stringify({ drafted: numbers.length }));
  await client.synced();
  client.registerView("sum", (sum, { event }) => sum + event.number, 0);
  console.log(JSON.stringify({ sum: await client.view("sum"), cursor: client.cursor }));
  await client.close();
} catch (error) {
  console.log(JSON.stringify({ code: error.code, message: error.message }));
  process.exitCode = 1;
}
