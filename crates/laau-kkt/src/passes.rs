//! Passes over the actions that become vectors.
//!
//! For that, what is written is an argument of its own, so that it cannot be what is read; nothing branches; and a maximum, a minimum or
//! a sum is four of them side by side. Vectors of two doubles, which is what every processor has, are not worth it to the compiler: so
//! each pass is compiled for wider ones, too.

#![expect(
    clippy::inline_always,
    clippy::needless_bitwise_bool,
    reason = "what is compiled for wide vectors is inlined there, and does not branch"
)]

use crate::active_set::Bound;

/// Passes over fewer values than this gain less by wide vectors than it takes to ask for them.
pub(crate) const LONG: usize = 32;

/// Calls a function, whose arguments it is told with their types, with vectors as wide as the processor has, if `length` is worth it.
///
/// Every value is computed by the same operations in the same order (nothing is contracted to a fused multiply-add), so that the bits
/// do not depend on the processor. A closure would do, were it inlined; the method of a structure can be told to be.
macro_rules! wide {
    ($life:lifetime, $length:expr, $pass:ident($($name:ident: $type:ty),*) -> $output:ty) => {{
        struct Pass<$life> {
            $($name: $type),*
        }

        impl<$life> pulp::WithSimd for Pass<$life> {
            type Output = $output;

            #[inline(always)]
            fn with_simd<S: pulp::Simd>(self, _: S) -> $output {
                $pass($(self.$name),*)
            }
        }

        let length = $length;
        let pass = Pass { $($name),* };
        if length < $crate::passes::LONG {
            pulp::WithSimd::with_simd(pass, pulp::Scalar)
        } else {
            pulp::Arch::new().dispatch(pass)
        }
    }};
}
pub(crate) use wide;

