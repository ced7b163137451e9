//! The episodes table.

use laau_core::Episodes;
use laau_data::{inspect_episodes, read_episodes, write_episodes};
use proptest::prelude::*;

use crate::files::Folder;

/// Checks the message of an episodes table.
fn refuse(content: &str, expected: &str) {
    let folder = Folder::new();
    let path = folder.write("e.csv", content);
    let error = read_episodes(path.as_ref()).unwrap_err();
    assert_eq!(folder.strip(&error), expected);
}

const HEADER: &str = "episode,step,context,budget\n";

#[test]
fn missing_steps_and_rows_out_of_order() {
    let with = |rows: &str, expected: &str| refuse(&format!("{HEADER}{rows}"), expected);
    with(
        "0,0,.1,9\n0,2,.1,9\n",
        "e.csv, row 3, column `step`: episode 0: expected step 1, found 2",
    );
    with(
        "0,1,.1,9\n",
        "e.csv, row 2, column `step`: episode 0: expected step 0, found 1",
    );
    with(
        "0,0,.1,9\n0,0,.1,9\n",
        "e.csv, row 3, column `step`: episode 0: expected step 1, found 0",
    );
    with(
        "0,0,.1,9\n0,1,.1,9\n1,0,.1,9\n",
        "e.csv, row 4, column `step`: episode 1: expected 2 steps as in the first episode, found 1",
    );
    with(
        "0,0,.1,9\n0,1,.1,9\n1,0,.1,9\n2,0,.1,9\n",
        "e.csv, row 4, column `step`: episode 1: expected 2 steps as in the first episode, found 1",
    );
    with(
        "0,0,.1,9\n1,0,.1,9\n1,1,.1,9\n",
        "e.csv, row 4, column `step`: episode 1: expected 1 steps as in the first episode, found more",
    );
    with(
        "3,0,.1,9\n2,0,.1,9\n",
        "e.csv, row 3, column `episode`: episode 2: expected ascending episodes, found it after 3",
    );
}

#[test]
fn differing_and_negative_budgets() {
    refuse(
        "episode,step,context,budget_0,budget_1\n0,0,.1,9,8\n0,1,.1,9,7.5\n",
        "e.csv, row 3, column `budget_1`: episode 0: expected the budget of its first row, 8, found 7.5",
    );
    refuse(
        "episode,step,context,budget\n0,0,.1,-9\n",
        "e.csv, row 2, column `budget`: episode 0: expected a budget ≥ 0, found -9",
    );
}

#[test]
fn cells_and_columns_that_do_not_fit() {
    refuse(
        "episode,step,context,budget\n0,0,NaN,9\n",
        "e.csv, row 2, column `context`: expected a finite number, found `NaN`",
    );
    refuse(
        "episode,step,context,budget\n-1,0,.1,9\n",
        "e.csv, row 2, column `episode`: expected a whole number from 0 to 4294967295, found -1",
    );
    refuse(
        "episode,step,context,budget\n0,0,.1\n",
        "e.csv, row 2: expected 4 columns, found 3",
    );
    refuse(
        "episode,step,context\n0,0,.1\n",
        "e.csv: expected a column `budget`, found episode, step, context",
    );
    refuse(
        "episode,step,context_0,context_2,budget\n0,0,.1,.2,9\n",
        "e.csv: expected a column `context_1`, found episode, step, context_0, context_2, budget",
    );
    refuse(
        "step,context,budget\n0,.1,9\n",
        "e.csv: expected a column `episode`, found step, context, budget",
    );
    refuse(HEADER, "e.csv: expected rows below the header, found none");
    refuse(
        "",
        "e.csv: the file has no rows, expected columns named in a header",
    );
}

#[test]
fn files_that_are_missing_or_have_another_ending() {
    let folder = Folder::new();
    let error = read_episodes(&folder.path().join("none.csv")).unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "none.csv: No such file or directory (os error 2)"
    );
    let episodes = Episodes::new(1, 1, 1, vec![0.5], vec![1.0]).unwrap();
    let error = write_episodes(&folder.path().join("e.txt"), &episodes).unwrap_err();
    assert_eq!(
        folder.strip(&error),
        "invalid path: expected an ending .parquet, .pq or .csv, found `e.txt`"
    );
    let error = write_episodes(&folder.path().join("none/e.csv"), &episodes).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("No such file or directory (os error 2)"),
        "{error}"
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn further_columns_and_any_numbers_are_allowed() {
    let folder = Folder::new();
    let path = folder.write(
        "e.csv.gz",
        "note,step,episode,budget,context\nx,0,3,9,.1\n,1,3,9,.2\ny,0,7,8,.3\n,1,7,8,.4\n",
    );
    let episodes = read_episodes(path.as_ref()).unwrap();
    assert_eq!(
        episodes,
        Episodes::new(2, 1, 1, vec![0.1, 0.2, 0.3, 0.4], vec![9.0, 8.0]).unwrap()
    );
}

#[test]
fn a_table_is_written_in_the_documented_columns() {
    let folder = Folder::new();
    let path = folder.path().join("e.csv");
    let episodes = Episodes::new(2, 2, 1, vec![0.1, 0.2, 0.3, 0.4], vec![9.0]).unwrap();
    write_episodes(&path, &episodes).unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "episode,step,context_0,context_1,budget\n0,0,0.1,0.2,9.0\n0,1,0.3,0.4,9.0\n"
    );
    let statistics = inspect_episodes(&episodes);
    assert_eq!((statistics.episodes, statistics.horizon), (1, 2));
    assert_eq!(statistics.contexts[1].name, "context_1");
    assert_eq!(statistics.contexts[1].max, 0.4);
    assert_eq!(statistics.budgets_per_step[0].mean, 4.5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_written_is_read_back_bit_by_bit(
        (horizon, width, resources, contexts, budgets) in (1usize..6, 1usize..4, 1usize..4, 1usize..5).prop_flat_map(
            |(horizon, width, resources, count)| (
                Just(horizon),
                Just(width),
                Just(resources),
                prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL, horizon * width * count),
                prop::collection::vec(0.0..1e300f64, resources * count),
            )
        )
    ) {
        let folder = Folder::new();
        let episodes = Episodes::new(horizon, width, resources, contexts, budgets).unwrap();
        for name in ["e.csv", "e.parquet", "e.pq"] {
            let path = folder.path().join(name);
            write_episodes(&path, &episodes).unwrap();
            let read = read_episodes(&path).unwrap();
            prop_assert_eq!(&read, &episodes);
            for (a, b) in read.contexts().iter().zip(episodes.contexts()) {
                prop_assert_eq!(a.to_bits(), b.to_bits());
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn a_link_is_not_replaced_by_a_table() {
    let folder = Folder::new();
    let (old, link) = (folder.path().join("old.csv"), folder.path().join("link.csv"));
    std::fs::write(&old, "kept").unwrap();
    std::os::unix::fs::symlink(&old, &link).unwrap();
    let episodes = laau_core::Episodes::new(1, 1, 1, vec![1.0], vec![5.0]).unwrap();
    let error = laau_data::write_episodes(&link, &episodes).unwrap_err();
    assert!(
        error.to_string().ends_with("expected a regular file, or none"),
        "{error}"
    );
    assert_eq!(std::fs::read(&link).unwrap(), b"kept");
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
