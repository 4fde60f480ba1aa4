//! Node's own tests and web-platform-tests beside the machine's Node, fetched once and kept outside the tree.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::workspace;

/// The suites that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// Node's own `test/parallel`.
    Node,
    /// web-platform-tests, of Node's copy.
    Web,
}

impl Suite {
    /// Where the copy is below Node's source, the variable that tells the test so, and the test's name.
    const fn of(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Node => ("test/parallel", "DORMOUSE_NODE_TESTS", "nodes_own_tests"),
            Self::Web => ("test/fixtures/wpt", "DORMOUSE_WPT", "web_platform_tests"),
        }
    }
}

/// Flags of `suites`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this suite.
    suite: Option<Suite>,
    /// Only the files in whose name this text is.
    #[arg(long)]
    only: Option<String>,
}

/// Fetches the copy and runs the tests, which fail on what `conformance/expected.toml` does not list.
pub fn run(args: &Args) -> Result<()> {
    let setup = workspace::root().join("conformance/suites/setup.sh");
    let source = PathBuf::from(workspace::output(&mut Command::new(setup))?.trim_end());
    let mut command = workspace::cargo();
    command.args(["test", "--release", "--workspace", "--test", "suites", "--", "--nocapture", "--test-threads", "1"]);
    for suite in [Suite::Node, Suite::Web].into_iter().filter(|suite| args.suite.is_none_or(|one| one == *suite)) {
        let (folder, variable, test) = suite.of();
        command.env(variable, source.join(folder)).arg(test);
    }
    if let Some(only) = &args.only {
        command.env("ONLY", only);
    }
    workspace::run(&mut command)
}
