//! How bytes are spoiled.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Pieces that parsers stumble over.
const PIECES: &[&[u8]] = &[
    b"\0",
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"\xff\xfe",
    b"\xc0\xaf",
    b"%00",
    b"%2e%2e%2f",
    b"../",
    b"..\\",
    b"//",
    b"?",
    b"#",
    b"%",
    b"%zz",
    b"NaN",
    b"Infinity",
    b"-0",
    b"1e999",
    b"1e-999",
    b"1e308",
    b"-1",
    b"18446744073709551616",
    b"0x10",
    b"null",
    b"[]",
    b"{}",
    b"\"",
    b"[[[[",
    b"}}}}",
    b",",
    b":",
    b"\\u0000",
    b"\\ud800",
    b"true",
    b"\xe2\x80\xae",
    b" ",
    b"\t",
    b"'",
    b"$(",
    b"%s%n",
    b";",
    b"A",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"HTTP/0.9",
    b"HTTP/3.0",
];

/// Spoils bytes in one to six places.
pub(super) fn mutate(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    for _ in 0..random.random_range(1..=6) {
        mutate_once(bytes, random);
    }
}

fn mutate_once(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    let place = random.random_range(0..=bytes.len());
    let within = place.min(bytes.len().saturating_sub(1));
    match random.random_range(0..8) {
        _ if bytes.is_empty() => bytes.push(random.random()),
        0 => bytes[within] ^= 1 << random.random_range(0..8),
        1 => bytes[within] = random.random(),
        2 => {
            bytes.remove(within);
        }
        3 => bytes.truncate(place),
        4 => {
            let piece = PIECES[random.random_range(0..PIECES.len())];
            bytes.splice(place..place, piece.iter().copied());
        }
        5 => {
            // A part of itself once more.
            let end = (within + random.random_range(1..64)).min(bytes.len());
            let part = bytes[within..end].to_vec();
            bytes.splice(place..place, part);
        }
        6 => {
            let end = (within + random.random_range(1..32)).min(bytes.len());
            bytes.drain(within..end);
        }
        _ => {
            // A long run.
            let byte = bytes[within];
            let length = 1 << random.random_range(4..13);
            bytes.splice(place..place, std::iter::repeat_n(byte, length));
        }
    }
}
