// A store in a file, for Node.js: import { fileStore } from "mainstem-client/file".

import { Store } from "./store.js";
import { FileBackend } from "./stores/file.js";

export const fileStore = (path) => new Store(() => new FileBackend(path));
