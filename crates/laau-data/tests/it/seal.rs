//! The digest of an episodes table in Parquet.

use laau_core::Episodes;
use laau_data::{TableColumn, Values, read_episodes, write_episodes, write_table};

use crate::files::Folder;

fn episodes() -> Episodes {
    let contexts: Vec<f64> = (0..60).map(|number| f64::from(number) / 64.0).collect();
    Episodes::new(5, 2, 1, contexts, (0..6).map(f64::from).collect()).unwrap()
}

#[test]
fn a_flipped_bit_is_refused() {
    let folder = Folder::new();
    let path = folder.path().join("e.parquet");
    write_episodes(&path, &episodes()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place * 5 % 8);
        std::fs::write(&path, damaged).unwrap();
        assert!(read_episodes(&path).is_err(), "byte {place}");
    }
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(read_episodes(&path).is_err(), "cut to {length} bytes");
    }
    std::fs::write(&path, whole).unwrap();
    assert_eq!(read_episodes(&path).unwrap(), episodes());
}

#[test]
fn damage_is_told_in_words() {
    let folder = Folder::new();
    let path = folder.path().join("e.parquet");
    let tenth = Episodes::new(1, 1, 1, vec![0.1], vec![1.0]).unwrap();
    write_episodes(&path, &tenth).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = read_episodes(&path).unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "e.parquet: cannot be read after row 0: the file is damaged: its bytes do not match its digest"
    );
}

#[test]
fn a_file_of_another_program_needs_no_digest() {
    let folder = Folder::new();
    let path = folder.path().join("e.parquet");
    let column = |name: &str, values: Vec<f64>| TableColumn::new(name, Values::Numbers(values));
    let count = |name: &str, values: Vec<u64>| TableColumn::new(name, Values::Counts(values));
    let columns = vec![
        count("episode", vec![0, 0]),
        count("step", vec![0, 1]),
        column("context", vec![0.25, 0.5]),
        column("budget", vec![9.0, 9.0]),
    ];
    write_table(&path, columns).unwrap();
    let expected = Episodes::new(2, 1, 1, vec![0.25, 0.5], vec![9.0]).unwrap();
    assert_eq!(read_episodes(&path).unwrap(), expected);
}
