//! Files that are brought, one by one and side by side, and read.

use http::Method;

use super::Player;
use crate::{
    client::{Answer, BUDGET},
    model::Step,
};

/// Files that are brought at the same time.
const BESIDE: [&str; 4] = ["v0", "v1", "v2", "v3"];

/// Every file that a client may look at.
pub(super) const FILES: [&str; 6] = ["f", "u", "v0", "v1", "v2", "v3"];

impl Player {
    pub(super) async fn upload(&mut self) {
        let id = self.id("u");
        let content = format!("{id} ").repeat(150_000 / (id.len() + 1)).into_bytes();
        let answer = self.insist(Method::PUT, &format!("/{}/files/u", self.name), Some(content)).await;
        self.look_for_losses();
        self.uploaded("u", id, &answer);
    }

    /// Several contents at the same time.
    pub(super) async fn uploads(&mut self) {
        let id = self.id("m");
        let content = format!("{id} ").repeat(100_000 / (id.len() + 1)).into_bytes();
        let sent = BESIDE.map(|file| {
            let (mut sender, content) = (self.sender(), content.clone());
            let path = format!("/{}/files/{file}", self.name);
            async move { sender.insist(Method::PUT, &path, Some(content), BUDGET).await }
        });
        let answers = futures::future::join_all(sent).await;
        self.look_for_losses();
        for (file, answer) in BESIDE.iter().zip(answers) {
            self.uploaded(file, id.clone(), &answer);
        }
    }

    pub(super) fn uploaded(&mut self, file: &str, id: String, answer: &Answer) {
        let steps = [Step::Write(file.to_owned(), id)];
        if answer.is_ok() {
            self.acked += 1;
            self.model.done(&steps, true);
        } else {
            self.model.cut_short(&steps);
        }
    }

    pub(super) async fn read_file(&mut self, file: &str) {
        let answer = self.insist(Method::GET, &format!("/{}/files/{file}", self.name), None).await;
        self.look_for_losses();
        let id = match answer.status {
            200 => {
                let text = String::from_utf8_lossy(&answer.body).to_string();
                let id = text.split(' ').next().unwrap_or_default().to_owned();
                assert!(text.split(' ').all(|part| part == id || part.is_empty()), "a file is whole");
                Some(id)
            }
            404 => None,
            _ => panic!("what was uploaded can be read: {file} of {}: {} {}", self.name, answer.status, answer.json),
        };
        let could = self.model.show();
        if let Some(id) = id.as_ref().filter(|id| self.client.may_still_arrive(id) && !self.model.may_hold(file, id)) {
            self.model.done(&[Step::Write(file.to_owned(), id.clone())], false);
        }
        assert!(
            self.model.saw_file(file, id.as_deref()),
            "a read never goes back behind what was acked: {file} of {} is {id:?}, and it could be [{could}]",
            self.name
        );
    }
}
