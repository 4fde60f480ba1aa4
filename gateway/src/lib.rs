//! The gateway: routes a session's name to its pod, authenticates, wakes.
