//! Cells from a pipe: as few lines as make a whole cell, run one after another.

use anyhow::Context as _;
use dormouse_client::Client;

use super::{
    command::{self, Then},
    request, unfinished,
};
use crate::{cell, screen::Screen};

/// Runs everything that standard input has. `false`: a cell failed; the ones after it ran nevertheless.
pub(super) async fn run(client: &Client, session: &str, screen: &mut Screen) -> anyhow::Result<bool> {
    let input = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin())).await?.context("cannot read standard input")?;
    let mut all_well = true;
    for piece in split(&input) {
        if command::is_command(&piece) {
            if command::run(client, session, &piece, screen).await? == Then::Leave {
                break;
            }
        } else {
            all_well &= cell::run(client, session, &request(&piece), screen).await?;
        }
    }
    Ok(all_well)
}

/// Cuts the input where a cell is whole. What is unfinished at the end is a piece too: its error says what is missing.
fn split(input: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for line in input.lines() {
        if piece.is_empty() && line.trim().is_empty() {
            continue;
        }
        if !piece.is_empty() {
            piece.push('\n');
        }
        piece.push_str(line);
        if command::is_command(&piece) || !unfinished(&piece) {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_a_whole_cell() {
        let input = "const a = 1\n\nfunction f() {\n\n  return `x\n}`\n}\n.hibernate\nf(\na\n)\n1 +";
        assert_eq!(split(input), ["const a = 1", "function f() {\n\n  return `x\n}`\n}", ".hibernate", "f(\na\n)", "1 +"]);
        assert_eq!(split("x y\nz"), ["x y", "z"], "what is wrong is not unfinished");
    }
}
