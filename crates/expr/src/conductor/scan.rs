//! Where the expressions of a text are.

/// A stretch of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// What stands between `${` and the brace that closes it.
    Expression(&'a str),
}

/// Cuts a text at its outermost expressions. Each byte is looked at twice, however the braces lie.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let closing = closing_braces(text.as_bytes());
    let mut pieces = Vec::new();
    let mut from = 0;
    for (open, close) in closing {
        // Inside one that was taken already, or not opened by a lone dollar.
        if open < from || !opens(text.as_bytes(), open) {
            continue;
        }
        let dollar = open - 1;
        if dollar < from {
            continue;
        }
        if dollar > from {
            pieces.push(Piece::Text(&text[from..dollar]));
        }
        pieces.push(Piece::Expression(&text[open + 1..close]));
        from = close + 1;
    }
    if from < text.len() {
        pieces.push(Piece::Text(&text[from..]));
    }
    pieces
}

/// A dollar stands before the brace, and none before that.
fn opens(bytes: &[u8], brace: usize) -> bool {
    let before = |distance: usize| brace.checked_sub(distance).and_then(|at| bytes.get(at));
    before(1) == Some(&b'$') && before(2) != Some(&b'$')
}

/// Pairs of braces, in the order of their opening ones. Those without a partner are not there.
fn closing_braces(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut open = Vec::new();
    let mut pairs = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' => open.push(at),
            b'}' => pairs.extend(open.pop().map(|start| (start, at))),
            _ => {}
        }
    }
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::Piece::{Expression, Text};
    use super::*;

    #[test]
    fn texts_are_cut_at_their_outermost_expressions() {
        for (text, cut) in [
            ("", vec![]),
            ("plain", vec![Text("plain")]),
            ("${a}", vec![Expression("a")]),
            ("x${a}y${b}", vec![Text("x"), Expression("a"), Text("y"), Expression("b")]),
            ("${a.${b}.c}", vec![Expression("a.${b}.c")]),
            ("$${a}", vec![Text("$${a}")]),
            ("$${a ${b}}", vec![Text("$${a "), Expression("b"), Text("}")]),
            ("$$${a}", vec![Text("$$${a}")]),
            ("${a", vec![Text("${a")]),
            ("${a ${b}", vec![Text("${a "), Expression("b")]),
            ("${a}}", vec![Expression("a"), Text("}")]),
            ("{${a}}", vec![Text("{"), Expression("a"), Text("}")]),
            ("${}", vec![Expression("")]),
            ("é${ü}ö", vec![Text("é"), Expression("ü"), Text("ö")]),
        ] {
            assert_eq!(pieces(text), cut, "{text}");
        }
    }
}
