// The errors of the client. docs/reference/javascript-client.md lists every code, and what to do about it.

const RETRYABLE = new Set([
  "draft_queue_full",
  "client_store_full",
  "connection_lost",
  "server_silent",
  "history_behind",
  "history_mismatch",
  "protocol_fault",
  "rate_limited",
  "server_error",
]);

/** `code` is stable. `retryable` says whether the same call may succeed later. `details` has what else is known. */
export class MainstemError extends Error {
  name = "MainstemError";

  constructor(code, message, details = {}) {
    super(message);
    this.code = code;
    this.details = details;
    this.retryable = RETRYABLE.has(code);
  }
}

/** Return the error for a message that a server must not send. */
export const protocolFault = (reason) =>
  new MainstemError("protocol_fault", `the server broke the sync protocol: ${reason}`);

/** Return the error for an error message of the server. */
export const serverRefused = ({ code, message, details }) =>
  Object.assign(new MainstemError(code, `the server answered ${code}: ${message}`, details), { isFromServer: true });

export function draftRejected({ id, reason, errors }) {
  const said = errors.map(({ field, message }) => (field ? `${field}: ${message}` : message)).join("; ");
  const text = `the server rejected the draft ${id} (${reason})${said && ": "}${said}`;
  return new MainstemError("draft_rejected", text, { id, reason, errors });
}
