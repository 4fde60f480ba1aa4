//! Tokens of an OpenID Connect issuer that others wrote: `oidc-provider`, which is certified.

use std::sync::Arc;

use dormouse_gateway::{
    Gateway,
    auth::oidc::{Claim, Settings},
};
use serde_json::Value;

use crate::{
    oidc::{SESSIONS, Team},
    oidc_provider,
    support::{Client, Trust, directory, serve_routes},
};

/// What the gateway calls itself to issuers, and what somebody else does.
const OURS: &str = "https://dormouse.example/mcp";
const ANOTHERS: &str = "https://another.example/";
/// Gives a client tokens for whatever resource it asks for, signed, of the group `team`.
const SERVER: &str = "
import { Provider } from 'oidc-provider';
const port = Number(process.argv[1]);
const client = { client_id: 'app', client_secret: 'secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [], scope: 'run' };
const about = (context, indicator) => ({ scope: 'run', audience: indicator, accessTokenFormat: 'jwt', accessTokenTTL: 60, jwt: { sign: { alg: 'RS256' } } });
const features = {
    clientCredentials: { enabled: true }, devInteractions: { enabled: false },
    resourceIndicators: { enabled: true, getResourceServerInfo: about, useGrantedResource: () => true },
};
const extraTokenClaims = () => ({ groups: ['team'] });
new Provider(`http://127.0.0.1:${port}`, { clients: [client], scopes: ['run'], extraTokenClaims, features }).listen(port, '127.0.0.1');
";

async fn token(issuer: &str, resource: &str) -> String {
    let client = reqwest::Client::builder().timeout(std::time::Duration::from_secs(30)).build().unwrap();
    let mut form = reqwest::Url::parse(issuer).unwrap();
    form.query_pairs_mut().extend_pairs([("grant_type", "client_credentials"), ("scope", "run"), ("resource", resource)]);
    let asked = client
        .post(format!("{issuer}/token"))
        .basic_auth("app", Some("secret"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form.query().unwrap().to_owned());
    let said: Value = asked.send().await.unwrap().json().await.unwrap();
    said["access_token"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

async fn answered(client: &Client, token: &str) -> u16 {
    client.request("GET", SESSIONS).bearer_auth(token).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_token_of_a_certified_issuer_opens_what_its_groups_may_and_one_for_another_service_nothing() {
    dormouse_service::telemetry::install_tls_provider();
    let Some((issuer, _process, _logs)) = oidc_provider::start(SERVER).await else { return };
    let claim = |name: &str| Claim { name: name.to_owned(), prefix: "oidc:".to_owned() };
    let settings = Settings {
        issuer: issuer.clone(),
        audiences: vec![OURS.to_owned()],
        user: claim("sub"),
        groups: claim("groups"),
        authorities: None,
    };
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Team)).with_oidc(settings).unwrap();
    let client = serve_routes(gateway).await;
    assert_eq!(answered(&client, &token(&issuer, OURS).await).await, 200);
    assert_eq!(answered(&client, &token(&issuer, ANOTHERS).await).await, 401);
}
