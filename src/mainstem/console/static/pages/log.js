import { pageHead } from "../page.js";
import { add, notice } from "../dom.js";

export async function mount({ main }) {
  add(main, pageHead("…"), notice("Not there yet", "This page is being written."));
}
