//! An app's account, a token for it, and requests through a forwarded port: word for word as the page says.

use anyhow::{Context, Result, ensure};

use dormouse_e2e::{cluster::root, kube::Kube};

use super::world::WAIT_SECONDS;

/// Where it is said how, and after which words.
const PAGE: &str = "docs/installing.md";
const WORDS: &str = "An app needs an account with rights";
/// How the command line of the page begins.
const COMMAND_LINE: &str = "dormouse eval --server";

/// Makes the account, asks with curl, and asks with the command line.
pub async fn as_the_page_says(kube: &Kube) -> Result<()> {
    // The page makes one of this name.
    kube.kubectl("delete serviceaccount app").await?;
    let page = std::fs::read_to_string(root().join(PAGE))?;
    let commands = page.split_once(WORDS).and_then(|(_, rest)| rest.split("```").nth(1)?.strip_prefix("sh\n")).context("no commands")?;
    let (forwards, asks) = commands.split_once(" &\n").context("no port is forwarded")?;
    let asks_too = page.split('`').find(|code| code.starts_with(COMMAND_LINE)).context("no command line")?;
    let script = format!(
        "{forwards} > /dev/null &\ntrap \"kill $!\" EXIT\nuntil curl --silent --output /dev/null --cacert ca.crt https://localhost:7777/; do :; done\n\
         {asks}\necho\n{asks_too}\n"
    );
    let said = kube.bash(&script, tempfile::tempdir()?.path(), WAIT_SECONDS).await?;
    ensure!(said.contains("\"name\":\"hello\"") && said.trim().ends_with("\n2"), "{said}");
    Ok(())
}
