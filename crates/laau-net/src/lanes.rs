//! Vectors of doubles or of singles behind one interface: the code of the network is written once for both.
//!
//! A single has half the bits of a double, so that a vector holds twice as many. Everything is inlined: what is called here
//! becomes the instruction of the vector type, and for doubles nothing is converted or copied.

use std::ops::{AddAssign, DerefMut};

use pulp::Simd;

use crate::math;

/// Numbers in memory. Doubles, which are not converted, do not even look where it begins.
pub(crate) trait Room<T>: DerefMut<Target = [T]> {}

impl<T, R: DerefMut<Target = [T]>> Room<T> for R {}

/// The numbers that a network is computed in.
pub(crate) trait Real: Copy + Default + AddAssign + Send + Sync + 'static {
    /// Vectors of it, with the instructions of `S`.
    type Lanes<S: Simd>: Lanes<Real = Self>;

    fn lanes<S: Simd>(simd: S) -> Self::Lanes<S>;

    /// The nearest number to a double.
    fn of(value: f64) -> Self;

    fn double(self) -> f64;

    /// Converts doubles.
    fn narrow(doubles: &[f64], out: &mut [Self]);

    /// Converts to doubles.
    fn widen(values: &[Self], doubles: &mut [f64]);

    /// Room for as many numbers as [`Real::read`] and the like convert: doubles need none.
    fn room(len: usize) -> usize;

    /// Doubles as these numbers: they themselves, or converted in the room for it.
    fn read<'a>(doubles: &'a [f64], room: &'a mut impl Room<Self>) -> &'a [Self];

    /// As [`Real::read`] gave them when it was last called with this room.
    fn reread<'a>(doubles: &'a [f64], room: &'a impl Room<Self>) -> &'a [Self];

    /// Where to write what [`Real::write`] makes doubles.
    fn place<'a>(doubles: &'a mut [f64], room: &'a mut impl Room<Self>) -> &'a mut [Self];

    fn write(room: &impl Room<Self>, doubles: &mut impl Room<f64>);

    /// Where to add what [`Real::add`] adds to doubles.
    fn place_to_add<'a>(doubles: &'a mut [f64], room: &'a mut impl Room<Self>) -> &'a mut [Self];

    fn add(room: &impl Room<Self>, doubles: &mut impl Room<f64>);
}

impl Real for f64 {
    type Lanes<S: Simd> = Doubles<S>;

    #[inline(always)]
    fn lanes<S: Simd>(simd: S) -> Doubles<S> {
        Doubles(simd)
    }

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn double(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(doubles: &[f64], out: &mut [Self]) {
        out.copy_from_slice(doubles);
    }

    #[inline(always)]
    fn widen(values: &[Self], doubles: &mut [f64]) {
        doubles.copy_from_slice(values);
    }

    fn room(_: usize) -> usize {
        0
    }

    #[inline(always)]
    fn read<'a>(doubles: &'a [f64], _: &'a mut impl Room<Self>) -> &'a [Self] {
        doubles
    }

    #[inline(always)]
    fn reread<'a>(doubles: &'a [f64], _: &'a impl Room<Self>) -> &'a [Self] {
        doubles
    }

    #[inline(always)]
    fn place<'a>(doubles: &'a mut [f64], _: &'a mut impl Room<Self>) -> &'a mut [Self] {
        doubles
    }

    #[inline(always)]
    fn write(_: &impl Room<Self>, _: &mut impl Room<f64>) {}

    #[inline(always)]
    fn place_to_add<'a>(doubles: &'a mut [f64], _: &'a mut impl Room<Self>) -> &'a mut [Self] {
        doubles
    }

    #[inline(always)]
    fn add(_: &impl Room<Self>, _: &mut impl Room<f64>) {}
}

impl Real for f32 {
    type Lanes<S: Simd> = Singles<S>;

