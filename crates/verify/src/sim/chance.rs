//! Chance: one number in, the same numbers out.

/// A small generator (splitmix64): the same on every machine, for ever.
#[derive(Clone)]
pub struct Chance(u64);

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(mix(seed ^ 0x5e3e_1000))
    }

    /// A source of its own for the `n`-th thing of a kind, whatever else happens: taking one thing
    /// out of a schedule leaves the others as they were.
    pub fn of(seed: u64, kind: u64, n: u64) -> Chance {
        Chance(mix(mix(seed ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(n)))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 0 … n-1.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.draw() % n }
    }

    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).max(1) as u64) as i64
    }

    /// True `part` times in a thousand.
    pub fn permille(&mut self, part: u32) -> bool {
        self.below(1_000) < u64::from(part)
    }

    pub fn percent(&mut self, part: u32) -> bool {
        self.permille(part * 10)
    }

    pub fn word(&mut self, list: &[&'static str]) -> &'static str {
        let index = self.below(list.len() as u64) as usize;
        list[index]
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}
