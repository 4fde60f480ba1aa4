//! One attempt: a signed POST, and what its answer means.

use std::{sync::Arc, time::Duration};

use dormouse_crds::webhooks::Webhook;
use dormouse_protocol::webhook::DeliveryAttempt;
use dormouse_service::wire::Http;
use reqwest::{
    Method, StatusCode, Url,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use tokio::time::Instant;

use crate::{
    Broker,
    credential::Caller,
    service::{self, Service},
    webhooks::{Message, Sent, Verdict, time},
};

/// How long an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Characters of what an attempt says of its failure.
const ERROR_CHARS_MAX: usize = 256;

/// Where a message goes, and how.
struct Target {
    service: Arc<Service>,
    url: Url,
    http: Http,
}

impl Broker {
    /// Sends a message once.
    pub(super) async fn send_message(&self, message: &Message) -> Sent {
        let (began, at) = (Instant::now(), time(self.clock().now_ms()));
        let answered = async {
            let target = self.target(message)?;
            tokio::time::timeout(ATTEMPT_TIMEOUT, self.post(&target, message)).await.unwrap_or_else(|_| {
                let text = format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs());
                Err((text, Verdict::Again(None)))
            })
        };
        let (status, error, verdict) = match answered.await {
            Ok((status, verdict)) => (Some(status.as_u16()), None, verdict),
            Err((error, verdict)) => (None, Some(error.chars().take(ERROR_CHARS_MAX).collect()), verdict),
        };
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(id = message.view.id, session = message.view.session, status, error, milliseconds, "webhook");
        Sent { attempt: DeliveryAttempt { time: at, status, error, milliseconds }, verdict }
    }

    async fn post(&self, target: &Target, message: &Message) -> Result<(StatusCode, Verdict), (String, Verdict)> {
        let Target { service, url, http } = target;
        let again = |error: String| (error, Verdict::Again(None));
        let credential = service.authentication.credential(http, self.secrets(), Caller::BROKER).await;
        let credential = credential.map_err(|error| again(error.to_string()))?;
        let request = http.client().request(Method::POST, url.clone()).header(CONTENT_TYPE, "application/json").body(message.body.clone());
        let signed = credential.sign(request, &message.view.id, message.body.as_bytes()).map_err(|error| again(error.message))?;
        let response = http.send(signed).await.map_err(|error| again(credential.redactor.text(&error.to_string())))?;
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
        Ok((response.status(), Verdict::of_status(response.status().as_u16(), after)))
    }

    /// A URL that a cell's request names goes to public addresses, or where an egress rule says that they may be private; and is signed only with a
    /// secret that the ToolBroker names for its own webhooks.
    fn target(&self, message: &Message) -> Result<Target, (String, Verdict)> {
        let refused = |text: &str| (text.to_owned(), Verdict::Refused);
        let hooks = self.hooks();
        let url = Url::parse(&message.view.url).map_err(|_| refused("the URL is none"))?;
        if !message.from_eval {
            let hook = hooks.iter().find(|hook| hook.url == message.view.url);
            let hook = hook.ok_or_else(|| refused("the ToolBroker does not name this URL any more"))?;
            return Ok(Target { service: Arc::clone(&hook.service), url, http: self.http().clone() });
        }
        if !hooks.iter().any(|hook| hook.secret == message.secret) {
            return Err(refused("no webhook of the ToolBroker names this secret"));
        }
        let reach = self.broker_rules().reach_of(&url, &Method::POST).map_err(|error| refused(&error.message))?;
        let http = self.http().with_client(self.egress().client(reach).clone());
        let place = Webhook { url: message.view.url.clone(), secret_ref: message.secret.clone() };
        let mut problems = Vec::new();
        let service =
            place.service("eval").map(|(service, _)| service::compile(&service, "webhook", (self.secrets(), self.names()), &mut problems));
        match service.filter(|_| problems.is_empty()) {
            Some(service) => Ok(Target { service: Arc::new(service), url, http }),
            None => Err((problems.first().map_or_else(|| "the URL is none".to_owned(), ToString::to_string), Verdict::Refused)),
        }
    }
}
