//! The release before this one, from its own sources: its images, its chart and its command line, for the upgrade from it and back.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{images, workspace};

/// Name of the soak that needs it.
pub const NAME: &str = "upgrade";
/// The commit.
const COMMIT: &str = "0b3eb1a6461b9c471cbe5cd5b8958e4e7ffb622a";
/// Tag of its images.
const TAG: &str = "before";
/// Its command line.
const CLIENT: &str = "dormouse";

/// A folder with the images of both releases, and of the one before also `chart-before` and `dormouse-before`. Its sources are compiled once; that takes as
/// long as from nothing.
pub fn make() -> Result<PathBuf> {
    let home = workspace::target().join("before");
    let (checkout, target, folder) = (home.join("checkout"), home.join("target"), home.join("images"));
    if !checkout.exists() {
        let mut add = Command::new("git");
        add.arg("-C").arg(workspace::root()).args(["worktree", "add", "--force", "--detach"]).arg(&checkout).arg(COMMIT);
        workspace::run(&mut add)?;
    }
    let mut build = workspace::cargo();
    build.current_dir(&checkout).env("CARGO_TARGET_DIR", &target).args(["build", "--release", "--workspace", "--bins"]);
    workspace::run(&mut build)?;
    let release = target.join("release");
    images::pack_from(&release, &folder, &images::PROCESSES, TAG)?;
    fs::copy(release.join(CLIENT), folder.join(format!("{CLIENT}-{TAG}")))?;
    let chart = folder.join(format!("chart-{TAG}"));
    if chart.exists() {
        fs::remove_dir_all(&chart)?;
    }
    workspace::run(Command::new("cp").arg("-r").arg(checkout.join("charts/dormouse")).arg(&chart))?;
    for image in fs::read_dir(images::pack()?)? {
        let image = image?.path();
        if let Some(name) = image.file_name().filter(|_| image.extension().is_some_and(|kind| kind == "tar")) {
            let here = folder.join(name);
            if here.exists() {
                fs::remove_file(&here)?;
            }
            fs::hard_link(&image, here)?;
        }
    }
    Ok(folder)
}
