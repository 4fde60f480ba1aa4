//! The page of flags in `docs/reference` is what the program parses. `UPDATE=1` writes it anew.

use clap::CommandFactory as _;
use dormouse_broker::Args;
use dormouse_testkit::reference;

#[test]
fn the_reference_of_flags_is_current() {
    reference::program_is_current(&Args::command());
}
