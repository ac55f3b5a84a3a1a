//! A mutator that knows what texts are made of.
//!
//! Random bytes are refused by the first character class they meet. These mutations work on words, numbers, brackets
//! and lines, and borrow from other inputs, so that most results are nearly right, which is where parsers are weak.

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.draw() % end as u64) as usize }
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Texts that have broken parsers before.
const ODD: &[&str] = &[
    "",
    "0",
    "-0",
    "-1",
    "1",
    "00",
    "0.5",
    "1e308",
    "1e999",
    "-1e-999",
    "NaN",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "null",
    "true",
    "~",
    "\u{0}",
    "\u{feff}",
    "\u{2028}",
    "\u{85}",
    "\u{a0}",
    "\u{202e}",
    "é",
    "e\u{301}",
    "ß",
    "İ",
    "😀",
    "\u{10ffff}",
    "\r\n",
    "\r",
    "\t",
    "\\",
    "\"",
    "'",
    "%",
    "%00",
    "%zz",
    "\\u0000",
    "\\ud800",
    "&a",
    "*a",
    "<<: *a",
    "!!str",
    "---\n",
    "...\n",
    "#",
    ": ",
    "- ",
    "? ",
    "|\n",
    ">-\n",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
];

const REPEATED: &[&str] = &[
    "[", "]", "{", "}", "(", ")", "-", "!", "{{", "}}", "\"", "'", "\\", " ", "\n", "\t", "0", "9", "a", ".", ",", ":",
    "- ", "é", "&a ", "*a ",
];

/// Where the text falls apart into words, numbers, blanks and single signs.
fn tokens(input: &[u8]) -> Vec<(usize, usize)> {
    let class = |byte: u8| match byte {
        b'0'..=b'9' => 1,
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | 128.. => 2,
        b' ' | b'\t' => 3,
        _ => 0,
    };
    let mut out = Vec::new();
    let mut start = 0;
    for at in 1..=input.len() {
        if at == input.len() || class(input[at]) != class(input[start]) || class(input[start]) == 0 {
            out.push((start, at));
            start = at;
        }
    }
    out
}

pub struct Mutator {
    pub chance: Chance,
    words: Vec<Vec<u8>>,
    bytes_max: usize,
}

impl Mutator {
    pub fn new(seed: u64, words: &[&str], corpus: &[Vec<u8>], bytes_max: usize) -> Mutator {
        let mut all: Vec<Vec<u8>> = words.iter().chain(ODD).map(|word| word.as_bytes().to_vec()).collect();
        for input in corpus {
            all.extend(tokens(input).into_iter().filter(|(a, b)| b - a > 2).map(|(a, b)| input[a..b].to_vec()));
        }
        all.sort();
        all.dedup();
        Mutator { chance: Chance::new(seed), words: all, bytes_max }
    }

    /// One to several changes of one input, with parts of another.
    pub fn mutate(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut out = input.to_vec();
        let rounds = 1 + self.chance.below(4) * self.chance.below(3);
        for _ in 0..rounds {
            out = self.once(out, other);
            out.truncate(self.bytes_max);
        }
        out
    }

