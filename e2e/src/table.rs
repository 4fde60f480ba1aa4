//! The table that `kubectl get` prints.

use std::collections::BTreeMap;

/// The rows, each as column name → cell; an empty cell is an empty string.
///
/// Columns begin where their header begins, so cells that are empty or hold spaces are read right.
#[must_use]
pub fn parse(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let Some(header) = lines.next() else { return Vec::new() };
    let columns = columns(header);
    lines
        .map(|line| {
            let chars: Vec<char> = line.chars().collect();
            let cell = |from: usize, to: usize| -> String {
                chars.iter().skip(from).take(to.saturating_sub(from)).collect::<String>().trim().to_owned()
            };
            columns
                .iter()
                .enumerate()
                .map(|(index, (name, from))| (name.clone(), cell(*from, columns.get(index + 1).map_or(usize::MAX, |next| next.1))))
                .collect()
        })
        .collect()
}

/// Names and where they begin.
fn columns(header: &str) -> Vec<(String, usize)> {
    let mut columns: Vec<(String, usize)> = Vec::new();
    let mut spaces = 2;
    for (at, char) in header.chars().enumerate() {
        if char == ' ' {
            spaces += 1;
            continue;
        }
        match columns.last_mut() {
            // One space is part of a header such as NOMINATED NODE; the columns are at least three apart.
            Some((name, _)) if spaces < 2 => {
                if spaces == 1 {
                    name.push(' ');
                }
                name.push(char);
            }
            _ => columns.push((char.to_string(), at)),
        }
        spaces = 0;
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn an_empty_cell_does_not_shift_the_rest() {
        let text = "NAME      READY   POD     HEAP    AGE\nanalyst   True            1.2Mi   5s\nother     False   pod-1           6s\n";
        let rows = parse(text);
        assert_eq!(rows[0]["POD"], "");
        assert_eq!(rows[0]["HEAP"], "1.2Mi");
        assert_eq!(rows[1]["POD"], "pod-1");
        assert_eq!(rows[1]["AGE"], "6s");
    }
}
