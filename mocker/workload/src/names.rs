//! Names and the numbers that stand for them.

use dynosim_engine::hash::mix;
use rustc_hash::FxHashMap;

/// Numbers names in the order in which they come up; each text is kept once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: Vec<u8>,
    /// Where each name ends.
    ends: Vec<usize>,
    /// Numbers by the hash of the name; a name whose hash is taken goes to a hash made from it.
    numbers: FxHashMap<u64, u32>,
}

impl Names {
    /// The number of a name, a new one if it is new.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        let key = match self.find(name) {
            Ok(number) => return number,
            Err(key) => key,
        };
        let number = self.ends.len() as u32;
        self.text.extend_from_slice(name.as_bytes());
        self.ends.push(self.text.len());
        self.numbers.insert(key, number);
        number
    }

    /// The number of a name, or the key that is free for it.
    fn find(&self, name: &str) -> Result<u32, u64> {
        let mut key = name_hash(name);
        while let Some(&number) = self.numbers.get(&key) {
            if self.name(number) == Some(name) {
                return Ok(number);
            }
            key = mix(key, 1);
        }
        Err(key)
    }

    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        let number = number as usize;
        let start = if number == 0 { 0 } else { *self.ends.get(number - 1)? };
        std::str::from_utf8(&self.text[start..*self.ends.get(number)?]).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

pub(crate) fn name_hash(name: &str) -> u64 {
    let mut hash = name.len() as u64;
    for chunk in name.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_once_and_read_back() {
        let mut names = Names::default();
        for round in 0..2 {
            for (number, name) in ["", "b", "exactly8", "ü and more than eight"].into_iter().enumerate() {
                assert_eq!(names.number(name), number as u32, "round {round}");
                assert_eq!(names.name(number as u32), Some(name));
            }
        }
        assert_eq!((names.len(), names.name(4)), (4, None));
    }
}
