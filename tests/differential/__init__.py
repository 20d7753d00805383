"""One random script against several servers: Mainstem, the Node reference server, and the server in Rust."""
