//! The certificate never says less than the truth, and says little of what is optimal.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT};
use laau_audit::certificate::{Shape, certify};
use laau_audit::custom::Form;
use laau_audit::draw::{Size, context, recipe_of};
use laau_audit::recipe::{Kind, Recipe};
use laau_core::problems::{LogUtility, VmAllocation};
use laau_core::{Problem, Query, SmoothProblem};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// `l + λᵀg`.
fn priced(problem: &dyn SmoothProblem, query: Query<'_>, action: &[f64]) -> f64 {
    let mut usage = vec![0.0; query.available.len()];
    problem.usage(action, query.context, &mut usage);
    let paid: f64 = usage.iter().zip(query.multiplier).map(|(u, l)| u * l).sum();
    problem.cost(action, query.context) + paid
}

/// Action and budget duals of a coupled quadratic by clarabel.
fn by_clarabel(recipe: &Recipe, query: Query<'_>) -> (Vec<f64>, Vec<f64>) {
    let d = recipe.actions();
    let mut hessian = vec![vec![0.0; d]; d];
    let mut linear: Vec<f64> = query.context.iter().map(|c| -c).collect();
    for i in 0..d {
        for j in i..d {
            hessian[i][j] = recipe.parameter * (recipe.weights[i] * recipe.weights[j]).sqrt();
        }
        hessian[i][i] += recipe.weights[i];
        for (m, price) in query.multiplier.iter().enumerate() {
            linear[i] += price * recipe.matrix[m * d + i];
        }
    }
    let mut rows: Vec<Vec<f64>> = recipe.matrix.chunks_exact(d).map(<[f64]>::to_vec).collect();
    let mut right = query.available.to_vec();
    for i in 0..d {
        for (sign, bound) in [(1.0, recipe.upper[i]), (-1.0, -recipe.lower[i])] {
            let mut row = vec![0.0; d];
            row[i] = sign;
            rows.push(row);
            right.push(bound);
        }
    }
    let settings = DefaultSettingsBuilder::default()
        .verbose(false)
        .tol_gap_abs(1e-13)
        .tol_gap_rel(1e-13)
        .tol_feas(1e-12)
        .build()
        .unwrap();
    let cones = [NonnegativeConeT(rows.len())];
    let mut solver = DefaultSolver::new(
        &CscMatrix::from(&hessian[..]),
        &linear,
        &CscMatrix::from(&rows[..]),
        &right,
        &cones,
        settings,
    )
    .unwrap();
    solver.solve();
    let x = solver.solution.x.iter().enumerate();
    let action = x
        .map(|(i, x)| x.clamp(recipe.lower[i], recipe.upper[i]))
        .collect();
    let duals = solver.solution.z[..query.available.len()]
        .iter()
        .map(|z| z.max(0.0))
        .collect();
    (action, duals)
}

#[test]
fn quadratic_programmes_are_certified_as_clarabel_solves_them() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let size = Size {
        actions: 6,
        budgets: 3,
        wild: 0.0,
    };
    for number in 0..60 {
        let recipe = recipe_of(Kind::Custom(Form::Quadratic), &mut rng, size);
        let problem = recipe.build().unwrap();
        let context = context(&recipe, &mut rng, 0.0);
        let mut available = vec![0.0; recipe.budgets];
        let middle: Vec<f64> = (0..recipe.actions())
            .map(|i| recipe.lower[i] + 0.4 * (recipe.upper[i] - recipe.lower[i]))
            .collect();
        problem.usage(&middle, &context, &mut available);
        for b in &mut available {
            *b += 0.1;
        }
        let multiplier: Vec<f64> = (0..recipe.budgets).map(|_| rng.random_range(0.0..0.5)).collect();
        let query = Query {
            context: &context,
            multiplier: &multiplier,
            available: &available,
        };
        let (action, duals) = by_clarabel(&recipe, query);
        let shape = (&recipe.shape(), true);
        let right = certify(&*problem, shape, query, &action, &duals);
        let gap = right.slackness + right.stationarity;
        // Clarabel's zero is 1e-15, and an optimum at zero has no size of its own.
        assert!(gap < 1e-7 * right.scale + 1e-12, "instance {number}: {right:?}");
        // A little towards the lower corner is payable and worse; the certificate says at least how much.
        let worse: Vec<f64> = (0..action.len())
            .map(|i| action[i] + 0.02 * (recipe.lower[i] - action[i]))
            .collect();
        let wrong = certify(&*problem, shape, query, &worse, &duals);
        let truth = priced(&*problem, query, &worse) - priced(&*problem, query, &action);
        let gap = wrong.slackness + wrong.stationarity;
        assert!(
            gap >= truth - 1e-9 * wrong.scale,
            "instance {number}: {gap} of {truth}"
        );
    }
}

#[test]
fn a_right_answer_of_a_separable_problem_is_accepted_and_a_wrong_one_is_not() {
    let problem = LogUtility::new(2, 1, vec![1.0, 2.0], 0.1, 1e12).unwrap();
    let query = Query {
        context: &[1.0, 1.0],
        multiplier: &[0.0],
        available: &[4.0],
    };
    let certify = |action: &[f64], dual: f64| {
        certify(&problem, (&Shape::Separable, true), query, action, &[dual]).relative()
    };
    assert!(certify(&[2.0, 1.0], 0.5) < 1e-14);
    for (action, dual) in [
        ([2.0, 1.0], 0.4),
        ([2.0, 1.0], 0.0),
        ([2.1, 0.95], 0.5),
        ([1.9, 1.0], 0.5),
        ([0.1, 0.1], 0.5),
    ] {
        assert!(certify(&action, dual) > 1e-4, "{action:?} with {dual}");
    }
}

#[test]
fn a_right_answer_of_vm_allocation_is_accepted_in_a_box_of_any_width() {
    // Equal shares and prices: y = x, and w/x² = λ at α = 2, halved for each of the two shares.
    for upper in [40.0, 1e6, 1e12] {
        let problem = VmAllocation::new(2.0, vec![0.5; 2], vec![upper; 2]).unwrap();
        let query = Query {
            context: &[8.0, 0.5, 0.5],
            multiplier: &[1.0, 1.0],
            available: &[upper, upper],
        };
        let certify = |x: f64, z: f64| {
            certify(&problem, (&Shape::Homogeneous, true), query, &[x, z], &[0.0; 2]).relative()
        };
        assert!(certify(2.0, 2.0) < 1e-12, "{:e}", certify(2.0, 2.0));
        for (x, z) in [(2.0, 2.1), (2.02, 2.02), (0.5, 2.0)] {
            assert!(certify(x, z) > 1e-5, "{x}, {z}: {:e}", certify(x, z));
        }
        assert_eq!(problem.dimensions().budgets, 2);
    }
}

#[test]
fn where_only_the_corner_can_be_paid_no_dual_is_needed() {
    // Usage ½ x² from 0 with nothing available: no finite dual is optimal, and none is asked for.
    let recipe = Recipe {
        kind: Kind::Custom(Form::Exponential),
        budgets: 1,
        lower: vec![0.0],
        upper: vec![1.0],
        matrix: vec![1.0],
        weights: vec![1.0],
        parameter: 0.0,
        most: 0.0,
    };
    let problem = recipe.build().unwrap();
    let query = Query {
        context: &[1.0, 0.0],
        multiplier: &[0.0],
        available: &[0.0],
    };
    let certificate = certify(&*problem, (&Shape::Separable, true), query, &[0.0], &[0.0]);
    assert!(certificate.relative() < 1e-12, "{certificate:?}");
}
