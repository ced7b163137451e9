//! One VM of the workload: its parameters and its state from reading to reading.

use rand_chacha::ChaCha8Rng;

use super::{Bursts, LogNormal, Noise, Workload};
use crate::random::{Purpose, exponential, normal, normal_pair, stream, uniform};

/// The infinite series of readings of one VM.
pub(super) struct Vm {
    generator: ChaCha8Rng,
    level: f64,
    amplitude: f64,
    phase: f64,
    phase_step: f64,
    drift: Autoregression,
    jitter: Autoregression,
    surge: Burst,
    spike: Burst,
    scale: f64,
}

impl Vm {
    /// Draws the VM's own parameters, and its state at the first reading from the stationary law.
    pub(super) fn new(workload: &Workload, seed: u64, vm: u64) -> Self {
        let mut generator = stream(seed, Purpose::Readings, vm);
        let g = &mut generator;
        let outlying = uniform(g) < workload.level.outlying_share;
        let z = normal(g);
        let exponent = if outlying {
            workload.level.outlying_shift + workload.level.outlying_spread * z
        } else {
            workload.level.spread * z
        };
        let level = workload.level.median * libm::exp(exponent);
        let amplitude = draw(workload.wave, g);
        let phase = std::f64::consts::TAU * uniform(g);
        let drift = Autoregression::new(workload.drift, g);
        let jitter = Autoregression::new(workload.jitter, g);
        let surge = Burst::new(workload.surges, g);
        let spike = Burst::new(workload.spikes, g);
        Self {
            level,
            amplitude,
            phase,
            phase_step: std::f64::consts::TAU / workload.day,
            drift,
            jitter,
            surge,
            spike,
            scale: workload.scale,
            generator,
        }
    }

    /// The next reading: `scale · (1 − e^{−load})`.
    pub(super) fn next(&mut self) -> f64 {
        let g = &mut self.generator;
        let exponent = self.amplitude * libm::sin(self.phase) + self.drift.value + self.jitter.value;
        let load = self.level * libm::exp(exponent) + self.surge.load + self.spike.load;

        let (slow, fast) = normal_pair(g);
        self.phase = (self.phase + self.phase_step) % std::f64::consts::TAU;
        self.drift.advance(slow);
        self.jitter.advance(fast);
        self.surge.advance(g);
        self.spike.advance(g);
        self.scale * -libm::expm1(-load)
    }
}

fn draw(law: LogNormal, generator: &mut ChaCha8Rng) -> f64 {
    law.median * libm::exp(law.spread * normal(generator))
}

/// A stationary AR(1): `y ← φ y + σ √(1 − φ²) z`.
pub(super) struct Autoregression {
    pub(super) value: f64,
    memory: f64,
    innovation: f64,
}

impl Autoregression {
    fn new(noise: Noise, generator: &mut ChaCha8Rng) -> Self {
        let deviation = draw(noise.deviation, generator);
        let memory = libm::exp(-1.0 / draw(noise.steps, generator));
        Self::stationary(deviation, memory, generator)
    }

    /// Deviation `σ` and memory `φ` are given; the state is drawn from the stationary law.
    pub(super) fn stationary(deviation: f64, memory: f64, generator: &mut ChaCha8Rng) -> Self {
        Self {
            value: deviation * normal(generator),
            memory,
            innovation: deviation * (1.0 - memory * memory).sqrt(),
        }
    }

    pub(super) fn advance(&mut self, z: f64) {
        self.value = self.memory * self.value + self.innovation * z;
    }
}

/// A two-state chain: quiet, or under a burst of one height.
struct Burst {
    begins: f64,
    ends: f64,
    height: f64,
    load: f64,
}

impl Burst {
    fn new(bursts: Bursts, generator: &mut ChaCha8Rng) -> Self {
        let begins = -libm::expm1(-draw(bursts.rate, generator));
        let ends = 1.0 / (1.0 + draw(bursts.extra_steps, generator));
        let mut burst = Self {
            begins,
            ends,
            height: draw(bursts.height, generator),
            load: 0.0,
        };
        if uniform(generator) < begins / (begins + ends) {
            burst.begin(generator);
        }
        burst
    }

    fn begin(&mut self, generator: &mut ChaCha8Rng) {
        self.load = self.height * exponential(generator);
    }

    fn advance(&mut self, generator: &mut ChaCha8Rng) {
        let u = uniform(generator);
        if self.load > 0.0 {
            if u < self.ends {
                self.load = 0.0;
            }
        } else if u < self.begins {
            self.begin(generator);
        }
    }
}
