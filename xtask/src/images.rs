//! The four OCI images, from the release binaries, without Docker: each holds one binary, the shared libraries that it names,
//! the certificates of public authorities, and the kernel's the compiled engine. `deploy/docker` has Dockerfiles that make the
//! same for people who have Docker.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Tells tests where the images are; those that need them refuse to run without.
pub const DIR_ENV: &str = "DORMOUSE_E2E_IMAGES";
/// Packages whose binary of the same name becomes `localhost/NAME:dev`.
pub const PROCESSES: [&str; 4] = ["dormouse-operator", "dormouse-gateway", "dormouse-kernel", "dormouse-broker"];
/// What the story's product talks to, packed the same way.
const PEERS: [&str; 2] = ["widgets", "careless-store"];
/// The user that the images run as.
const USER: &str = "65532";
/// Tag of the images.
const TAG: &str = "dev";
/// glibc looks up hosts by this file; without it DNS is asked before `/etc/hosts` or not at all.
const NSSWITCH: &str = "hosts: files dns\n";
/// What runs the engine, and where in its image that lies, compiled.
const KERNEL: &str = "dormouse-kernel";
const ENGINE: &str = "/usr/lib/dormouse/engine";
/// Public certificate authorities.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds the binaries, then the images.
pub fn run() -> Result<()> {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--workspace", "--bins", "--tests"]);
    workspace::run(&mut build)?;
    let folder = pack()?;
    eprintln!("xtask: images in {}", folder.display());
    Ok(())
}

/// Packs the binaries that are in `target/release` into `target/images/*.tar`; returns that folder.
pub fn pack() -> Result<PathBuf> {
    let folder = workspace::target().join("images");
    let release = workspace::target().join("release");
    pack_from(&release, &folder, &PROCESSES, TAG)?;
    pack_from(&release, &folder, &PEERS, TAG)?;
    Ok(folder)
}

/// Packs these binaries of `release` into files in `folder`, which bear the tag, too, if it is not the usual one.
pub fn pack_from(release: &Path, folder: &Path, names: &[&str], tag: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    let nsswitch = folder.join("nsswitch.conf");
    fs::write(&nsswitch, NSSWITCH)?;
    for name in names {
        let file = if tag == TAG { format!("{name}.tar") } else { format!("{name}-{tag}.tar") };
        pack_one(&release.join(name), &folder.join(file), &format!("localhost/{name}:{tag}"), &nsswitch)?;
    }
    Ok(())
}

fn pack_one(binary: &Path, tar: &Path, name: &str, nsswitch: &Path) -> Result<()> {
    ensure!(binary.is_file(), "{} is not there: `cargo build --release --workspace --bins` makes it", binary.display());
    let file = binary.file_name().context("a binary has a name")?.to_string_lossy();
    if is_newer(tar, binary) {
        return Ok(());
    }
    let entrypoint = format!("/usr/local/bin/{file}");
    let mut command = Command::new("python3");
    command.arg(workspace::root().join("e2e/cluster/images/mkimage.py"));
    let new = tar.with_extension("new");
    command.arg(name).arg(&new).arg(&entrypoint);
    command.arg(format!("{}:{entrypoint}", binary.display()));
    command.arg(format!("{}:/etc/nsswitch.conf", nsswitch.display()));
    command.arg(format!("{CERTIFICATES}:{CERTIFICATES}"));
    for library in shared_libraries(binary)? {
        command.arg(format!("{}:{library}", fs::canonicalize(&library)?.display()));
    }
    if file == KERNEL {
        for compiled in fs::read_dir(compiled_engine(binary, &tar.with_file_name("engine"))?)? {
            let compiled = compiled?;
            command.arg(format!("{}:{ENGINE}/{}", compiled.path().display(), compiled.file_name().to_string_lossy()));
        }
        command.args(["--env", &format!("DORMOUSE_ENGINE_CACHE_DIR={ENGINE}")]);
    }
    command.args(["--user", USER]);
    workspace::output(&mut command)?;
    fs::rename(&new, tar)?;
    Ok(())
}

/// Has `folder` hold nothing but the engine of this kernel, compiled, and the key that vouches for it.
fn compiled_engine<'a>(kernel: &Path, folder: &'a Path) -> Result<&'a Path> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    workspace::run(Command::new(kernel.with_file_name("compile-engine")).arg(folder))?;
    Ok(folder)
}

fn is_newer(tar: &Path, binary: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    matches!((modified(tar), modified(binary)), (Some(tar), Some(binary)) if tar > binary)
}

/// The files that the dynamic loader maps for `binary`, the loader itself included.
fn shared_libraries(binary: &Path) -> Result<Vec<String>> {
    Ok(parse_ldd(&workspace::output(Command::new("ldd").arg(binary))?))
}

/// The paths in ldd's output: `name => PATH (address)` or `PATH (address)`.
fn parse_ldd(text: &str) -> Vec<String> {
    text.lines().flat_map(|line| line.split_whitespace().filter(|word| word.starts_with('/')).take(1)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::parse_ldd;

    #[test]
    fn ldd_names_libraries_and_the_loader() {
        let text = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(parse_ldd(text), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
