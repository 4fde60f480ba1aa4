//! What stands before the cursor.

use std::borrow::Cow;

use reedline::{Color, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus};

/// The session's name and an arrow.
pub(super) struct SessionPrompt {
    pub(super) session: String,
}

impl Prompt for SessionPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.session)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Owned(format!("{:>1$} ", "…", self.session.chars().count() + 1))
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failed = if matches!(search.status, PromptHistorySearchStatus::Failing) { "nothing has " } else { "" };
        Cow::Owned(format!(" {failed}'{}': ", search.term))
    }

    fn get_prompt_color(&self) -> Color {
        Color::Blue
    }

    fn get_indicator_color(&self) -> Color {
        Color::DarkGray
    }
}
