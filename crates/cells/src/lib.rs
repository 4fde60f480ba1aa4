//! TypeScript cells to scripts that the engine evaluates. Pure.
