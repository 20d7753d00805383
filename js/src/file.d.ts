// The store in a file, for Node.js: import { fileStore } from "mainstem-client/file".

import type { Store } from "./mainstem.js";

/** A store in a file. One client at a time can use it; `path.lock` says which. */
export function fileStore(path: string): Store;
