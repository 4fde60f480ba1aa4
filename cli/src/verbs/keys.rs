//! `dormouse keys`.

use dormouse_client::Client;
use dormouse_protocol::key::{ApiKey, CreateKey, KeyVerb};

use crate::screen::{Output, Screen, Tone};

/// Flags of `dormouse keys`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make a key. It is shown once: put it where the app finds it as DORMOUSE_TOKEN.
    Create {
        /// Its name.
        name: String,
        /// What its holder may do.
        #[arg(long, value_delimiter = ',', value_parser = verb, default_value = "create,get,list,update,delete,eval")]
        verbs: Vec<KeyVerb>,
        /// Only sessions with these labels, such as `app=a`.
        #[arg(long, short = 'l', value_name = "SELECTOR")]
        selector: Option<String>,
        /// When it ends, such as 2027-01-31T00:00:00Z; never when absent.
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
    /// List the keys.
    List,
    /// Revoke a key: within 30 seconds nobody gets in with it.
    Revoke {
        /// Its name.
        name: String,
    },
}

fn verb(text: &str) -> Result<KeyVerb, String> {
    serde_json::from_value(text.into()).map_err(|_| "write create, get, list, update, delete or eval".to_owned())
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    match args.verb {
        Some(Verb::Create { name, verbs, selector, expires_at }) => {
            let key = client.create_key(&CreateKey { name, verbs, label_selector: selector, expires_at }).await?;
            match args.output {
                Output::Text => screen.line(Tone::Plain, &key.key)?,
                Output::Json => screen.line(Tone::Plain, &serde_json::to_string(&key)?)?,
            }
        }
        Some(Verb::Revoke { name }) => client.revoke_key(&name).await?,
        Some(Verb::List) | None => {
            for key in client.list_keys().await?.items {
                match args.output {
                    Output::Text => screen.line(Tone::Plain, &line(&key)?)?,
                    Output::Json => screen.line(Tone::Plain, &serde_json::to_string(&key)?)?,
                }
            }
        }
    }
    Ok(true)
}

fn line(key: &ApiKey) -> anyhow::Result<String> {
    let verbs: Result<Vec<String>, _> = key.verbs.iter().map(serde_json::to_string).collect();
    let verbs = verbs?.join(",").replace('"', "");
    let until = key.expires_at.as_deref().unwrap_or("never ends");
    Ok(format!("{:<24} {verbs:<36} {until:<24} {}", key.name, key.label_selector.as_deref().unwrap_or_default()).trim_end().to_owned())
}
