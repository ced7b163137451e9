//! Quantiles of Student's t distribution.

/// The value that a t variable with so many degrees of freedom stays below with a probability of at least one half.
///
/// By bisection of the distribution function, which is accurate to about 1e-13; infinite without degrees of freedom.
#[must_use]
pub fn student_quantile(degrees: usize, probability: f64) -> f64 {
    if degrees == 0 || probability >= 1.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_distribution(degrees, high) < probability {
        low = high;
        high *= 2.0;
        if high > 1e12 {
            return high;
        }
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if student_distribution(degrees, middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// `P(T ≤ t)` for `t ≥ 0`: `1 − I_x(ν/2, 1/2) / 2` at `x = ν / (ν + t²)`.
fn student_distribution(degrees: usize, t: f64) -> f64 {
    let nu = degrees as f64;
    1.0 - 0.5 * incomplete_beta(0.5 * nu, 0.5, nu / (nu + t * t))
}

/// What stands for zero in a denominator.
const TINY: f64 = 1e-300;

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast below the mean of the beta distribution; above it the symmetry is used.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let factor =
        (a * x.ln() + b * (-x).ln_1p() + libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)).exp();
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for index in 1..500 {
        let m = f64::from(index);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    factor * fraction / a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        for (degrees, probability, expected) in [
            (1, 0.975, 12.706_204_736),
            (2, 0.975, 4.302_652_730),
            (9, 0.975, 2.262_157_163),
            (9, 0.999, 4.296_805_663),
            (30, 0.95, 1.697_260_887),
            (10_000, 0.975, 1.960_201_264),
        ] {
            let found = student_quantile(degrees, probability);
            assert!(
                (found - expected).abs() < 1e-7,
                "{degrees}, {probability}: {found}"
            );
        }
        assert_eq!(student_quantile(0, 0.975), f64::INFINITY);
    }
}
