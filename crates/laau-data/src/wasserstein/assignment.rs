//! The cheapest assignment, by shortest augmenting paths.

use crate::error::Error;

/// A cheapest assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The column of each row.
    pub columns: Vec<usize>,
    /// The sum of the costs of the chosen cells.
    pub cost: f64,
}

/// The cheapest assignment of `count` rows to as many columns; `costs` is row-major. `count³` steps at worst.
///
/// Rows join one at a time. Each looks for the shortest path of alternately free and taken cells to a free column, in
/// costs reduced by potentials `u`, `v` that keep `cost − u − v ≥ 0` everywhere and `= 0` on taken cells.
///
/// # Errors
/// [`Error::Invalid`] when the table is not `count × count`, empty, or not finite.
pub fn assignment(costs: &[f64], count: usize) -> Result<Assignment, Error> {
    let invalid = |reason: String| Error::Invalid {
        what: "table of costs",
        reason,
    };
    if count == 0 || Some(costs.len()) != count.checked_mul(count) {
        return Err(invalid(format!(
            "expected a square one of at least one row, found {} values for {count} rows",
            costs.len()
        )));
    }
    if let Some(value) = costs.iter().find(|value| !value.is_finite()) {
        return Err(invalid(format!("expected finite values, found {value}")));
    }

    let mut columns = vec![0; count];
    let mut row_of = vec![None; count];
    let mut u: Vec<f64> = costs
        .chunks_exact(count)
        .map(|row| row.iter().fold(f64::INFINITY, |least, cost| least.min(*cost)))
        .collect();
    let mut v = vec![0.0; count];
    let mut distance = vec![0.0; count];
    let mut came_from = vec![0; count];
    let mut done = vec![false; count];
    for start in 0..count {
        distance.fill(f64::INFINITY);
        done.fill(false);
        // Dijkstra from `start` to the nearest free column.
        let (mut row, mut reached) = (start, 0.0);
        let end = loop {
            let (mut nearest, mut least) = (0, f64::INFINITY);
            let row_costs = &costs[row * count..][..count];
            for column in 0..count {
                if done[column] {
                    continue;
                }
                // Below zero by rounding alone.
                let through = reached + (row_costs[column] - u[row] - v[column]).max(0.0);
                if through < distance[column] {
                    distance[column] = through;
                    came_from[column] = row;
                }
                if distance[column] < least {
                    least = distance[column];
                    nearest = column;
                }
            }
            done[nearest] = true;
            reached = least;
            match row_of[nearest] {
                None => break nearest,
                Some(taken_by) => row = taken_by,
            }
        };
        // The potentials that make the path's cells free of cost.
        u[start] += reached;
        for column in 0..count {
            if done[column] && column != end {
                if let Some(taken_by) = row_of[column] {
                    u[taken_by] += reached - distance[column];
                }
                v[column] -= reached - distance[column];
            }
        }
        // Give every row of the path the column it came through.
        let mut column = end;
        loop {
            let row = came_from[column];
            row_of[column] = Some(row);
            let given_up = std::mem::replace(&mut columns[row], column);
            if row == start {
                break;
            }
            column = given_up;
        }
    }

    let cost = columns
        .iter()
        .enumerate()
        .map(|(row, &column)| costs[row * count + column])
        .sum();
    Ok(Assignment { columns, cost })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least cost over all permutations.
    fn brute_force(costs: &[f64], count: usize, row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == count {
            return 0.0;
        }
        let mut least = f64::INFINITY;
        for column in 0..count {
            if !taken[column] {
                taken[column] = true;
                least = least.min(costs[row * count + column] + brute_force(costs, count, row + 1, taken));
                taken[column] = false;
            }
        }
        least
    }

    #[test]
    fn a_table_that_is_not_square_or_not_finite_is_refused() {
        let check = |costs: &[f64], count: usize, expected: &str| {
            assert_eq!(
                assignment(costs, count).unwrap_err().to_string(),
                format!("invalid table of costs: {expected}")
            );
        };
        check(
            &[],
            0,
            "expected a square one of at least one row, found 0 values for 0 rows",
        );
        check(
            &[1.0; 3],
            2,
            "expected a square one of at least one row, found 3 values for 2 rows",
        );
        check(&[f64::INFINITY], 1, "expected finite values, found inf");
    }

    proptest! {
        #[test]
        fn the_assignment_is_the_cheapest_permutation(
            count in 1usize..7,
            cells in prop::collection::vec(-5.0..5.0f64, 36),
            coarse in any::<bool>(),
        ) {
            // Coarse costs have many ties.
            let costs: Vec<f64> = cells[..count * count]
                .iter()
                .map(|c| if coarse { c.round() } else { *c })
                .collect();
            let found = assignment(&costs, count).unwrap();
            let mut seen = found.columns.clone();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..count).collect::<Vec<_>>());
            let least = brute_force(&costs, count, 0, &mut vec![false; count]);
            prop_assert!((found.cost - least).abs() < 1e-12, "{} against {}", found.cost, least);
        }
    }
}
