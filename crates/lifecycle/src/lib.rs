//! The pure decision core: session states, ownership, commit, placement. No I/O, clock or randomness.
