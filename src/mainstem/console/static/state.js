// A value that others watch.

export class Watched {
  #value;
  #watchers = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set(value) {
    this.#value = value;
    for (const watcher of [...this.#watchers]) watcher(value);
  }

  /** Call `watcher` with every new value until `signal` is aborted. It is not called with the present one. */
  watch(watcher, signal = null) {
    this.#watchers.add(watcher);
    signal?.addEventListener("abort", () => this.#watchers.delete(watcher), { once: true });
  }
}
