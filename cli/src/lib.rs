//! The dormouse command: dev, repl and the client's verbs.