    #[inline(always)]
    fn lanes<S: Simd>(simd: S) -> Singles<S> {
        Singles(simd)
    }

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to a single is what it is for"
    )]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn double(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(doubles: &[f64], out: &mut [Self]) {
        // Eight at a time: with one loop over all, ten episodes of the paper's model took 6.8 µs instead of 4.8.
        let (eights, rest) = doubles.as_chunks::<8>();
        let (out_eights, out_rest) = out.as_chunks_mut::<8>();
        for (out, values) in out_eights.iter_mut().zip(eights) {
            *out = values.map(Self::of);
        }
        for (out, value) in out_rest.iter_mut().zip(rest) {
            *out = Self::of(*value);
        }
    }

    #[inline(always)]
    fn widen(values: &[Self], doubles: &mut [f64]) {
        for (out, value) in doubles.iter_mut().zip(values) {
            *out = f64::from(*value);
        }
    }

    fn room(len: usize) -> usize {
        len
    }

    #[inline(always)]
    fn read<'a>(doubles: &'a [f64], room: &'a mut impl Room<Self>) -> &'a [Self] {
        Self::narrow(doubles, room);
        room
    }

    #[inline(always)]
    fn reread<'a>(_: &'a [f64], room: &'a impl Room<Self>) -> &'a [Self] {
        room
    }

    #[inline(always)]
    fn place<'a>(_: &'a mut [f64], room: &'a mut impl Room<Self>) -> &'a mut [Self] {
        room
    }

    #[inline(always)]
    fn write(room: &impl Room<Self>, doubles: &mut impl Room<f64>) {
        Self::widen(room, doubles);
    }

    #[inline(always)]
    fn place_to_add<'a>(_: &'a mut [f64], room: &'a mut impl Room<Self>) -> &'a mut [Self] {
        room.fill(0.0);
        room
    }

    #[inline(always)]
    fn add(room: &impl Room<Self>, doubles: &mut impl Room<f64>) {
        for (out, value) in doubles.iter_mut().zip(&**room) {
            *out += f64::from(*value);
        }
    }
}

/// Vectors of numbers, and what can be done with them.
pub(crate) trait Lanes: Copy {
    type Real: Real;
    type Vector: Copy;
    type Mask: Copy;
    /// With the same instructions.
    type Doubles: Lanes<Real = f64>;

    /// Numbers in a vector.
    const COUNT: usize;
    const REGISTERS: usize;
    /// The largest number whose exponential, and that of its negative, [`Lanes::exp`] finds.
    const LARGEST_EXPONENT: f64;

    fn doubles(self) -> Self::Doubles;
    fn vectors(table: &[Self::Real]) -> &[Self::Vector];
    fn vectors_mut(table: &mut [Self::Real]) -> &mut [Self::Vector];
    fn splat(self, value: Self::Real) -> Self::Vector;
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn neg(self, a: Self::Vector) -> Self::Vector;
    fn abs(self, a: Self::Vector) -> Self::Vector;
    /// `a b + c`, rounded once where there is an instruction for it.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    fn equal(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    fn less_than(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    fn greater_than(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    fn select(self, mask: Self::Mask, yes: Self::Vector, no: Self::Vector) -> Self::Vector;
    /// The sum of all lanes.
    fn sum(self, a: Self::Vector) -> Self::Real;
    /// `e^x` within [`Lanes::LARGEST_EXPONENT`].
    fn exp(self, x: Self::Vector) -> Self::Vector;
    /// `1/3 + q/5 + q²/7 + …` for `0 ≤ q ≤ (√2 − 1)²/(√2 + 1)²`.
    fn artanh_tail(self, q: Self::Vector) -> Self::Vector;

    /// A constant in every lane.
    #[inline(always)]
    fn constant(self, value: f64) -> Self::Vector {
        self.splat(Self::Real::of(value))
    }
}

/// Vectors of doubles.
#[derive(Clone, Copy)]
pub(crate) struct Doubles<S>(pub(crate) S);

