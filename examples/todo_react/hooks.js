// The client as React hooks. There is nothing about the list in here: take it for your own app.

const { useCallback, useEffect, useState, useSyncExternalStore } = React;

/** Return the state of a view, and render again whenever it changes. It is null until the first state is known. */
export function useView(client, name, onError) {
  const [state, setState] = useState(null);
  useEffect(() => client.watch(name, (next) => setState(() => next), onError), [client, name, onError]);
  return state;
}

/** Return the status of the connection, and how many drafts are waiting. */
export function useStatus(client) {
  const subscribe = useCallback((onChange) => client.onChange(onChange), [client]);
  const status = useSyncExternalStore(subscribe, () => client.status);
  const waiting = useSyncExternalStore(subscribe, () => client.waiting);
  return [status, waiting];
}

/** Return the changes that the server refused, and a function that dismisses one. */
export function useRejections(client) {
  const [rejections, setRejections] = useState([]);
  const load = useCallback(() => client.rejections().then(setRejections), [client]);
  useEffect(() => {
    load();
    return client.onChange(({ type }) => type === "rejected" && load());
  }, [client, load]);
  return [rejections, (id) => client.dismiss(id).then(load)];
}
