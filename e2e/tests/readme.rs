//! The README shows the files that it talks about, and its tour works as it stands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use dormouse_e2e::cluster::root;

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The fenced blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    let text = readme();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_examples_are_shown_byte_for_byte() {
    let shown = blocks("yaml");
    for name in ["session.yaml", "toolbroker.yaml"] {
        let file = std::fs::read_to_string(root().join("examples").join(name)).unwrap();
        assert!(shown.contains(&file), "README.md does not show examples/{name} as it is");
    }
}

#[test]
fn every_link_leads_to_a_file() {
    let text = readme();
    let targets: Vec<&str> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(targets.len() >= 3, "{targets:?}");
    for target in targets {
        let target = target.split('#').next().unwrap_or(target);
        assert!(root().join(target).exists(), "README.md links to {target}, which is not there");
    }
}

/// The dormouse binary of this build.
fn dormouse() -> PathBuf {
    // target/release/deps/readme-… → target/release/dormouse
    let exe = std::env::current_exe().unwrap();
    let path = exe.ancestors().nth(2).unwrap().join("dormouse");
    assert!(path.is_file(), "{} is not there: `cargo build --release --workspace --bins` makes it", path.display());
    path
}

/// The curl tour, run by a shell against `dormouse dev`, word for word but for the port.
#[test]
fn the_tour_works_as_it_stands() {
    let data = tempfile::tempdir().unwrap();
    let port = dormouse_testkit::process::free_port().unwrap();
    let mut command = std::process::Command::new(dormouse());
    command.args(["dev", "--listen", &format!("127.0.0.1:{port}"), "--data"]).arg(data.path().join("store"));
    let mut server = dormouse_testkit::process::Process::start(command, &data.path().join("log")).unwrap();
    let tour = blocks("sh").into_iter().find(|block| block.contains("curl")).unwrap();
    // Retries until the server listens; nothing else is added.
    let script = format!(
        "set -eu\ncurl -sf --retry 60 --retry-connrefused --retry-delay 1 -o /dev/null http://127.0.0.1:{port}/v1/namespaces/default/sessions\n{}",
        tour.replace("7777", &port.to_string()).replace("curl -s ", "echo; curl -s ")
    );
    let output = run_shell(&script, data.path());
    assert!(server.is_alive(), "{}", server.output());
    let answers: Vec<serde_json::Value> =
        output.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(answers.len() >= 4, "{output}\n{}", server.output());
    assert_eq!(answers[0]["name"], "tour", "{output}");
    assert_eq!(answers[1]["value"], 1, "{output}");
    assert_eq!(answers[2]["state"], "Hibernated", "{output}");
    assert_eq!(answers[3]["value"], 2, "{output}");
    assert_ne!(answers[3]["stats"]["woke"], "no", "{output}");
}

fn run_shell(script: &str, folder: &Path) -> String {
    let output = std::process::Command::new("bash").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