/// The actions of utilities that are logarithms, `x₀ r / π`, within the box, and in `slope`, which holds their prices `π`, how fast
/// each falls in its price. An action without a model (`r = 0`) stays where it is.
pub(crate) fn place_logarithms(
    x: &mut [f64],
    slope: &mut [f64],
    model: (&[f64], &[f64]),
    bounds: (&[f64], &[f64]),
) {
    #[inline(always)]
    fn pass(
        x: &mut [f64],
        slope: &mut [f64],
        (at, gain): (&[f64], &[f64]),
        (lower, upper): (&[f64], &[f64]),
    ) {
        let d = x.len();
        let (at, gain, slope) = (&at[..d], &gain[..d], &mut slope[..d]);
        let (lower, upper) = (&lower[..d], &upper[..d]);
        for i in 0..d {
            let (price, falls) = (slope[i], gain[i] > 0.0);
            let inverse = 1.0 / price;
            let priced = if price > 0.0 {
                at[i] * gain[i] * inverse
            } else {
                upper[i]
            };
            let next = if falls { priced } else { at[i] };
            let (above, below) = (next > lower[i], next < upper[i]);
            slope[i] = if falls & above & below {
                next * inverse
            } else {
                0.0
            };
            let within = if below { next } else { upper[i] };
            x[i] = if above { within } else { lower[i] };
        }
    }
    let length = x.len();
    wide!('a, length, pass(x: &'a mut [f64], slope: &'a mut [f64], model: (&'a [f64], &'a [f64]), bounds: (&'a [f64], &'a [f64])) -> ());
}

/// Shortens how far each action can rise to where it alone uses up a slack. Returns whether usage falls in any.
pub(crate) fn shorten(reach: &mut [f64], usage: &[f64], slack: f64) -> bool {
    #[inline(always)]
    fn pass(reach: &mut [f64], usage: &[f64], slack: f64) -> bool {
        let d = reach.len();
        let usage = &usage[..d];
        let mut falls = false;
        for i in 0..d {
            falls |= usage[i] < 0.0;
            let alone = slack / usage[i];
            reach[i] = if usage[i] * reach[i] > slack {
                alone
            } else {
                reach[i]
            };
        }
        falls
    }
    let length = reach.len();
    wide!('a, length, pass(reach: &'a mut [f64], usage: &'a [f64], slack: f64) -> bool)
}

/// What is added to a Hessian: a share of its scale, `scale / size` of an action or its curvature.
pub(crate) fn ridge(out: &mut [f64], x: &[f64], lower: &[f64], terms: (&[f64], &[f64]), share: f64) {
    #[inline(always)]
    fn pass(out: &mut [f64], x: &[f64], lower: &[f64], (scale, curvature): (&[f64], &[f64]), share: f64) {
        let d = out.len();
        let (x, lower, scale, curvature) = (&x[..d], &lower[..d], &scale[..d], &curvature[..d]);
        for i in 0..d {
            let size = x[i].abs() + (x[i] - lower[i]);
            let ridge = share * (scale[i] / size).max(curvature[i]);
            let usable = (ridge > 0.0) & (ridge < f64::INFINITY);
            out[i] = if usable { ridge } else { 1.0 };
        }
    }
    let length = out.len();
    wide!('a, length, pass(out: &'a mut [f64], x: &'a [f64], lower: &'a [f64], terms: (&'a [f64], &'a [f64]), share: f64) -> ());
}

/// The inverses of a diagonal Hessian and its ridge on the free actions, 0 elsewhere; whether all of them are numbers.
pub(crate) fn invert(out: &mut [f64], hessian: &[f64], ridge: Option<&[f64]>, bounds: &[Bound]) -> bool {
    #[inline(always)]
    fn pass(out: &mut [f64], hessian: &[f64], ridge: Option<&[f64]>, bounds: &[Bound]) -> bool {
        let d = out.len();
        let (hessian, bounds) = (&hessian[..d], &bounds[..d]);
        let mut regular = true;
        let mut put = |out: &mut f64, h: f64, bound: Bound| {
            let free = bound == Bound::Free;
            regular &= !free | ((h > f64::MIN_POSITIVE) & (h < f64::INFINITY));
            let inverse = 1.0 / h;
            *out = if free { inverse } else { 0.0 };
        };
        if let Some(ridge) = ridge {
            let ridge = &ridge[..d];
            for i in 0..d {
                put(&mut out[i], hessian[i] + ridge[i], bounds[i]);
            }
        } else {
            for i in 0..d {
                put(&mut out[i], hessian[i], bounds[i]);
            }
        }
        regular
    }
    let length = out.len();
    wide!('a, length, pass(out: &'a mut [f64], hessian: &'a [f64], ridge: Option<&'a [f64]>, bounds: &'a [Bound]) -> bool)
}

/// Takes a step in the actions that are off their bounds. One that ends within a share `onto` of its way from a bound ends on it. Returns
/// the largest change, relative to the size of its action.
pub(crate) fn take_step(
    x: &mut [f64],
    change: &mut [f64],
    dx: &[f64],
    bounds: &[Bound],
    limits: (&[f64], &[f64]),
    onto: f64,
) -> f64 {
    #[inline(always)]
    fn pass(
        x: &mut [f64],
        change: &mut [f64],
        dx: &[f64],
        bounds: &[Bound],
        (lower, upper): (&[f64], &[f64]),
        onto: f64,
    ) -> f64 {
        let d = x.len();
        let (change, dx, bounds) = (&mut change[..d], &dx[..d], &bounds[..d]);
        let (lower, upper) = (&lower[..d], &upper[..d]);
        for i in 0..d {
            let (before, free) = (x[i], bounds[i] == Bound::Free);
            let (below, above) = (before - lower[i], upper[i] - before);
            let after = before + dx[i];
            let (low, high) = (after - lower[i] < onto * below, upper[i] - after < onto * above);
            let after = if high { upper[i] } else { after };
            let after = if low { lower[i] } else { after };
            x[i] = if free { after } else { before };
            let relative = dx[i].abs() / (before.abs() + below.abs());
            change[i] = if free { relative } else { UNMOVED };
        }
        largest(change)
    }
    let length = x.len();
    wide!('a, length, pass(x: &'a mut [f64], change: &'a mut [f64], dx: &'a [f64], bounds: &'a [Bound], limits: (&'a [f64], &'a [f64]), onto: f64) -> f64)
}

/// The change of an action that does not take part in a step.
const UNMOVED: f64 = -1.0;

/// The largest change of those that moved. After one that is not a number, the maximum begins anew: a NaN is not lost at the end.
fn largest(changes: &[f64]) -> f64 {
    let larger = |largest: f64, change: f64| if change <= largest { largest } else { change };
    let (fours, rest) = changes.as_chunks::<4>();
    let (mut lanes, mut numbers) = ([0.0; 4], true);
    for four in fours {
        for lane in 0..4 {
            numbers &= !four[lane].is_nan();
            lanes[lane] = larger(lanes[lane], four[lane]);
        }
    }
    let moved = |change: &&f64| **change != UNMOVED;
    if numbers {
        let all = lanes.iter().chain(rest);
        all.filter(moved).fold(0.0, |most, change| larger(most, *change))
    } else {
        let all = changes.iter();
        all.filter(moved).fold(0.0, |most, change| larger(most, *change))
    }
}

/// The least of `(scale + |curvature x|) / |usage|` over the actions with a usage, of all or of those off their bounds; infinite if there
/// is none. Writes over `sizes`.
pub(crate) fn least_size(
    sizes: &mut [f64],
    usage: &[f64],
    bounds: &[Bound],
    point: (&[f64], &[f64], &[f64]),
    every: bool,
) -> f64 {
    #[inline(always)]
    fn pass(
        sizes: &mut [f64],
        usage: &[f64],
        bounds: &[Bound],
        (x, scale, curvature): (&[f64], &[f64], &[f64]),
        every: bool,
    ) -> f64 {
        let d = sizes.len();
        let (usage, bounds) = (&usage[..d], &bounds[..d]);
        let (x, scale, curvature) = (&x[..d], &scale[..d], &curvature[..d]);
        for i in 0..d {
            let terms = scale[i] + curvature[i].abs() * x[i].abs();
            let counts = (usage[i] != 0.0) & (every | (bounds[i] == Bound::Free));
            let size = terms / usage[i].abs();
            sizes[i] = if counts { size } else { f64::INFINITY };
        }
        let (fours, rest) = sizes.as_chunks::<4>();
        let mut lanes = [f64::INFINITY; 4];
        for four in fours {
            for lane in 0..4 {
                lanes[lane] = if four[lane] < lanes[lane] {
                    four[lane]
                } else {
                    lanes[lane]
                };
            }
        }
        lanes
            .iter()
            .chain(rest)
            .fold(f64::INFINITY, |least, size| least.min(*size))
    }
    let length = sizes.len();
    wide!('a, length, pass(sizes: &'a mut [f64], usage: &'a [f64], bounds: &'a [Bound], point: (&'a [f64], &'a [f64], &'a [f64]), every: bool) -> f64)
}

/// What the actions that move (`slope > 0`) and use a budget use of it, and what they pay for all that they use.
pub(crate) fn used_and_paid(usage: &[f64], x: &[f64], price: &[f64], slope: &[f64]) -> (f64, f64) {
    #[inline(always)]
    fn pass(usage: &[f64], x: &[f64], price: &[f64], slope: &[f64]) -> (f64, f64) {
        const LANES: usize = 4;
        let d = usage.len();
        let (x, price, slope) = (&x[..d], &price[..d], &slope[..d]);
        let (mut used, mut paid) = ([0.0; LANES], [0.0; LANES]);
        let mut add = |i: usize, lane: usize| {
            let counts = (slope[i] > 0.0) & (usage[i] > 0.0);
            let action = if counts { x[i] } else { 0.0 };
            used[lane] += if counts { usage[i] * action } else { 0.0 };
            paid[lane] += if counts { price[i] * action } else { 0.0 };
        };
        let whole = d - d % LANES;
        for first in (0..whole).step_by(LANES) {
            for lane in 0..LANES {
                add(first + lane, lane);
            }
        }
        for i in whole..d {
            add(i, 0);
        }
        (sum(&used), sum(&paid))
    }
    let length = usage.len();
    wide!('a, length, pass(usage: &'a [f64], x: &'a [f64], price: &'a [f64], slope: &'a [f64]) -> (f64, f64))
}

/// A sum, as four sums side by side.
pub(crate) fn sum(values: &[f64]) -> f64 {
    let (fours, rest) = values.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for four in fours {
        for lane in 0..4 {
            lanes[lane] += four[lane];
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + rest.iter().sum::<f64>()
}

/// What the actions of a point are judged by, an entry each.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    /// What the action could still gain, and what of it within reach.
    pub(crate) gains: Vec<f64>,
    pub(crate) reachable: Vec<f64>,
    /// Its stationarity, relative to the terms in it.
    pub(crate) relative: Vec<f64>,
    /// The size of its terms of the priced cost.
    pub(crate) worth: Vec<f64>,
}

/// A point, its stationarity with the scale of the terms in it, and its curvature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point<'a> {
    pub(crate) x: &'a [f64],
    pub(crate) stationarity: &'a [f64],
    pub(crate) scale: &'a [f64],
    pub(crate) curvature: &'a [f64],
}

impl Judged {
    pub(crate) fn new(d: usize) -> Self {
        Self {
            gains: vec![0.0; d],
            reachable: vec![0.0; d],
            relative: vec![0.0; d],
            worth: vec![0.0; d],
        }
    }

    /// Judges every action of a point; `free` and `most` are which may move and how far up they can be payable.
    pub(crate) fn judge(
        &mut self,
        point: Point<'_>,
        (free, most): (&[f64], &[f64]),
        (lower, upper): (&[f64], &[f64]),
    ) {
        let Self {
            gains,
            reachable,
            relative,
            worth,
        } = self;
        weigh(gains, reachable, (point, free, most, lower, upper));
        compare(relative, worth, gains, (point, lower, upper));
    }
}

type Surroundings<'a> = (Point<'a>, &'a [f64], &'a [f64], &'a [f64], &'a [f64]);

fn weigh(gains: &mut [f64], reachable: &mut [f64], surroundings: Surroundings<'_>) {
    #[inline(always)]
    fn pass(gains: &mut [f64], reachable: &mut [f64], (point, free, most, lower, upper): Surroundings<'_>) {
        let d = gains.len();
        let (x, r, curvature) = (&point.x[..d], &point.stationarity[..d], &point.curvature[..d]);
        let (free, most, reachable) = (&free[..d], &most[..d], &mut reachable[..d]);
        let (lower, upper) = (&lower[..d], &upper[..d]);
        for i in 0..d {
            let room = room(r[i], x[i], (lower[i], upper[i]));
            let still = (r[i] == 0.0) | (free[i] == 0.0) | (room == 0.0);
            let (distance, force, curvature) = (r[i].abs() * room, r[i] * r[i], curvature[i].abs());
            let quotient = force / curvature;
            let gain = if force < distance * curvature {
                quotient
            } else {
                distance
            };
            // By convexity no payable action is farther up than where one alone uses up a budget.
            let up = room.min((lower[i] + most[i] - x[i]).max(0.0));
            let way = if r[i] < 0.0 { up } else { room };
            let within = gain.min(r[i].abs() * way);
            gains[i] = if still { 0.0 } else { gain };
            reachable[i] = if still { 0.0 } else { within };
        }
    }
    wide!('a, gains.len(), pass(gains: &'a mut [f64], reachable: &'a mut [f64], surroundings: Surroundings<'a>) -> ());
}

fn compare(
    relative: &mut [f64],
    worth: &mut [f64],
    gains: &[f64],
    surroundings: (Point<'_>, &[f64], &[f64]),
) {
    #[inline(always)]
    fn pass(
        relative: &mut [f64],
        worth: &mut [f64],
        gains: &[f64],
        (point, lower, upper): (Point<'_>, &[f64], &[f64]),
    ) {
        let d = relative.len();
        let (x, r, curvature) = (&point.x[..d], &point.stationarity[..d], &point.curvature[..d]);
        let (scale, worth, gains) = (&point.scale[..d], &mut worth[..d], &gains[..d]);
        let (lower, upper) = (&lower[..d], &upper[..d]);
        for i in 0..d {
            let size = x[i].abs() + (x[i] - lower[i]);
            worth[i] = scale[i] * size;
            let distance = r[i].abs() * room(r[i], x[i], (lower[i], upper[i]));
            let own = r[i].abs() / (scale[i] + curvature[i].abs() * size);
            let near = distance / (scale[i] * size);
            let least = if distance < own * scale[i] * size {
                near
            } else {
                own
            };
            // What gains nothing is not compared; where even that is not known, it must not pass.
            relative[i] = if gains[i] == 0.0 { f64::INFINITY } else { least };
        }
    }
    let length = relative.len();
    wide!('a, length, pass(relative: &'a mut [f64], worth: &'a mut [f64], gains: &'a [f64], surroundings: (Point<'a>, &'a [f64], &'a [f64])) -> ());
}

/// How far an action can go downhill.
#[inline(always)]
fn room(r: f64, x: f64, (lower, upper): (f64, f64)) -> f64 {
    if r > 0.0 { x - lower } else { upper - x }
}

/// The duals of the bounds that hold: of a bound where the stationarity is beyond rounding, and of a box without width on either side.
pub(crate) fn box_duals(
    lower_duals: &mut [f64],
    upper_duals: &mut [f64],
    point: Point<'_>,
    bounds: &[Bound],
    limits: (&[f64], &[f64]),
    tolerance: f64,
) {
    #[inline(always)]
    fn pass(
        lower_duals: &mut [f64],
        upper_duals: &mut [f64],
        point: Point<'_>,
        bounds: &[Bound],
        (lower, upper): (&[f64], &[f64]),
        tolerance: f64,
    ) {
        let d = lower_duals.len();
        let (x, r, curvature) = (&point.x[..d], &point.stationarity[..d], &point.curvature[..d]);
        let (scale, bounds, upper_duals) = (&point.scale[..d], &bounds[..d], &mut upper_duals[..d]);
        let (lower, upper) = (&lower[..d], &upper[..d]);
        for i in 0..d {
            let zero = tolerance * (scale[i] + curvature[i].abs() * x[i].abs());
            let (low, high) = (bounds[i] == Bound::Lower, bounds[i] == Bound::Upper);
            let held = high | (low & (upper[i] <= lower[i]));
            lower_duals[i] = if low & (r[i] > zero) { r[i] } else { 0.0 };
            upper_duals[i] = if held & (-r[i] > zero) { -r[i] } else { 0.0 };
        }
    }
    let length = lower_duals.len();
    wide!('a, length, pass(lower_duals: &'a mut [f64], upper_duals: &'a mut [f64], point: Point<'a>, bounds: &'a [Bound], limits: (&'a [f64], &'a [f64]), tolerance: f64) -> ());
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: usize = 3 * LONG + 7;

    fn values(seed: f64, low: f64, high: f64) -> Vec<f64> {
        let unit = |i: usize| 0.5 + 0.5 * (seed + 1.7 * i as f64).sin();
        (0..D).map(|i| low + (high - low) * unit(i)).collect()
    }

    fn bounds() -> Vec<Bound> {
        let all = [Bound::Free, Bound::Free, Bound::Lower, Bound::Free, Bound::Upper];
        (0..D).map(|i| all[i % all.len()]).collect()
    }

    /// Runs a pass over all values at once, in wide vectors, and over a few at a time, in narrow ones.
    fn both_ways(mut pass: impl FnMut(std::ops::Range<usize>) -> Vec<f64>) {
        let at_once: Vec<u64> = pass(0..D).iter().map(|value| value.to_bits()).collect();
        let mut columns = vec![Vec::new(); at_once.len() / D];
        for start in (0..D).step_by(LONG - 1) {
            let range = start..(start + LONG - 1).min(D);
            let part = pass(range.clone());
            for (column, values) in columns.iter_mut().zip(part.chunks(range.len())) {
                column.extend(values.iter().map(|value| value.to_bits()));
            }
        }
        assert_eq!(at_once, columns.concat());
    }

    #[test]
    fn wide_vectors_give_the_bits_of_narrow_ones() {
        let (x, lower, upper) = (
            values(0.1, 0.2, 9.0),
            values(0.2, 0.0, 0.3),
            values(0.3, 5.0, 9.0),
        );
        let (gain, price, usage) = (
            values(0.4, -0.2, 3.0),
            values(0.5, -0.1, 2.0),
            values(0.6, -0.1, 1.0),
        );
        let (scale, curvature, bounds) = (values(0.7, 0.1, 2.0), values(0.8, 0.01, 2.0), bounds());
        both_ways(|at| {
            let (mut out, mut slope) = (x[at.clone()].to_vec(), price[at.clone()].to_vec());
            let limits = (&lower[at.clone()], &upper[at.clone()]);
            place_logarithms(&mut out, &mut slope, (&x[at.clone()], &gain[at]), limits);
            [out, slope].concat()
        });
        both_ways(|at| {
            let mut reach = upper[at.clone()].to_vec();
            shorten(&mut reach, &usage[at], 2.0);
            reach
        });
        both_ways(|at| {
            let (mut ridges, mut inverses) = (x[at.clone()].to_vec(), x[at.clone()].to_vec());
            let terms = (&scale[at.clone()], &curvature[at.clone()]);
            ridge(&mut ridges, &x[at.clone()], &lower[at.clone()], terms, 1e-3);
            invert(&mut inverses, &curvature[at.clone()], Some(&ridges), &bounds[at]);
            [ridges, inverses].concat()
        });
        both_ways(|at| {
            let (mut moved, mut change) = (x[at.clone()].to_vec(), x[at.clone()].to_vec());
            let limits = (&lower[at.clone()], &upper[at.clone()]);
            take_step(
                &mut moved,
                &mut change,
                &gain[at.clone()],
                &bounds[at],
                limits,
                0.1,
            );
            [moved, change].concat()
        });
        both_ways(|at| {
            let point = Point {
                x: &x[at.clone()],
                stationarity: &gain[at.clone()],
                scale: &scale[at.clone()],
                curvature: &curvature[at.clone()],
            };
            let limits = (&lower[at.clone()], &upper[at.clone()]);
            let mut judged = Judged::new(at.len());
            judged.judge(point, (&usage[at.clone()], &upper[at.clone()]), limits);
            let (mut low, mut high) = (vec![0.0; at.len()], vec![0.0; at.len()]);
            box_duals(&mut low, &mut high, point, &bounds[at], limits, 1e-3);
            [
                judged.gains,
                judged.reachable,
                judged.relative,
                judged.worth,
                low,
                high,
            ]
            .concat()
        });
    }

    #[test]
    fn the_largest_change_and_the_least_size_are_those_of_all() {
        let mut changes = values(0.1, 0.0, 1.0);
        changes[40] = UNMOVED;
        changes[17] = 3.0;
        assert_eq!(largest(&changes), 3.0);
        changes[D - 1] = f64::NAN;
        assert!(largest(&changes).is_nan());
        assert_eq!(largest(&[UNMOVED; 5]), 0.0);

        let (x, mut scale, mut usage) = (vec![1.0; D], vec![3.0; D], vec![1.0; D]);
        let (curvature, bounds, mut sizes) = (vec![1.0; D], bounds(), vec![0.0; D]);
        (scale[2], scale[5], usage[10]) = (0.5, 1.5, 0.0);
        let mut least = |every| least_size(&mut sizes, &usage, &bounds, (&x, &scale, &curvature), every);
        assert_eq!((least(false), least(true)), (2.5, 1.5));
    }
}