    fn once(&mut self, mut input: Vec<u8>, other: &[u8]) -> Vec<u8> {
        let spans = tokens(&input);
        let (start, end) = if spans.is_empty() { (0, 0) } else { *self.chance.pick(&spans) };
        match self.chance.below(14) {
            0 => replace(&input, start, end, &self.word()),
            1 => replace(&input, start, start, &self.word()),
            2 => replace(&input, start, end, b""),
            3 => {
                let token = input[start..end].to_vec();
                replace(&input, start, start, &token)
            }
            4 => {
                let most = if self.chance.below(20) == 0 { 16 } else { 8 };
                let count = 1 << self.chance.below(most);
                let piece = self.chance.pick(REPEATED).repeat(count);
                replace(&input, start, start, piece.as_bytes())
            }
            5 => {
                let at = self.chance.below(input.len());
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.chance.below(8);
                }
                input
            }
            6 => {
                input.truncate(self.chance.below(input.len() + 1));
                input
            }
            7 => {
                let (a, b) = self.range(other.len());
                replace(&input, start, end, &other[a..b])
            }
            8 => {
                let mut out = input[..start].to_vec();
                out.extend_from_slice(&other[self.chance.below(other.len() + 1)..]);
                out
            }
            9 => self.swap_tokens(&input, &spans),
            10 => self.number(&input, start, end),
            11 => self.lines(&input, other),
            12 => {
                // The same piece again and again: what is linear once must be linear many times.
                let (a, b) = self.range(input.len());
                let count = 1 << self.chance.below(9);
                let piece = input[a..b].repeat(count.min(1 + self.bytes_max / (b - a + 1)));
                replace(&input, b, b, &piece)
            }
            _ => {
                let (a, b) = self.range(input.len());
                replace(&input, a, b, b"")
            }
        }
    }

    fn word(&mut self) -> Vec<u8> {
        if self.words.is_empty() { Vec::new() } else { self.chance.pick(&self.words).clone() }
    }

    fn range(&mut self, len: usize) -> (usize, usize) {
        let (a, b) = (self.chance.below(len + 1), self.chance.below(len + 1));
        (a.min(b), a.max(b))
    }

    fn swap_tokens(&mut self, input: &[u8], spans: &[(usize, usize)]) -> Vec<u8> {
        if spans.len() < 2 {
            return input.to_vec();
        }
        let (a, b) = (self.chance.below(spans.len()), self.chance.below(spans.len()));
        let ((a0, a1), (b0, b1)) = (spans[a.min(b)], spans[a.max(b)]);
        if a1 > b0 {
            return input.to_vec();
        }
        [&input[..a0], &input[b0..b1], &input[a1..b0], &input[a0..a1], &input[b1..]].concat()
    }

    /// A number near the one that is there, or near the edge of a type.
    fn number(&mut self, input: &[u8], start: usize, end: usize) -> Vec<u8> {
        let text = std::str::from_utf8(&input[start..end]).ok().and_then(|text| text.parse::<i128>().ok());
        let Some(value) = text else { return replace(input, start, end, &self.word()) };
        let edges = [0, -1, 1, 127, 255, 65_535, i128::from(i32::MAX), i128::from(u32::MAX), i128::from(i64::MAX)];
        let near = *self.chance.pick(&[-1, 1]);
        let new = match self.chance.below(4) {
            0 => value.saturating_add(near),
            1 => value.saturating_mul(100),
            2 => value.saturating_neg(),
            _ => self.chance.pick(&edges).saturating_add(near),
        };
        replace(input, start, end, new.to_string().as_bytes())
    }

    /// A line from here or there, put somewhere else, perhaps further in.
    fn lines(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let source = if self.chance.below(2) == 0 { input } else { other };
        let donors: Vec<&[u8]> = source.split(|byte| *byte == b'\n').collect();
        let mut line = self.chance.pick(&donors).to_vec();
        match self.chance.below(3) {
            0 => {
                line.splice(0..0, b"  ".iter().copied());
            }
            1 if line.starts_with(b"  ") => {
                line.drain(..2);
            }
            _ => {}
        }
        let at = self.chance.below(lines.len());
        if self.chance.below(3) == 0 {
            lines[at] = line
        } else {
            lines.insert(at, line)
        }
        lines.join(&b'\n')
    }
}

fn replace(input: &[u8], start: usize, end: usize, with: &[u8]) -> Vec<u8> {
    [&input[..start], with, &input[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_seed_others() {
        let corpus = vec![b"id: a\nn: 12\n".to_vec(), b"[1, {\"x\": \"y\"}]".to_vec()];
        let many = |seed| {
            let mut mutator = Mutator::new(seed, &["word"], &corpus, 1_000);
            (0..500).map(|_| mutator.mutate(&corpus[0], &corpus[1])).collect::<Vec<_>>()
        };
        assert_eq!(many(1), many(1));
        assert_ne!(many(1), many(2));
        assert!(many(3).iter().all(|input| input.len() <= 1_000));
        let different: std::collections::BTreeSet<_> = many(4).into_iter().collect();
        assert!(different.len() > 400, "{}", different.len());
    }

    #[test]
    fn texts_fall_apart_into_words_numbers_and_signs() {
        let text = b"ab12 {x}";
        let parts: Vec<&[u8]> = tokens(text).into_iter().map(|(a, b)| &text[a..b]).collect();
        assert_eq!(parts, [&b"ab"[..], b"12", b" ", b"{", b"x", b"}"]);
        assert!(tokens(b"").is_empty());
    }
}
