//! A reader for `.npz` files: zip archives of `.npy` arrays, as `numpy.savez` and `savez_compressed` write them.
//!
//! It reads what profiles need: numbers of up to two dimensions, converted to `f64`. The limits below hold for every
//! input, so a hostile file costs bounded memory and ends in an error that names the array.

mod header;

use header::{Header, Kind};
use std::io::{Cursor, Read};
use thiserror::Error;
use zip::ZipArchive;

/// Largest archive in bytes.
pub const MAX_FILE_BYTES: usize = 64 << 20;
/// Largest array in elements.
pub const MAX_ELEMENTS: usize = 1 << 20;
/// Largest `.npy` header in bytes (numpy's own limit).
pub const MAX_HEADER_BYTES: usize = 10_000;
/// Largest archive member in bytes, unpacked: the elements at 8 bytes each, and the header.
pub const MAX_ENTRY_BYTES: usize = MAX_ELEMENTS * 8 + MAX_HEADER_BYTES + PREFIX_BYTES;

/// The longest fixed part before the header text: magic, version, 32-bit header length.
const PREFIX_BYTES: usize = 12;
const MAGIC: &[u8] = b"\x93NUMPY";

/// Why an archive or an array cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NpzError {
    /// The file is too large.
    #[error("the archive has {found} bytes; allowed: up to {MAX_FILE_BYTES}")]
    FileTooLarge {
        /// Its size.
        found: usize,
    },
    /// No zip archive.
    #[error("not an .npz archive ({0})")]
    NotAnArchive(String),
    /// The array is not there.
    #[error("array `{array}` is missing; found: {found}")]
    Missing {
        /// Its name.
        array: String,
        /// The names of the arrays that are there.
        found: String,
    },
    /// The array is there and cannot be used.
    #[error("array `{array}`: {problem}")]
    Array {
        /// Its name.
        array: String,
        /// What was found and what is allowed.
        problem: String,
    },
}

/// An array in C (row-major) order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Lengths of the dimensions: none for a scalar, at most two.
    pub shape: Vec<usize>,
    /// The elements.
    pub values: Vec<f64>,
}

/// An opened archive.
pub struct Npz<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
}

impl std::fmt::Debug for Npz<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Npz").field("arrays", &self.names()).finish()
    }
}

impl<'a> Npz<'a> {
    /// Reads the directory of the archive.
    pub fn open(bytes: &'a [u8]) -> Result<Self, NpzError> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(NpzError::FileTooLarge { found: bytes.len() });
        }
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| NpzError::NotAnArchive(error.to_string()))?;
        Ok(Self { archive })
    }

    /// The names of the arrays, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = (0..self.archive.len())
            .filter_map(|index| self.archive.name_for_index(index)?.ok())
            .map(|name| name.strip_suffix(".npy").unwrap_or(&name).to_string())
            .collect();
        names.sort_unstable();
        names
    }

    /// Reads one array.
    pub fn array(&mut self, name: &str) -> Result<Array, NpzError> {
        let bytes = self.unpack(name)?;
        parse_npy(&bytes).map_err(|problem| NpzError::Array { array: name.to_string(), problem })
    }

    fn unpack(&mut self, name: &str) -> Result<Vec<u8>, NpzError> {
        let refuse = |problem: String| NpzError::Array { array: name.to_string(), problem };
        let Some(index) = self.archive.index_for_name(&format!("{name}.npy")) else {
            let names = self.names();
            let found = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            return Err(NpzError::Missing { array: name.to_string(), found });
        };
        let unpackable = |error: &dyn std::fmt::Display| refuse(format!("cannot be unpacked ({error})"));
        let entry = self.archive.by_index(index).map_err(|error| unpackable(&error))?;
        // The size in the directory may lie, so the reader is limited too.
        let mut bytes = Vec::new();
        entry.take(MAX_ENTRY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| unpackable(&error))?;
        if bytes.len() > MAX_ENTRY_BYTES {
            return Err(refuse(format!("has more than {MAX_ENTRY_BYTES} bytes; allowed: up to that")));
        }
        Ok(bytes)
    }
}

/// Reads a `.npy` file of format 1, 2 or 3.
pub fn parse_npy(bytes: &[u8]) -> Result<Array, String> {
    let (text, data) = split(bytes)?;
    let header = Header::parse(text)?;
    let elements = header.elements()?;
    let expected = elements * header.kind.size();
    if data.len() != expected {
        return Err(format!("has {} bytes of data; its header says {expected}", data.len()));
    }
    let mut values = decode(data, header.kind, header.big_endian);
    if header.fortran_order && header.shape.len() == 2 {
        values = to_row_major(&values, header.shape[0], header.shape[1]);
    }
    Ok(Array { shape: header.shape, values })
}

/// The header text and the data after it.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let after_magic = bytes.strip_prefix(MAGIC).ok_or("does not start like a .npy file")?;
    let (version, rest) = after_magic.split_first_chunk::<2>().ok_or("ends inside its header")?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk::<2>().map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        other => return Err(format!("has .npy version {other}; allowed: 1, 2, 3")),
    }
    .ok_or("ends inside its header")?;
    if length > MAX_HEADER_BYTES {
        return Err(format!("has a header of {length} bytes; allowed: up to {MAX_HEADER_BYTES}"));
    }
    let (text, data) = rest.split_at_checked(length).ok_or("ends inside its header")?;
    Ok((std::str::from_utf8(text).map_err(|_| "has a header that is not UTF-8")?, data))
}

