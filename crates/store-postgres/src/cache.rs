//! Rows of one table as a transaction knows them: what is stored, and what shall be.

use std::collections::BTreeMap;

/// What is known of the row in the database.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored<V> {
    /// Nobody looked; it is written over or removed whatever it is.
    Unknown,
    /// Nobody looked, and it is taken for absent. The database is asked to contradict.
    Assumed,
    /// It was not there when we looked. An absent row cannot be locked, so the database is asked to contradict.
    Absent,
    /// It is there, as it was read, and locked.
    Present(V),
}

#[derive(Clone, Debug)]
pub struct Slot<V> {
    pub stored: Stored<V>,
    pub now: Option<V>,
}

/// Rows in order of their keys.
pub struct Cache<K, V>(pub BTreeMap<K, Slot<V>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Cache<K, V> {
        Cache(BTreeMap::new())
    }
}

/// What is to be written, in order of key.
pub struct Changes<'a, K, V> {
    /// Must not be there.
    pub inserts: Vec<(&'a K, &'a V)>,
    /// There, and locked; with what was read.
    pub updates: Vec<(&'a K, &'a V, &'a V)>,
    /// There or not.
    pub puts: Vec<(&'a K, &'a V)>,
    pub deletes: Vec<&'a K>,
    /// Decided upon as absent, and not written: must still be so.
    pub absent: Vec<&'a K>,
}

impl<K: Ord + Clone, V: Clone + PartialEq> Cache<K, V> {
    /// `None`: not known yet.
    pub fn get(&self, key: &K) -> Option<&Option<V>> {
        self.0.get(key).map(|slot| &slot.now)
    }

    pub fn knows(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Takes in what was read; what is known already is newer.
    pub fn found(&mut self, key: K, value: V) {
        self.0.entry(key).or_insert_with(|| Slot { stored: Stored::Present(value.clone()), now: Some(value) });
    }

    pub fn not_found(&mut self, key: &K) {
        if !self.0.contains_key(key) {
            self.0.insert(key.clone(), Slot { stored: Stored::Absent, now: None });
        }
    }

    pub fn assume_absent(&mut self, key: K) {
        self.0.entry(key).or_insert(Slot { stored: Stored::Assumed, now: None });
    }

    /// Replaces the row; gives back what it was, `None` if nobody knew.
    pub fn set(&mut self, key: &K, now: Option<V>, unless_known: Stored<V>) -> Option<Option<V>> {
        match self.0.get_mut(key) {
            Some(slot) => Some(std::mem::replace(&mut slot.now, now)),
            None => {
                self.0.insert(key.clone(), Slot { stored: unless_known, now });
                None
            }
        }
    }

    /// Takes back what was set.
    pub fn restore(&mut self, key: &K, old: Option<Option<V>>) {
        match (self.0.get_mut(key), old) {
            (Some(slot), Some(old)) => slot.now = old,
            (Some(_), None) => _ = self.0.remove(key),
            (None, _) => {}
        }
    }

    pub fn changes(&self) -> Changes<'_, K, V> {
        let mut changes = Changes { inserts: vec![], updates: vec![], puts: vec![], deletes: vec![], absent: vec![] };
        for (key, slot) in &self.0 {
            match (&slot.stored, &slot.now) {
                (Stored::Present(old), Some(now)) if old != now => changes.updates.push((key, old, now)),
                (Stored::Present(_), Some(_)) => {}
                (Stored::Present(_) | Stored::Unknown, None) => changes.deletes.push(key),
                (Stored::Absent | Stored::Assumed, Some(now)) => changes.inserts.push((key, now)),
                (Stored::Absent | Stored::Assumed, None) => changes.absent.push(key),
                (Stored::Unknown, Some(now)) => changes.puts.push((key, now)),
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_known_and_wanted() {
        let mut cache: Cache<u8, char> = Cache::default();
        for key in 1..=3 {
            cache.found(key, 'a');
        }
        cache.set(&2, Some('b'), Stored::Unknown);
        cache.set(&3, None, Stored::Unknown);
        cache.not_found(&4);
        cache.not_found(&5);
        cache.set(&5, Some('e'), Stored::Unknown);
        cache.assume_absent(6);
        cache.set(&7, Some('g'), Stored::Unknown);
        cache.set(&8, None, Stored::Unknown);
        cache.set(&9, Some('i'), Stored::Assumed);
        let changes = cache.changes();
        assert_eq!(changes.updates, [(&2, &'a', &'b')]);
        assert_eq!(changes.deletes, [&3, &8]);
        assert_eq!(changes.absent, [&4, &6]);
        assert_eq!(changes.inserts, [(&5, &'e'), (&9, &'i')]);
        assert_eq!(changes.puts, [(&7, &'g')]);
    }

    #[test]
    fn what_was_set_can_be_taken_back() {
        let mut cache: Cache<u8, char> = Cache::default();
        cache.found(1, 'a');
        let (first, second) = (cache.set(&1, None, Stored::Unknown), cache.set(&2, Some('b'), Stored::Unknown));
        cache.restore(&2, second);
        cache.restore(&1, first);
        assert_eq!(cache.get(&1), Some(&Some('a')));
        assert!(!cache.knows(&2));
        // What is known is newer than what a second read finds.
        cache.set(&1, Some('c'), Stored::Unknown);
        cache.found(1, 'a');
        assert_eq!(cache.get(&1), Some(&Some('c')));
    }
}
