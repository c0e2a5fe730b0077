//! Small `.npz` files: stored zip archives of `.npy` arrays.

/// A one-dimensional array of doubles.
pub(crate) fn vector(values: &[f64]) -> Vec<u8> {
    array(&format!("({},)", values.len()), values)
}

/// A matrix of doubles, row by row.
pub(crate) fn matrix(rows: usize, columns: usize, values: &[f64]) -> Vec<u8> {
    array(&format!("({rows}, {columns})"), values)
}

fn array(shape: &str, values: &[f64]) -> Vec<u8> {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// An archive of named arrays, not compressed.
pub(crate) fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in arrays {
        let name = format!("{name}.npy");
        let mut fields = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        fields.extend(crc32(bytes).to_le_bytes());
        fields.extend((bytes.len() as u32).to_le_bytes());
        fields.extend((bytes.len() as u32).to_le_bytes());
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend((file.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&fields);
        file.extend(name.as_bytes());
        file.extend(bytes);
    }
    let (count, start) = ((arrays.len() as u16).to_le_bytes(), file.len() as u32);
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0, 0]);
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0xEDB8_8320 } else { 0 })
    })
}

/// The arrays of a good profile: every prefill takes `prefill_ms`, every decode pass `decode_ms`.
pub(crate) fn flat_profile(prefill_ms: f64, decode_ms: f64) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("prefill_isl", vector(&[1.0, 10_000.0])),
        ("prefill_ttft_ms", vector(&[prefill_ms; 2])),
        ("decode_active_kv_tokens", vector(&[0.0, 1e6])),
        ("decode_context_length", vector(&[1.0, 10_000.0])),
        ("decode_itl", matrix(2, 2, &[decode_ms; 4])),
    ]
}