/// Vectors of singles.
#[derive(Clone, Copy)]
pub(crate) struct Singles<S>(pub(crate) S);

macro_rules! lanes {
    (
        $name:ident, $real:ident, $vector:ident, $mask:ident, $count:ident, $largest:expr,
        ($vectors:ident, $vectors_mut:ident, $splat:ident, $select:ident, $sum:ident, $exp:path, $tail:path),
        unary: $($unary:ident = $unary_of:ident),*;
        binary: $($binary:ident = $binary_of:ident),*;
        compare: $($compare:ident = $compare_of:ident),*;
        mul_add: $mul_add:ident
    ) => {
        impl<S: Simd> Lanes for $name<S> {
            type Real = $real;
            type Vector = S::$vector;
            type Mask = S::$mask;
            type Doubles = Doubles<S>;

            const COUNT: usize = S::$count;
            const REGISTERS: usize = S::REGISTER_COUNT;
            const LARGEST_EXPONENT: f64 = $largest;

            #[inline(always)]
            fn doubles(self) -> Doubles<S> {
                Doubles(self.0)
            }

            #[inline(always)]
            fn vectors(table: &[$real]) -> &[Self::Vector] {
                S::$vectors(table).0
            }

            #[inline(always)]
            fn vectors_mut(table: &mut [$real]) -> &mut [Self::Vector] {
                S::$vectors_mut(table).0
            }

            #[inline(always)]
            fn splat(self, value: $real) -> Self::Vector {
                self.0.$splat(value)
            }

            #[inline(always)]
            fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
                self.0.$mul_add(a, b, c)
            }

            #[inline(always)]
            fn select(self, mask: Self::Mask, yes: Self::Vector, no: Self::Vector) -> Self::Vector {
                self.0.$select(mask, yes, no)
            }

            #[inline(always)]
            fn sum(self, a: Self::Vector) -> $real {
                self.0.$sum(a)
            }

            #[inline(always)]
            fn exp(self, x: Self::Vector) -> Self::Vector {
                $exp(self.0, x)
            }

            #[inline(always)]
            fn artanh_tail(self, q: Self::Vector) -> Self::Vector {
                $tail(self.0, q)
            }

            $(
                #[inline(always)]
                fn $unary(self, a: Self::Vector) -> Self::Vector {
                    self.0.$unary_of(a)
                }
            )*

            $(
                #[inline(always)]
                fn $binary(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                    self.0.$binary_of(a, b)
                }
            )*

            $(
                #[inline(always)]
                fn $compare(self, a: Self::Vector, b: Self::Vector) -> Self::Mask {
                    self.0.$compare_of(a, b)
                }
            )*
        }
    };
}

lanes!(
    Doubles, f64, f64s, m64s, F64_LANES, 708.0,
    (as_simd_f64s, as_mut_simd_f64s, splat_f64s, select_f64s, reduce_sum_f64s, math::exp_f64, math::artanh_tail_f64),
    unary: neg = neg_f64s, abs = abs_f64s;
    binary: add = add_f64s, sub = sub_f64s, mul = mul_f64s, div = div_f64s, min = min_f64s, max = max_f64s;
    compare: equal = equal_f64s, less_than = less_than_f64s, greater_than = greater_than_f64s;
    mul_add: mul_add_e_f64s
);

lanes!(
    Singles, f32, f32s, m32s, F32_LANES, 87.0,
    (as_simd_f32s, as_mut_simd_f32s, splat_f32s, select_f32s, reduce_sum_f32s, math::exp_f32, math::artanh_tail_f32),
    unary: neg = neg_f32s, abs = abs_f32s;
    binary: add = add_f32s, sub = sub_f32s, mul = mul_f32s, div = div_f32s, min = min_f32s, max = max_f32s;
    compare: equal = equal_f32s, less_than = less_than_f32s, greater_than = greater_than_f32s;
    mul_add: mul_add_e_f32s
);