fn decode(data: &[u8], kind: Kind, big_endian: bool) -> Vec<f64> {
    macro_rules! numbers {
        ($type:ty) => {
            data.as_chunks::<{ size_of::<$type>() }>()
                .0
                .iter()
                .map(|chunk| if big_endian { <$type>::from_be_bytes(*chunk) } else { <$type>::from_le_bytes(*chunk) })
                .map(|number| number as f64)
                .collect()
        };
    }
    // `as f64` rounds 64-bit integers above 2^53, far beyond any token count.
    #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one macro for all number types")]
    match kind {
        Kind::F8 => numbers!(f64),
        Kind::F4 => numbers!(f32),
        Kind::I8 => numbers!(i64),
        Kind::I4 => numbers!(i32),
        Kind::I2 => numbers!(i16),
        Kind::I1 => numbers!(i8),
        Kind::U8 => numbers!(u64),
        Kind::U4 => numbers!(u32),
        Kind::U2 => numbers!(u16),
        Kind::U1 => numbers!(u8),
    }
}

fn to_row_major(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows).flat_map(|row| (0..columns).map(move |column| values[column * rows + row])).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;

    /// A version-1 `.npy` file.
    pub(crate) fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    /// A `float64` vector as `.npy`.
    pub(crate) fn vector(values: &[f64]) -> Vec<u8> {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        npy("<f8", "False", &format!("({},)", values.len()), &data)
    }

    /// A `float64` matrix as `.npy`.
    pub(crate) fn matrix(values: &[f64], rows: usize, columns: usize) -> Vec<u8> {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        npy("<f8", "False", &format!("({rows}, {columns})"), &data)
    }

    /// An archive of arrays.
    pub(crate) fn npz(arrays: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in arrays {
            let options = SimpleFileOptions::default().compression_method(method);
            writer.start_file(format!("{name}.npy"), options).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn every_number_type_and_byte_order_reads_as_the_same_values() {
        macro_rules! check {
            ($type:ty, $code:literal) => {
                let values = [1 as $type, 2 as $type, 100 as $type];
                let little: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                let big: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
                for (order, data) in [("<", little), (">", big)] {
                    let array = parse_npy(&npy(&format!("{order}{}", $code), "False", "(3,)", &data)).unwrap();
                    assert_eq!(array, Array { shape: vec![3], values: vec![1.0, 2.0, 100.0] }, "{order}{}", $code);
                }
            };
        }
        check!(f64, "f8");
        check!(f32, "f4");
        check!(i64, "i8");
        check!(i32, "i4");
        check!(i16, "i2");
        check!(u64, "u8");
        check!(u32, "u4");
        check!(u16, "u2");
        assert_eq!(parse_npy(&npy("|i1", "False", "(2,)", &[1, 255])).unwrap().values, [1.0, -1.0]);
        assert_eq!(parse_npy(&npy("|u1", "False", "(2,)", &[1, 255])).unwrap().values, [1.0, 255.0]);
    }

    #[test]
    fn fortran_order_scalars_and_empty_arrays_are_understood() {
        let columns: Vec<u8> = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0f64].iter().flat_map(|v| v.to_le_bytes()).collect();
        let array = parse_npy(&npy("<f8", "True", "(2, 3)", &columns)).unwrap();
        assert_eq!(array, Array { shape: vec![2, 3], values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] });
        let scalar = parse_npy(&npy("<i4", "False", "()", &7i32.to_le_bytes())).unwrap();
        assert_eq!(scalar, Array { shape: vec![], values: vec![7.0] });
        assert_eq!(parse_npy(&npy("<f8", "False", "(0,)", &[])).unwrap().values, [0.0; 0]);
    }

    #[test]
    fn versions_2_and_3_have_a_wider_header_length() {
        for version in [2, 3] {
            let mut bytes = vector(&[1.5]);
            bytes[6] = version;
            bytes.splice(10..10, [0, 0]);
            assert_eq!(parse_npy(&bytes).unwrap().values, [1.5]);
        }
    }

    #[test]
    fn stored_and_deflated_archives_are_read() {
        for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
            let bytes = npz(&[("b", vector(&[1.0, 2.0])), ("a", matrix(&[1.0; 6], 2, 3))], method);
            let mut archive = Npz::open(&bytes).unwrap();
            assert_eq!(archive.names(), ["a", "b"]);
            assert_eq!(archive.array("b").unwrap().values, [1.0, 2.0]);
            assert_eq!(archive.array("a").unwrap().shape, [2, 3]);
        }
    }

    #[test]
    fn a_bomb_is_cut_off_at_the_limit() {
        let bytes = npz(&[("a", vec![0; MAX_ENTRY_BYTES + 5])], zip::CompressionMethod::Deflated);
        assert!(bytes.len() < 100_000);
        let error = Npz::open(&bytes).unwrap().array("a").unwrap_err();
        assert_eq!(error.to_string(), "array `a`: has more than 8398620 bytes; allowed: up to that");
    }
}
