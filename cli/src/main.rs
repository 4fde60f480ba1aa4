//! `dormouse`: the process is the library's.

use std::process::ExitCode;

fn main() -> ExitCode {
    dormouse::main()
}
