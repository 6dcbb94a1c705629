//! The first so many of a list that several threads fill in any order.

use std::collections::BTreeMap;

/// Keeps what comes first by key, up to a number of items, and counts everything.
///
/// What is kept depends on the keys alone, not on who came first, so an answer that had to be cut is the same each time.
pub(crate) struct Kept<T> {
    most: usize,
    held: usize,
    total: u64,
    groups: BTreeMap<Vec<u8>, Group<T>>,
}

struct Group<T> {
    items: usize,
    value: T,
}

impl<T> Kept<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, held: 0, total: 0, groups: BTreeMap::new() }
    }

    /// Would anything under this key be kept?
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        self.held < self.most || self.groups.last_key_value().is_some_and(|(last, _)| key < last.as_slice())
    }

    /// Counts `total` items and keeps the value, which holds `items` of them, if it is among the first.
    pub(crate) fn add(&mut self, key: Vec<u8>, items: usize, total: u64, value: T) {
        self.total += total;
        if items == 0 || !self.wants(&key) {
            return;
        }
        self.held += items;
        self.groups.insert(key, Group { items, value });
        while let Some(last) = self.groups.last_entry() {
            if self.held - last.get().items < self.most {
                break;
            }
            self.held -= last.remove().items;
        }
    }

    /// How many items there were.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// What was kept, in order of the keys. The last group may hold more than still fits.
    pub(crate) fn into_sorted(self) -> impl Iterator<Item = (Vec<u8>, T)> {
        self.groups.into_iter().map(|(key, group)| (key, group.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(most: usize, added: &[(&str, usize)], expected: (&[&str], u64)) {
        let mut kept = Kept::new(most);
        for (key, items) in added {
            kept.add(key.as_bytes().to_vec(), *items, *items as u64, ());
        }
        let total = kept.total();
        let keys: Vec<_> = kept.into_sorted().map(|(key, ())| String::from_utf8(key).unwrap()).collect();
        assert_eq!((keys.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), total), expected);
    }

    #[test]
    fn the_first_by_key_stay_whatever_the_order() {
        check(2, &[("a", 1), ("b", 1), ("c", 1)], (&["a", "b"], 3));
        check(2, &[("c", 1), ("b", 1), ("a", 1)], (&["a", "b"], 3));
        check(2, &[("b", 1), ("c", 1), ("a", 1)], (&["a", "b"], 3));
    }

    #[test]
    fn a_group_stays_while_the_ones_before_it_leave_room() {
        check(5, &[("b", 3), ("a", 3)], (&["a", "b"], 6));
        check(3, &[("b", 3), ("a", 3)], (&["a"], 6));
        check(3, &[("a", 0), ("b", 2)], (&["b"], 2));
    }
}
