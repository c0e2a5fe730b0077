//! Objects of one kind by name: what watches and the answers to writes have told.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Name of an object of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// A name in a namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An object as it was at some version.
#[derive(Clone, Debug)]
struct Item<T> {
    version: u64,
    uid: String,
    /// The list or write that last told of it.
    round: u64,
    content: T,
}

/// Objects of one kind by name.
#[derive(Debug)]
pub struct Kept<T> {
    items: BTreeMap<Key, Item<T>>,
    /// Counts the lists that were begun.
    round: u64,
    is_listing: bool,
    is_complete: bool,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), round: 0, is_listing: false, is_complete: false }
    }
}

impl<T> Kept<T> {
    /// Everything was listed at least once.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// What is known of an object.
    pub fn get(&self, key: &Key) -> Option<&T> {
        self.items.get(key).map(|item| &item.content)
    }

    /// All.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.items.iter().map(|(key, item)| (key, &item.content))
    }

    /// All of a namespace.
    pub fn of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a T)> {
        let from = Key::new(namespace, "");
        let items = self.items.range(from..).take_while(move |(key, _)| key.namespace == namespace);
        items.map(|(key, item)| (key, &item.content))
    }

    /// A list begins.
    pub fn begin(&mut self) {
        self.round += 1;
        self.is_listing = true;
    }

    /// A list is whole: what it did not tell of, and what was not written since it began, is gone.
    pub fn end(&mut self) -> Vec<(Key, T)> {
        (self.is_listing, self.is_complete) = (false, true);
        let round = self.round;
        let gone: Vec<_> =
            self.items.iter().filter(|(_, item)| item.round < round).map(|(key, _)| key.clone()).collect();
        gone.into_iter()
            .filter_map(|key| self.items.remove_entry(&key).map(|(key, item)| (key, item.content)))
            .collect()
    }

    /// Takes an object in, unless a later version of it is known. A list counts over what was known before it began: a store
    /// may have been put back to an earlier state.
    pub fn put(&mut self, metadata: &ObjectMeta, content: T) -> Put<T> {
        let (key, version) = (Key::of(metadata), version(metadata));
        let uid = metadata.uid.clone().unwrap_or_default();
        if let Some(known) = self.items.get_mut(&key)
            && known.version >= version
            && (known.version == version || !self.is_listing || known.round == self.round)
        {
            known.round = self.round;
            return if known.version == version { Put::Known } else { Put::Late };
        }
        let item = Item { version, uid, round: self.round, content };
        Put::Taken(self.items.insert(key, item).map(|item| item.content))
    }

    /// An object is gone; one of the same name that was made after it stays.
    pub fn remove(&mut self, metadata: &ObjectMeta) -> Option<T> {
        let key = Key::of(metadata);
        let known = self.items.get(&key)?;
        if metadata.uid.as_deref() == Some(known.uid.as_str()) {
            return self.items.remove(&key).map(|item| item.content);
        }
        None
    }
}

/// What came of a [`Kept::put`].
#[derive(Debug, PartialEq, Eq)]
pub enum Put<T> {
    /// It is known now; what was known before.
    Taken(Option<T>),
    /// Exactly this version was known.
    Known,
    /// A later version is known.
    Late,
}

/// Versions of one server are numbers that rise.
fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(name: &str, uid: &str, version: u64) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("n".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        }
    }

    fn names<T: Copy>(kept: &Kept<T>) -> Vec<(&str, T)> {
        kept.iter().map(|(key, content)| (key.name.as_str(), *content)).collect()
    }

    #[test]
    fn an_older_version_never_replaces_a_later_one() {
        let mut kept = Kept::default();
        assert_eq!(kept.put(&metadata("a", "1", 5), 5), Put::Taken(None));
        assert_eq!(kept.put(&metadata("a", "1", 4), 4), Put::Late);
        assert_eq!(kept.put(&metadata("a", "1", 5), 5), Put::Known);
        assert_eq!(kept.put(&metadata("a", "1", 6), 6), Put::Taken(Some(5)));
        assert_eq!(names(&kept), [("a", 6)]);
        kept.begin();
        assert_eq!(kept.put(&metadata("a", "1", 3), 3), Put::Taken(Some(6)), "the store was put back");
    }

    #[test]
    fn a_list_removes_what_it_does_not_name_but_nothing_that_was_written_meanwhile() {
        let mut kept = Kept::default();
        for name in ["a", "b"] {
            kept.put(&metadata(name, "1", 1), 0);
        }
        kept.begin();
        kept.put(&metadata("a", "1", 1), 0);
        kept.put(&metadata("c", "1", 9), 1);
        assert!(!kept.is_complete());
        assert_eq!(kept.end(), [(Key::new("n", "b"), 0)]);
        assert_eq!(names(&kept), [("a", 0), ("c", 1)]);
        assert!(kept.is_complete());
    }

    #[test]
    fn the_end_of_an_object_is_not_that_of_its_successor() {
        let mut kept = Kept::default();
        kept.put(&metadata("a", "2", 7), 0);
        assert_eq!(kept.remove(&metadata("a", "1", 6)), None);
        assert_eq!(kept.remove(&metadata("a", "2", 8)), Some(0));
        assert_eq!(kept.remove(&metadata("a", "2", 8)), None);
    }

    #[test]
    fn a_namespace_is_seen_by_itself() {
        let mut kept = Kept::default();
        for namespace in ["m", "n", "n-x", "o"] {
            let metadata = ObjectMeta { namespace: Some(namespace.to_owned()), ..metadata("a", "1", 1) };
            kept.put(&metadata, namespace);
        }
        assert_eq!(kept.of_namespace("n").map(|(_, content)| *content).collect::<Vec<_>>(), ["n"]);
    }
}
