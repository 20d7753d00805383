// The text of /metrics: parsing, sums, rates and quantiles.

const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

/** One scrape: the samples by name, each with its labels and its value, and when it was taken. */
export class Scrape {
  constructor(text, at = Date.now()) {
    this.at = at;
    this.samples = new Map();
    for (const line of text.split("\n")) {
      if (line.startsWith("# TYPE ")) this.samples.set(line.split(" ")[2], []); // it exists, even if nothing was counted
      if (!line || line.startsWith("#")) continue;
      const brace = line.indexOf("{");
      const space = brace < 0 ? line.indexOf(" ") : line.lastIndexOf("}") + 1;
      if (space <= 0) continue;
      const name = line.slice(0, brace < 0 ? space : brace);
      const labels = {};
      if (brace >= 0) for (const [, key, value] of line.slice(brace + 1, space - 1).matchAll(LABEL)) labels[key] = value;
      const value = Number(line.slice(space).trim().split(" ")[0].replace("+Inf", "Infinity"));
      if (!this.samples.has(name)) this.samples.set(name, []);
      this.samples.get(name).push({ labels, value });
    }
  }

  has(name) {
    return this.samples.has(name);
  }

  /** The sum of all samples whose labels pass `keep`; null if the metric does not exist. */
  sum(name, keep = () => true) {
    const found = this.samples.get(name);
    return found === undefined ? null : found.reduce((total, { labels, value }) => (keep(labels) ? total + value : total), 0);
  }

  /** The samples as `[{labels, value}]`. */
  list(name) {
    return this.samples.get(name) ?? [];
  }

  /** The buckets of a histogram, summed: `[[upper bound, count]]`, where a count includes the smaller ones. */
  buckets(name, keep = () => true) {
    const counts = new Map();
    for (const { labels, value } of this.list(`${name}_bucket`)) {
      const bound = Number(labels.le.replace("+Inf", "Infinity"));
      if (keep(labels)) counts.set(bound, (counts.get(bound) ?? 0) + value);
    }
    return [...counts].sort(([a], [b]) => a - b);
  }
}

/** How much a counter grew per second between two scrapes; null if that is unknown, for instance after a restart. */
export function rate(before, now, name, keep) {
  if (!before || now.at <= before.at) return null;
  const from = before.sum(name, keep);
  const to = now.sum(name, keep);
  return from === null || to === null || to < from ? null : ((to - from) * 1000) / (now.at - before.at);
}

/** A quantile of what a histogram counted between two scrapes, interpolated within its bucket; null without any. */
export function quantile(before, now, name, share, keep) {
  if (!before) return null;
  const earlier = new Map(before.buckets(name, keep));
  const buckets = now.buckets(name, keep).map(([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)]);
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const wanted = share * total;
  let [lower, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= wanted) return bound === Infinity ? lower : lower + ((bound - lower) * (wanted - below)) / Math.max(1, count - below);
    [lower, below] = [bound, count];
  }
  return lower;
}
