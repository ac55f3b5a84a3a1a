//! In which line of a JSON text a value stands.

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Place(usize),
}

/// The line, from 1, of what a path such as `tasks[0].decisionCases['a'][1].type` names; of the last thing on the way to it
/// that is there. The text is JSON already.
pub fn line(text: &str, path: &str) -> usize {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    reader.blanks();
    let mut found = reader.at;
    for step in steps(path) {
        if !reader.enter(&step) {
            break;
        }
        found = reader.at;
    }
    1 + text.as_bytes()[..found.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (word, after) = match inner.strip_prefix('\'') {
                Some(quoted) => quoted.split_once("']").unwrap_or((quoted, "")),
                None => inner.split_once(']').unwrap_or((inner, "")),
            };
            steps.push(word.parse().map_or_else(|_| Step::Name(word.to_owned()), Step::Place));
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end > 0 {
                steps.push(Step::Name(rest[..end].to_owned()));
            } else if !rest.starts_with('[') {
                break;
            }
            rest = &rest[end..];
        }
    }
    steps
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn blanks(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// Goes to the value behind a name or at a place of the value that begins here; false if there is none.
    fn enter(&mut self, step: &Step) -> bool {
        let is_object = match self.peek() {
            b'{' => true,
            b'[' => false,
            _ => return false,
        };
        self.at += 1;
        for place in 0.. {
            self.blanks();
            if matches!(self.peek(), b'}' | b']' | 0) {
                return false;
            }
            let start = self.at;
            let mut name = String::new();
            if is_object {
                name = self.text();
                self.blanks();
                self.at += 1;
                self.blanks();
            }
            let wanted = match step {
                Step::Name(wanted) => is_object && *wanted == name,
                Step::Place(wanted) => !is_object && *wanted == place,
            };
            if wanted {
                return true;
            }
            self.skip();
            self.blanks();
            if self.peek() == b',' {
                self.at += 1;
            }
            if self.at <= start {
                return false;
            }
        }
        false
    }

    fn text(&mut self) -> String {
        let start = self.at;
        self.skip();
        let end = self.at.min(self.bytes.len());
        serde_json::from_slice(&self.bytes[start..end]).unwrap_or_default()
    }

    /// Past one value.
    fn skip(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                0 => return,
                b'"' => {
                    self.at += 1;
                    while !matches!(self.peek(), b'"' | 0) {
                        self.at += if self.peek() == b'\\' { 2 } else { 1 };
                    }
                    self.at += 1;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return,
                byte if byte.is_ascii_whitespace() || byte == b',' || byte == b':' => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    while !matches!(self.peek(), b',' | b'}' | b']' | b':' | 0) && !self.peek().is_ascii_whitespace() {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_their_lines() {
        let text = "[\n {\"name\": \"a\\\"]\",\n  \"tasks\": [\n   {\"x\": {\"y\": [1, 2]},\n    \"type\": \"A\"},\n   {\"cases\":\n     {\"it's\": [3,\n      {\"type\": 5}]}}]}\n]\n";
        for (path, expected) in [
            ("", 1),
            ("[0]", 2),
            ("[0].name", 2),
            ("[0].tasks", 3),
            ("[0].tasks[0].type", 5),
            ("[0].tasks[1].cases", 7),
            ("[0].tasks[1].cases['it's'][1].type", 8),
            ("[0].tasks[1].missing.more", 6),
            ("[7]", 1),
        ] {
            assert_eq!(line(text, path), expected, "{path}");
        }
        assert_eq!(line("{\"a\":", "a.b"), 1);
    }
}
