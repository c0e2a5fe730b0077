//! The printable characters that stand for bytes in byte-level vocabularies (GPT-2 and its successors).

/// The character of each byte. Printable Latin-1 characters stand for themselves, the rest follow from U+0100 in order.
pub(crate) fn characters() -> [char; 256] {
    let mut next = 256;
    std::array::from_fn(|byte| {
        let byte = byte as u32;
        let stand_in = if is_own(byte) {
            byte
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(stand_in).unwrap_or(char::REPLACEMENT_CHARACTER)
    })
}

fn is_own(byte: u32) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// Characters back to bytes.
#[derive(Debug)]
pub(crate) struct ByteOf(Vec<Option<u8>>);

impl ByteOf {
    /// The inverse of [`characters`].
    pub(crate) fn new() -> Self {
        let characters = characters();
        let last = characters.iter().map(|c| *c as usize).max().unwrap_or(0);
        let mut bytes = vec![None; last + 1];
        for (byte, character) in characters.into_iter().enumerate() {
            bytes[character as usize] = Some(byte as u8);
        }
        Self(bytes)
    }

    /// Appends the bytes that `piece` stands for; a piece with a foreign character stands for itself.
    pub(crate) fn append(&self, piece: &str, out: &mut Vec<u8>) {
        let before = out.len();
        for character in piece.chars() {
            let Some(byte) = self.0.get(character as usize).copied().flatten() else {
                out.truncate(before);
                out.extend_from_slice(piece.as_bytes());
                return;
            };
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character_and_comes_back() {
        let back = ByteOf::new();
        let mut bytes = Vec::new();
        for character in characters() {
            back.append(&character.to_string(), &mut bytes);
        }
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(characters()[usize::from(b' ')], 'Ġ');
        assert_eq!(characters()[usize::from(b'\n')], 'Ċ');
    }

    #[test]
    fn a_piece_with_a_foreign_character_stands_for_itself() {
        let mut bytes = Vec::new();
        ByteOf::new().append("<a b>", &mut bytes);
        assert_eq!(bytes, b"<a b>", "a plain space is no stand-in");
    }
}
