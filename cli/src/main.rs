//! `dormouse`: the process is the library's.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

fn main() -> ExitCode {
    dormouse::main()
}
