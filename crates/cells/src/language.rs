//! The language of a cell.

use oxc::span::SourceType;

/// The language of a cell's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// TypeScript; every JavaScript cell is one too.
    #[default]
    Typescript,
    /// JavaScript only: type annotations are a syntax error.
    Javascript,
    /// TypeScript with JSX. Type assertions are written with `as`.
    Tsx,
    /// JavaScript with JSX.
    Jsx,
}

impl Language {
    /// How the parser calls it.
    pub(crate) fn source_type(self) -> SourceType {
        match self {
            Self::Typescript => SourceType::ts(),
            Self::Tsx => SourceType::tsx(),
            Self::Javascript => SourceType::mjs().with_jsx(false),
            Self::Jsx => SourceType::mjs().with_jsx(true),
        }
    }
}
