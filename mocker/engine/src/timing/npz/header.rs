//! The header of a `.npy` file: a Python dictionary such as
//! `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`.

use super::MAX_ELEMENTS;

/// A type of number, named as numpy does: letter and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F8,
    F4,
    I8,
    I4,
    I2,
    I1,
    U8,
    U4,
    U2,
    U1,
}

impl Kind {
    fn parse(code: &str) -> Option<Self> {
        Some(match code {
            "f8" => Self::F8,
            "f4" => Self::F4,
            "i8" => Self::I8,
            "i4" => Self::I4,
            "i2" => Self::I2,
            "i1" => Self::I1,
            "u8" => Self::U8,
            "u4" => Self::U4,
            "u2" => Self::U2,
            "u1" => Self::U1,
            _ => return None,
        })
    }

    /// Bytes per element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F8 | Self::I8 | Self::U8 => 8,
            Self::F4 | Self::I4 | Self::U4 => 4,
            Self::I2 | Self::U2 => 2,
            Self::I1 | Self::U1 => 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) big_endian: bool,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// A value of the dictionary.
enum Literal {
    Text(String),
    Flag(bool),
    Tuple(Vec<usize>),
}

impl Header {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        reader.expect('{')?;
        while !reader.accept('}') {
            let key = reader.text()?;
            reader.expect(':')?;
            match (key.as_str(), reader.literal()?) {
                ("descr", Literal::Text(value)) => descr = Some(value),
                ("fortran_order", Literal::Flag(value)) => fortran_order = Some(value),
                ("shape", Literal::Tuple(value)) => shape = Some(value),
                _ => return Err(format!("has an unusable header entry `{key}`")),
            }
            if !reader.accept(',') {
                reader.expect('}')?;
                break;
            }
        }
        if !reader.rest.trim().is_empty() {
            return Err("has text after its header dictionary".to_string());
        }
        let missing = |key: &str| format!("has no `{key}` in its header");
        let (kind, big_endian) = element_type(&descr.ok_or_else(|| missing("descr"))?)?;
        Ok(Self {
            kind,
            big_endian,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// Number of elements, within the limits.
    pub(super) fn elements(&self) -> Result<usize, String> {
        if self.shape.len() > 2 {
            return Err(format!("has {} dimensions; allowed: up to 2", self.shape.len()));
        }
        let elements = self.shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
        match elements {
            Some(elements) if elements <= MAX_ELEMENTS => Ok(elements),
            _ => Err(format!("has shape {:?}; allowed: up to {MAX_ELEMENTS} elements", self.shape)),
        }
    }
}

fn element_type(descr: &str) -> Result<(Kind, bool), String> {
    let big_endian = descr.starts_with('>');
    let parsed = descr.strip_prefix(['<', '>', '|']).and_then(Kind::parse);
    match parsed {
        // A type without byte order must be a single byte.
        Some(kind) if !descr.starts_with('|') || kind.size() == 1 => Ok((kind, big_endian)),
        _ => Err(format!("has element type `{descr}`; allowed: f8 f4 i8 i4 i2 i1 u8 u4 u2 u1 after `<` or `>`")),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Skips white space, then `wanted` if it comes next.
    fn accept(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.accept(wanted) { Ok(()) } else { Err(format!("has a malformed header: `{wanted}` expected")) }
    }

    fn text(&mut self) -> Result<String, String> {
        let quote = if self.accept('"') { '"' } else { '\'' };
        if quote == '\'' {
            self.expect(quote)?;
        }
        let (text, rest) = self.rest.split_once(quote).ok_or("has a malformed header: text without end")?;
        self.rest = rest;
        Ok(text.to_string())
    }

    fn literal(&mut self) -> Result<Literal, String> {
        self.rest = self.rest.trim_start();
        for (word, flag) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(Literal::Flag(flag));
            }
        }
        if self.accept('(') {
            return self.tuple();
        }
        self.text().map(Literal::Text)
    }

    /// The rest of a tuple of whole numbers.
    fn tuple(&mut self) -> Result<Literal, String> {
        let mut lengths = Vec::new();
        while !self.accept(')') {
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            lengths.push(digits.parse().map_err(|_| "has a malformed shape in its header")?);
            self.rest = rest;
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(Literal::Tuple(lengths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_however_they_are_spaced_and_quoted() {
        let expected = Header { kind: Kind::I4, big_endian: true, fortran_order: true, shape: vec![3, 4] };
        for text in [
            "{'descr': '>i4', 'fortran_order': True, 'shape': (3, 4), }   \n",
            "{ 'shape':(3,4),'fortran_order':True,\"descr\":\">i4\"}",
        ] {
            assert_eq!(Header::parse(text).as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn malformed_headers_are_refused() {
        for (text, message) in [
            ("", "has a malformed header: `{` expected"),
            ("{'descr': '<f8'}", "has no `fortran_order` in its header"),
            ("{'descr': '<f8}", "has a malformed header: text without end"),
            ("{'descr': [('a', '<f8')]}", "has a malformed header: `'` expected"),
            ("{'descr': True}", "has an unusable header entry `descr`"),
            ("{'shape': (x,)}", "has a malformed shape in its header"),
            ("{'shape': (1 2)}", "has a malformed header: `)` expected"),
            ("{} {}", "has text after its header dictionary"),
        ] {
            assert_eq!(Header::parse(text), Err(message.to_string()), "{text}");
        }
    }

    #[test]
    fn sizes_beyond_the_limits_are_refused_without_overflow() {
        let mut header = Header { kind: Kind::F8, big_endian: false, fortran_order: false, shape: vec![usize::MAX, 2] };
        assert!(header.elements().unwrap_err().contains("allowed: up to 1048576 elements"));
        header.shape = vec![1, 1, 1];
        assert_eq!(header.elements(), Err("has 3 dimensions; allowed: up to 2".to_string()));
        header.shape = vec![1024, 1024];
        assert_eq!(header.elements(), Ok(1 << 20));
    }
}
